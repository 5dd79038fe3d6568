package fence

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Tells says whether the kernel tells of the connections that it refuses by itself ([Fence.Refusals]).
func (p Plan) Tells() bool { return p.socket(socketRefused) >= 0 }

// bindRefused has the kernel tell of refusals from here on. The caller holds mu.
func (f *Fence) bindRefused() error {
	at := f.plan.socket(socketRefused)
	if at < 0 {
		return nil
	}
	var err error
	outer := control(f.files[at], func(fd int) { err = ask(fd, bindRefused()) })
	if err := errors.Join(err, outer); err != nil {
		return fmt.Errorf("fence: nfnetlink_log: %w", err)
	}
	return nil
}

// Refusals calls told for each connection that the kernel has refused by itself since the fence was opened, for it may not even reach the relay. What comes
// faster than it is read the kernel drops, and the next says how many were. It returns when ctx ends or the fence is closed, and at once where the plan doesn't tell.
func (f *Fence) Refusals(ctx context.Context, told func(Refusal)) error {
	at := f.plan.socket(socketRefused)
	if at < 0 {
		return nil
	}
	file := f.files[at]
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	buffer, next := make([]byte, 16<<10), uint32(0)
	for {
		var n int
		var inner error
		err := raw.Read(func(fd uintptr) bool {
			n, _, inner = unix.Recvfrom(int(fd), buffer, unix.MSG_DONTWAIT)
			return !errors.Is(inner, unix.EAGAIN)
		})
		switch {
		case ctx.Err() != nil, err != nil && f.isClosed():
			return nil
		case errors.Is(inner, unix.EINTR), errors.Is(inner, unix.ENOBUFS): // lost ones are missing from the numbers
			continue
		case err != nil || inner != nil:
			return fmt.Errorf("fence: refusals: %w", errors.Join(err, inner))
		}
		for _, m := range messages(buffer[:n]) {
			refusal, number, ok := refusalOf(m)
			if !ok {
				continue
			}
			refusal.Lost, next = int(number-next), number+1
			told(refusal)
		}
	}
}
