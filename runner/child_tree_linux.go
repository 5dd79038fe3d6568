package runner

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer/procfs"
)

// Tree are the processes of the exec, its leader too: those in its cgroup, and all descendants of its worker, who is their subreaper. Who has left the group is
// still in the tree. They come and go while it is read. It may be called at any time by anyone; what has ended has no tree.
func (c *Child) Tree() ([]int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tree()
}

// tree is Tree with mu held: the worker and the group are this exec's.
func (c *Child) tree() ([]int, error) {
	if c.over {
		return nil, nil
	}
	tree, err := procfs.Descendants(c.worker.pid)
	if err != nil || c.group == nil {
		return tree, err
	}
	members, err := c.group.Procs()
	for _, pid := range members {
		if pid > 0 && !slices.Contains(tree, pid) {
			tree = append(tree, pid)
		}
	}
	return tree, err
}

// mostPasses bounds how often stopTree looks for who has come meanwhile. Who is stopped makes no more.
const mostPasses = 64

// stopTree stops every process of the tree that its cgroup's freezer doesn't reach, and says whether all stand still. mu is held.
func (c *Child) stopTree() (whole bool, err error) {
	stopped := map[int]bool{}
	for range mostPasses {
		frozen := []int{}
		if c.group != nil {
			if frozen, err = c.group.Procs(); err != nil {
				return false, err
			}
		}
		tree, err := c.tree()
		if err != nil {
			return false, err
		}
		fresh := slices.DeleteFunc(tree, func(pid int) bool { return stopped[pid] || slices.Contains(frozen, pid) })
		if len(fresh) == 0 {
			return true, nil
		}
		if err := c.signal(unix.SIGSTOP, fresh, stopped); err != nil {
			return false, err
		}
	}
	return false, fmt.Errorf("its processes multiply faster than they are stopped")
}

// signal signals processes that are still of the tree once their pidfds are held, so that no number is another's by then. Those that got it are in got.
func (c *Child) signal(number unix.Signal, pids []int, got map[int]bool) error {
	held := map[int]int{}
	defer func() {
		for _, pidfd := range held {
			unix.Close(pidfd)
		}
	}()
	for _, pid := range pids {
		pidfd, err := unix.PidfdOpen(pid, 0)
		if errors.Is(err, unix.ESRCH) {
			continue
		}
		if err != nil {
			return fmt.Errorf("pidfd_open: %w", err)
		}
		held[pid] = pidfd
	}
	tree, err := c.tree()
	if err != nil {
		return err
	}
	for pid, pidfd := range held {
		if !slices.Contains(tree, pid) {
			continue
		}
		if err := c.place.signal(pidfd, number); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("signal %d: %w", number, err)
		}
		got[pid] = true
	}
	return nil
}
