package runner

import (
	"sync"

	"github.com/sandboxd/sandboxd/enforcer/cgroup"
)

// groups are a sandbox's cgroups for execs that wait for the next one. Making and removing one for every exec costs as much as reading a child
// back. Only one comes here that the kernel calls empty and that is as good as a new one.
type groups struct {
	mu     sync.Mutex
	idle   []*cgroup.Group
	closed bool
}

// take gives one that waits, or nil.
func (g *groups) take() *cgroup.Group {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.idle) == 0 {
		return nil
	}
	last := len(g.idle) - 1
	group := g.idle[last]
	g.idle = g.idle[:last]
	return group
}

// keep takes an empty group, and says whether it does.
func (g *groups) keep(group *cgroup.Group) bool {
	if g == nil || !group.Reusable() {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.idle = append(g.idle, group)
	return true
}

// close removes all that wait, and keeps no more.
func (g *groups) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	for _, group := range g.idle {
		_ = group.Remove() // the sandbox's own group, which it is in, is removed with all below it
	}
	g.idle = nil
}
