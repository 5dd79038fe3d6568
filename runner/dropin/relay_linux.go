package dropin

import (
	"bytes"
	"errors"
	"io"
	"os"
	"time"
)

// Marker begins the line that has the value.
const Marker = "__DR_SANDBOX_RESULT__:"

// relay passes the tree's stdout on, to know where it ends: the marker needs a line of its own.
type relay struct {
	to          *os.File
	read, write *os.File
	// tail are the last bytes that came, as many as the longest end of a line has.
	tail []byte
	fail error
	done chan struct{}
}

func newRelay(to *os.File) (*relay, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return &relay{to: to, read: read, write: write, done: make(chan struct{})}, nil
}

// run reads to the end, also when nobody takes it any more: the program isn't held up by that.
func (r *relay) run() {
	defer close(r.done)
	buffer := make([]byte, 64<<10)
	for {
		n, err := r.read.Read(buffer)
		if n > 0 {
			r.tail = append(r.tail, buffer[max(n-3, 0):n]...)
			r.tail = r.tail[max(len(r.tail)-3, 0):]
			if r.fail == nil {
				_, r.fail = r.to.Write(buffer[:n])
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrDeadlineExceeded) {
				r.fail = errors.Join(r.fail, err)
			}
			return
		}
	}
}

// finish waits for what is left in the pipe. gone says that nobody has its other end.
func (r *relay) finish(gone bool) {
	if !gone {
		if err := r.read.SetReadDeadline(time.Now()); err != nil {
			r.read.Close()
		}
	}
	<-r.done
}

// marker writes the value behind everything else.
func (r *relay) marker(value []byte) error {
	if r.fail != nil {
		return r.fail
	}
	line := make([]byte, 0, len(value)+len(Marker)+2)
	if len(r.tail) > 0 && !endsLine(r.tail) {
		line = append(line, '\n')
	}
	line = append(append(append(line, Marker...), value...), '\n')
	_, err := r.to.Write(line)
	return err
}

// endsLine says whether a text ends where Python's str.splitlines ends a line; there, one more line feed would be one more line.
func endsLine(text []byte) bool {
	for _, end := range []string{"\n", "\r", "\v", "\f", "\x1c", "\x1d", "\x1e", "\u0085", "\u2028", "\u2029"} {
		if bytes.HasSuffix(text, []byte(end)) {
			return true
		}
	}
	return false
}
