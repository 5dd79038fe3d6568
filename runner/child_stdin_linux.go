package runner

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// feed is the child's stdin: a pipe, since programs treat a file differently.
type feed struct {
	file *os.File // nil once all is written
	rest []byte
	done chan struct{}
}

// newFeed writes what a pipe takes at once, before there is a child; where somebody else writes there is nothing to write. The read end is the caller's.
func newFeed(data []byte, input *os.File) (*feed, int, error) {
	if input != nil {
		read, err := unix.FcntlInt(input.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		return &feed{}, read, os.NewSyscallError("fcntl", err)
	}
	read, write, err := pipe()
	if err != nil {
		return nil, -1, err
	}
	f := &feed{rest: data}
	if len(data) > 0 {
		err = unix.SetNonblock(write, true)
		for err == nil && len(f.rest) > 0 {
			var n int
			n, err = unix.Write(write, f.rest)
			f.rest = f.rest[max(n, 0):]
		}
		if err != nil && !errors.Is(err, unix.EAGAIN) {
			unix.Close(read)
			unix.Close(write)
			return nil, -1, os.NewSyscallError("write", err)
		}
	}
	if len(f.rest) == 0 {
		unix.Close(write)
		return f, read, nil
	}
	f.file = os.NewFile(uintptr(write), "stdin")
	f.done = make(chan struct{})
	return f, read, nil
}

// run writes the rest. A child that doesn't read it is no error: EPIPE, or the end by stop.
func (f *feed) run() {
	defer close(f.done)
	_, _ = f.file.Write(f.rest)
	f.file.Close()
}

// stop ends the writing, started or not.
func (f *feed) stop(started bool) {
	if f.file == nil {
		return
	}
	f.file.Close()
	if started {
		<-f.done
	}
}
