package runner

import (
	"errors"
	"io"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// pieces are buffers for output that isn't kept: a stream has one only while it has something to say.
var pieces = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// pour passes one piece on, and says whether to go on.
func (r *reader) pour() bool {
	raw, err := r.file.SyscallConn()
	if err != nil {
		return r.goOn(err)
	}
	n, failed := 0, error(nil)
	var piece *[32 << 10]byte
	err = raw.Read(func(fd uintptr) bool {
		piece = pieces.Get().(*[32 << 10]byte)
		if n, failed = r.take(int(fd), piece[:]); errors.Is(failed, unix.EAGAIN) {
			pieces.Put(piece)
			piece = nil
			return false
		}
		return true
	})
	if piece != nil {
		defer pieces.Put(piece)
	}
	if err != nil {
		return r.goOn(err)
	}
	if failed == nil && n == 0 || r.terminal && errors.Is(failed, unix.EIO) {
		failed = io.EOF
	}
	if n > 0 {
		r.out.Total += int64(n)
		r.tee(r.name, piece[:n])
		r.flow.pass(int64(n))
	}
	return r.goOn(failed)
}

// take reads once, and counts that.
func (r *reader) take(fd int, to []byte) (int, error) {
	r.flow.mu.Lock()
	defer r.flow.mu.Unlock()
	n, err := readOnce(fd, to)
	r.flow.taken += int64(n)
	return n, err
}

func readOnce(fd int, to []byte) (int, error) {
	for {
		n, err := unix.Read(fd, to)
		if !errors.Is(err, unix.EINTR) {
			return max(n, 0), err
		}
	}
}

// drain passes on what is in the pipe now, without waiting for more: all that the leader wrote, who has ended, and no more than that of those who write on.
func (r *reader) drain() {
	raw, err := r.file.SyscallConn()
	if err != nil {
		return
	}
	if r.terminal {
		r.drainTerminal(raw)
		return
	}
	waiting := 0
	r.control(func(fd uintptr) { waiting, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	if err != nil {
		return
	}
	piece := pieces.Get().(*[32 << 10]byte)
	defer pieces.Put(piece)
	for waiting > 0 {
		n, failed := 0, error(nil)
		if err := raw.Control(func(fd uintptr) { n, failed = readOnce(int(fd), piece[:min(waiting, len(piece))]) }); err != nil || failed != nil || n == 0 {
			break
		}
		waiting -= n
		r.out.Total += int64(n)
		r.tee(r.name, piece[:n])
	}
	r.out.Incomplete = waiting > 0
}

// drainTerminal does that for a terminal, whose tree is gone: the kernel hands over what was written before it says that nobody has the other end.
func (r *reader) drainTerminal(raw syscall.RawConn) {
	piece := pieces.Get().(*[32 << 10]byte)
	defer pieces.Put(piece)
	for {
		n, failed := 0, error(nil)
		if err := raw.Control(func(fd uintptr) { n, failed = readOnce(int(fd), piece[:]) }); err != nil || failed != nil || n == 0 {
			r.out.Incomplete = err != nil || !errors.Is(failed, unix.EIO)
			return
		}
		r.out.Total += int64(n)
		r.tee(r.name, piece[:n])
	}
}

// discardRest reads on what those write who were left behind: a pipe that nobody reads would hold them up, and one that is closed would kill them.
func (r *reader) discardRest() {
	defer close(r.rest)
	for {
		if n, err := r.discard(); err != nil || n == 0 {
			return
		}
	}
}
