package relay

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// pump moves bytes one way. While it waits it has nothing in hand: neither buffer nor pipe, so that an idle connection is two descriptors and two small
// stacks. Bytes that come are read into a buffer of the pool; a read that fills it is the sign of a stream, which then goes through a pipe of the pool
// by splice(2), as long as much comes at a time. Nothing is read that hasn't been written: a slow reader slows the writer.
type pump struct {
	c      *conn
	srcRaw syscall.RawConn
	dst    *net.TCPConn
	dstRaw syscall.RawConn
	moved  *atomic.Int64
	// hear sees what is read before it is written; nil: nobody does. It doesn't see what goes through a pipe.
	hear func([]byte)

	buf  *[bufferSize]byte // nil: nothing in hand
	have int

	// What the functions below work on and leave behind. They are made once: one for each call would be garbage for each call.
	read, in, out func(fd uintptr) bool
	want, n       int
	err           error
	pipe          *pipe
}

const bufferSize = 32 << 10

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// errNoPipe is that all pipes are in use.
var errNoPipe = errors.New("relay: no pipe")

// errWrite wraps what writing said: it is the reader's end that is gone.
type errWrite struct{ error }

func (e errWrite) Unwrap() error { return e.error }

func newPump(c *conn, src *net.TCPConn, moved *atomic.Int64) (*pump, error) {
	raw, err := src.SyscallConn()
	if err != nil {
		return nil, err
	}
	p := &pump{c: c, srcRaw: raw, moved: moved}
	p.read, p.in, p.out = p.tryRead, p.tryIn, p.tryOut
	return p, nil
}

// to says where the bytes go.
func (p *pump) to(dst *net.TCPConn) error {
	raw, err := dst.SyscallConn()
	p.dst, p.dstRaw = dst, raw
	return err
}

// tryRead reads behind what the buffer has. With nothing to read and nothing in the buffer it gives it back before it waits.
func (p *pump) tryRead(fd uintptr) bool {
	if p.buf == nil {
		p.buf = buffers.Get().(*[bufferSize]byte)
	}
	p.n, p.err = ignoringEINTR(func() (int, error) { return unix.Read(int(fd), p.buf[p.have:p.want]) })
	if errors.Is(p.err, unix.EAGAIN) {
		p.empty()
		return false
	}
	return true
}

// tryIn moves what has come into a pipe, which is empty. With nothing there it gives the pipe back before it waits.
func (p *pump) tryIn(fd uintptr) bool {
	if p.pipe == nil {
		if p.pipe = p.c.server.takePipe(); p.pipe == nil {
			p.n, p.err = 0, errNoPipe
			return true
		}
	}
	p.n, p.err = ignoringEINTR(func() (int, error) {
		n, err := unix.Splice(int(fd), nil, p.pipe.w, nil, p.want, unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
		return int(n), err
	})
	if errors.Is(p.err, unix.EAGAIN) { // the socket's, not the pipe's
		p.noPipe(true)
		return false
	}
	return true
}

// noPipe gives the pipe back.
func (p *pump) noPipe(empty bool) {
	if p.pipe != nil {
		p.c.server.givePipe(p.pipe, empty)
		p.pipe = nil
	}
}

func (p *pump) tryOut(fd uintptr) bool {
	n, err := ignoringEINTR(func() (int, error) {
		n, err := unix.Splice(p.pipe.r, nil, int(fd), nil, p.want, unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
		return int(n), err
	})
	p.n, p.err = n, err
	return !errors.Is(err, unix.EAGAIN)
}

func ignoringEINTR(f func() (int, error)) (int, error) {
	for {
		n, err := f()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// empty gives the buffer back if nothing is in it.
func (p *pump) empty() {
	if p.buf != nil && p.have == 0 {
		buffers.Put(p.buf)
		p.buf = nil
	}
}

// letGo gives the buffer back, whatever is in it.
func (p *pump) letGo() {
	p.have = 0
	p.empty()
}

// more waits for bytes and reads them behind those it has, at most limit of them. io.EOF is the end.
func (p *pump) more(limit int64) error {
	p.want = bufferSize
	if limit < int64(bufferSize-p.have) {
		p.want = p.have + int(limit)
	}
	if err := p.srcRaw.Read(p.read); err != nil {
		return err
	}
	if p.err != nil {
		return p.err
	}
	if p.n == 0 {
		return io.EOF
	}
	if p.hear != nil {
		p.hear(p.buf[p.have : p.have+p.n])
	}
	p.have += p.n
	p.c.touch()
	return nil
}

// write writes the first n bytes of the buffer, and moves what is behind them to the front.
func (p *pump) write(n int) error {
	if n == 0 {
		return nil
	}
	if _, err := p.dst.Write(p.buf[:n]); err != nil {
		return errWrite{err}
	}
	p.moved.Add(int64(n))
	p.c.touch()
	p.drop(n)
	return nil
}

// drop forgets the first n bytes of the buffer.
func (p *pump) drop(n int) {
	p.have = copy(p.buf[:], p.buf[n:p.have])
	p.empty()
}

// run moves so many bytes, or all there are when limit is negative. io.EOF is the end of what the source has to say.
func (p *pump) run(limit int64) error {
	unlimited := limit < 0
	if unlimited {
		limit = 1<<63 - 1
	}
	if p.have > 0 {
		n := min(int64(p.have), limit)
		if err := p.write(int(n)); err != nil {
			return err
		}
		limit -= n
	}
	for limit > 0 {
		if err := p.more(limit); err != nil {
			return err
		}
		n, full := p.have, p.have == bufferSize
		if err := p.write(n); err != nil {
			return err
		}
		limit -= int64(n)
		if full {
			moved, err := p.stream(limit)
			if err != nil {
				return err
			}
			limit -= moved
		}
	}
	return nil
}

// mostSmall is how many times in a row little may come before it isn't a stream any more.
const mostSmall = 8

// stream moves bytes through pipes until little comes.
func (p *pump) stream(limit int64) (int64, error) {
	p.c.bound()
	total := int64(0)
	for small := 0; total < limit && small < mostSmall; {
		p.want = int(min(pipeSize, limit-total))
		err := p.srcRaw.Read(p.in)
		switch {
		case err == nil && errors.Is(p.err, errNoPipe):
			return total, nil
		case err == nil && p.err != nil:
			err = p.err
		case err == nil && p.n == 0:
			err = io.EOF
		}
		if err != nil {
			p.noPipe(true)
			return total, err
		}
		p.c.touch()
		n := p.n
		if err := p.drain(n); err != nil {
			p.noPipe(false)
			return total, errWrite{err}
		}
		total += int64(n)
		if small++; n >= bufferSize/2 {
			small = 0
		}
	}
	p.noPipe(true)
	return total, nil
}

// drain moves n bytes from the pipe to where they go.
func (p *pump) drain(n int) error {
	for p.want = n; p.want > 0; p.want -= p.n {
		if err := p.dstRaw.Write(p.out); err != nil {
			return err
		}
		if p.err != nil {
			return p.err
		}
		if p.n == 0 {
			return io.ErrUnexpectedEOF
		}
		p.moved.Add(int64(p.n))
		p.c.touch()
	}
	return nil
}
