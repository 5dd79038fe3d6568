package runner

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Lives says whether the child's leader hasn't been reaped yet, by its pidfd: what was read of its number before this call was its own. It may be
// called at any time by anyone.
func (c *Child) Lives() bool { return c.holds() }

// Freeze stops every process of the exec where it is, by its cgroup, and says whether there is one to do it with. The leader is stopped by a signal as
// well: without a cgroup, or moved out of it, nothing else reaches it. What is frozen or stopped can be killed. It may be called at any time by anyone.
func (c *Child) Freeze() (whole bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return false, nil
	}
	if c.pidfd >= 0 {
		err = unix.PidfdSendSignal(c.pidfd, unix.SIGSTOP, nil, 0)
	}
	if c.group == nil {
		return false, err
	}
	return true, errors.Join(err, c.group.Freeze(true))
}
