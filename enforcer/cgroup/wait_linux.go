package cgroup

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// firstLook is how long WaitEmpty waits for a notice before it looks again by itself, at first. The kernel spaces notices of one file at least
// 10 ms apart (CGROUP_FILE_NOTIFY_MIN_INTV), and the first process of a short exec has just caused one: the truth can be read long before.
const firstLook = time.Millisecond

// lastLook is where looking by itself ends: by then a notice has come, or will.
const lastLook = 32 * firstLook

// WaitEmpty returns nil when the kernel says that no process is left in the group or below it ("populated 0"), or the context's error. It sleeps
// in poll(2) on cgroup.events.
func (g *Group) WaitEmpty(ctx context.Context) error {
	events, err := g.openFile("cgroup.events", unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer unix.Close(events)
	if empty, err := emptyNow(events); empty || err != nil {
		return err
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return err
	}
	// AfterFunc's function may still run when stop says so: the descriptor is closed by whichever of the two is last.
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		_, _ = unix.Write(wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	})
	defer func() {
		if !stop() {
			<-done
		}
		unix.Close(wake)
	}()
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		if err := ctx.Err(); err != nil {
			return err
		}
		timeout := -1
		if pause < lastLook {
			timeout = int(pause / time.Millisecond)
		}
		// Reading first and polling then loses nothing: the file remembers which state was read last (kernfs_generic_poll).
		fds := []unix.PollFd{{Fd: int32(events), Events: unix.POLLPRI}, {Fd: int32(wake), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, timeout); err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if empty, err := emptyNow(events); empty || err != nil {
			return err
		}
	}
}

// emptyNow reads cgroup.events anew. A group that is removed has no process.
func emptyNow(events int) (bool, error) {
	var buf [256]byte
	n, err := unix.Pread(events, buf[:], 0)
	if errors.Is(err, unix.ENODEV) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	some, err := populated(buf[:n])
	return !some && err == nil, err
}
