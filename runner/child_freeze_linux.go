package runner

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Lives says whether the child's leader hasn't been reaped yet, by its pidfd: what was read of its number before this call was its own. It may be
// called at any time by anyone.
func (c *Child) Lives() bool { return c.holds() }

// Freeze stops every process of the exec where it is, and says whether all stand still: by its cgroup where it has one, and by a signal those that this
// doesn't reach, which without a cgroup are all. What is frozen or stopped can be killed. It may be called at any time by anyone.
func (c *Child) Freeze() (whole bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return false, nil
	}
	if c.pidfd >= 0 { // first of all, and wherever it is
		err = c.place.signal(c.pidfd, unix.SIGSTOP)
		if errors.Is(err, unix.ESRCH) {
			err = nil // it has ended, and what it left behind is stopped with the rest
		}
	}
	if c.group != nil {
		err = errors.Join(err, c.group.Freeze(true))
	}
	whole, failed := c.stopTree()
	return whole && err == nil, errors.Join(err, failed)
}

// Thaw lets every process of the exec go on that Freeze has stopped.
func (c *Child) Thaw() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return nil
	}
	tree, err := c.tree()
	if err == nil {
		err = c.signal(unix.SIGCONT, tree, map[int]bool{})
	}
	if c.group != nil {
		err = errors.Join(err, c.group.Freeze(false))
	}
	return err
}
