package python

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/sandboxd/sandboxd/policy"
)

// Long is a value that is too long for memory. Its text, as the program wrote it, is where [ReadLong] wrote it to.
type Long struct {
	// Begin and End are where the value is in that text, without the blanks around it.
	Begin, End int64
	// NaNs, Infinities and NegativeInfinities are how many of these tokens it has, which JSON hasn't.
	NaNs, Infinities, NegativeInfinities int64
}

// pieceBytes is how much of a value is looked at at a time.
const pieceBytes = 64 << 10

// ReadLong is [ReadResult] for a value of at most limit bytes of which no more than short are kept in memory: a longer one is judged as it comes, and written
// to to. Its error is a value that can't be had.
func ReadLong(r *os.File, limit, short int64, to io.Writer) Result {
	return readLong(r, limit, short, to)
}

func readLong(r io.Reader, limit, short int64, to io.Writer) Result {
	return readFrame(r, limit, short, func(letter byte, size int64) Result {
		result := judgeLong(io.LimitReader(r, size), letter, size, limit, to)
		if result.Long != nil {
			if wrong := noMore(r); wrong != nil {
				return *wrong
			}
		}
		return result
	})
}

// ReadLongText is [ReadText] in the same way.
func ReadLongText(r *os.File, limit, short int64, to io.Writer) Result {
	return readLongText(r, limit, short, to)
}

func readLongText(r io.Reader, limit, short int64, to io.Writer) Result {
	defer func() { _, _ = io.Copy(io.Discard, r) }()
	var begun bytes.Buffer
	n, err := io.Copy(&begun, io.LimitReader(r, min(short, limit)+1))
	switch {
	case err != nil && !errors.Is(err, os.ErrDeadlineExceeded):
		return failed("reading the value: %v", err)
	case n <= min(short, limit):
		return judgeText(begun.Bytes())
	}
	return judgeLong(io.MultiReader(&begun, r), frameValue, 0, limit, to)
}

// judgeLong reads to the end of r, and no further than to a fault. What is shorter than least was cut off.
func judgeLong(r io.Reader, letter byte, least, limit int64, to io.Writer) Result {
	read := int64(0)
	s := policy.JSONScanner{NonFinite: true}
	piece := make([]byte, pieceBytes)
	for {
		n, err := r.Read(piece)
		if read += int64(n); read > limit {
			return failed("the value has more than %d bytes", limit)
		}
		took, wrong := s.Scan(piece[:n])
		if wrong == nil && len(bytes.Trim(piece[took:n], blanks)) > 0 {
			wrong = errors.New("more than one JSON value")
		}
		if wrong != nil {
			return failed("the value is out of bounds: %v", wrong)
		}
		if _, err := to.Write(piece[:n]); err != nil {
			return failed("the value can't be kept: %v", err)
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrDeadlineExceeded) {
			return failed("reading the value: %v", err)
		}
		break
	}
	if read < least {
		return failed("the value was cut off")
	}
	if err := s.End(); err != nil {
		return failed("the value is out of bounds: %v", err)
	}
	long := &Long{NaNs: s.NaNs, Infinities: s.Infinities, NegativeInfinities: s.NegativeInfinities}
	long.Begin, long.End = s.Bounds()
	result := Result{How: HowValue, Long: long}
	switch {
	case letter == frameRepr && (!s.IsString() || long.Begin > 0):
		return failed("what the program sent isn't a value")
	case letter == frameRepr:
		result.How, result.Reason = HowRepr, reprReason
	case long.nonFinite() > 0:
		result.How, result.Reason = HowReplaced, fmt.Sprintf(replacedReason, long.nonFinite())
	}
	return result
}

func (l Long) nonFinite() int64 { return l.NaNs + l.Infinities + l.NegativeInfinities }

// FiniteLen is the length of what [Long.CopyFinite] writes.
func (l Long) FiniteLen() int64 {
	const null = int64(len("null"))
	return l.End - l.Begin + l.NaNs*(null-int64(len("NaN"))) + l.Infinities*(null-int64(len("Infinity"))) +
		l.NegativeInfinities*(null-int64(len("-Infinity")))
}

// CopyFinite writes the value, read from Begin to End, as JSON on one line: with null for what isn't finite, and a blank for the end of a line. The slice
// that write gets is valid until it returns.
func (l Long) CopyFinite(text io.Reader, write func([]byte) error) error {
	f := finite{out: make([]byte, 0, 2*pieceBytes)}
	piece := make([]byte, pieceBytes)
	for {
		n, err := text.Read(piece)
		out := piece[:n]
		if l.nonFinite() > 0 {
			out = f.filter(out)
		}
		for i, c := range out { // none of a string
			if c == '\n' || c == '\r' {
				out[i] = ' '
			}
		}
		if len(out) > 0 {
			if err := write(out); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// finite replaces tokens in a text that comes in pieces, and that was judged before: no more needs to be looked at than how a token begins.
type finite struct {
	out              []byte
	skip             int
	inString, escape bool
	minus            bool
}

func (f *finite) filter(piece []byte) []byte {
	f.out = f.out[:0]
	for _, c := range piece {
		switch {
		case f.skip > 0:
			f.skip--
			continue
		case f.inString:
			f.inString = c != '"' || f.escape
			f.escape = c == '\\' && !f.escape
		case c == 'N':
			f.out, f.skip = append(f.out, "null"...), len("aN")
			continue
		case c == 'I':
			f.out, f.skip, f.minus = append(f.out, "null"...), len("nfinity"), false
			continue
		case c == '-':
			f.minus = true
			continue
		default:
			f.inString = c == '"'
		}
		if f.minus {
			f.out, f.minus = append(f.out, '-'), false
		}
		f.out = append(f.out, c)
	}
	return f.out
}
