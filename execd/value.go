package execd

import (
	"io"

	"github.com/sandboxd/sandboxd/execd/spool"
	"github.com/sandboxd/sandboxd/runner/python"
)

// Value is the value of a run that is too long for memory. It was judged when it came.
type Value struct {
	text *spool.Text
	long python.Long
}

// Len is how many bytes [Value.Pieces] gives.
func (v *Value) Len() int64 { return v.long.FiniteLen() }

// Pieces gives the value as JSON on one line, piece by piece; each is valid until take returns. The error is take's, or the disk's.
func (v *Value) Pieces(take func([]byte) error) error {
	return v.long.CopyFinite(v.Python(), take)
}

// Python reads the value as Python wrote it, with NaN, Infinity and -Infinity in place.
func (v *Value) Python() io.Reader { return v.text.Reader(v.long.Begin, v.long.End) }

// Close gives its file up. A nil Value has none.
func (v *Value) Close() {
	if v != nil {
		v.text.Close()
	}
}
