package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sys/unix"
)

// Started waits for execve: nil when it passed its point of no return, *StepError{Step: "execve"} when it failed. Wait or Abort must follow in any case.
func (c *Child) Started(ctx context.Context) error {
	c.gate.bound(time.Now().Add(execBound))
	stop := context.AfterFunc(ctx, func() { c.gate.bound(time.Unix(1, 0)) })
	defer stop()
	s, err := c.gate.receive()
	if err == nil {
		closeFD(s.pidfd)
		return c.unexpected(s)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !errors.Is(err, io.EOF) {
		return fmt.Errorf("gate: %w", err)
	}
	switch executed, err := c.untilExecuted(ctx); {
	case err != nil:
		return err
	case executed:
		return nil
	}
	// It died, on either side of execve. The worker looks before it reaps.
	c.within(execBound)
	defer c.within(0)
	if err := c.untilExit(); err != nil {
		return err
	}
	if err := c.failed(); err != nil {
		return err
	}
	if c.heard.exit.flags&exitExecuted == 0 {
		return fmt.Errorf("child died before execve: %s", statusText(c.heard.status()))
	}
	return nil
}

// untilExecuted says whether the child is past execve; false: it has ended, or nobody can tell.
//
// The gate's end doesn't say so. A dying process closes its files too; and there are kernels (6.1) on which execve closes what is close-on-exec
// while the process still has its old memory and credentials. What ended the gate is over in a moment, one way or the other.
func (c *Child) untilExecuted(ctx context.Context) (bool, error) {
	buffer := make([]byte, 512)
	for until := time.Now().Add(execBound); time.Now().Before(until); {
		ending := c.endsWithin(0) // before the flag is read: what has executed and ended has both
		executed, err := hasExecuted(c.pid, buffer)
		switch {
		case err != nil || !c.holds(): // it is reaped, so the number may be another's
			return false, nil
		case executed || ending:
			return executed, nil
		case ctx.Err() != nil:
			return false, context.Cause(ctx)
		}
		c.endsWithin(executeEvery)
	}
	return false, nil
}

// executeEvery is how often a child between its gate and its program is looked at.
const executeEvery = time.Millisecond

// endsWithin says whether the child has ended, after waiting for that so long.
func (c *Child) endsWithin(d time.Duration) bool {
	c.mu.Lock()
	pidfd := c.pidfd // closed by Wait and Abort only, which the caller of this calls itself
	c.mu.Unlock()
	polls := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	n, err := unix.Poll(polls, int(d.Milliseconds()))
	return pidfd < 0 || err == nil && n > 0
}

// holds says whether the pid is still the child's: its pidfd's process isn't reaped.
func (c *Child) holds() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pidfd >= 0 && unix.PidfdSendSignal(c.pidfd, 0, nil, 0) != unix.ESRCH
}
