package runner

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ErrSpoke says that a child that was started ahead has written to its output before anybody wanted any.
var ErrSpoke = errors.New("it has written to its output while it waited")

// Silent says whether a child that waits has written nothing yet: not a byte is in the pipes of its output.
func (c *Child) Silent() error {
	if !c.waiting {
		return fmt.Errorf("%w: it isn't waiting", ErrProtocol)
	}
	for _, r := range []*reader{c.stdout, c.stderr} {
		var waiting int
		var failed error
		raw, err := r.file.SyscallConn()
		if err == nil {
			err = raw.Control(func(fd uintptr) { waiting, failed = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
		}
		switch {
		case errors.Join(err, failed) != nil:
			return fmt.Errorf("%s: %w", r.name, errors.Join(err, failed))
		case waiting > 0:
			return fmt.Errorf("%s: %w: %d bytes", r.name, ErrSpoke, waiting)
		}
	}
	return nil
}

// Begin ends the wait of a child that was started ahead: its time runs from here, and its output is read, within other bounds than those it was
// prepared with. A child that has said something, or has ended, is an error, and nothing has begun.
func (c *Child) Begin(with IO) error {
	if c.released.IsZero() {
		return fmt.Errorf("%w: begun before its release", ErrProtocol)
	}
	if err := c.Silent(); err != nil {
		return err
	}
	used, err := processorTime(c.pid)
	c.mu.Lock()
	gone := c.over || c.pidfd < 0 || ended(c.pidfd)
	c.mu.Unlock()
	if gone {
		return fmt.Errorf("begin: %w", os.ErrProcessDone)
	}
	if err != nil {
		return err
	}
	c.cpuBefore = used
	c.stdout.bound(with, c.overLimit)
	c.stderr.bound(with, c.overLimit)
	c.waiting, c.released = false, time.Now()
	c.flow()
	return nil
}

// bound says what is kept of a stream that nobody reads yet, and who hears of it.
func (r *reader) bound(with IO, over func()) {
	r.limit, r.tee, r.over = with.OutputBytes, with.Tee, nil
	if with.OnLimit == KillTree {
		r.over = over
	}
}

// processorTime is what a process has used so far, all its threads, by its own clock (clock_getcpuclockid(3)).
func processorTime(pid int) (time.Duration, error) {
	const scheduled = 2 // CPUCLOCK_SCHED, of a process
	var now unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduled), &now); err != nil {
		return 0, os.NewSyscallError("clock_gettime", err)
	}
	return time.Duration(now.Nano()), nil
}
