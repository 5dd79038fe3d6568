package runner

import (
	"fmt"
	"runtime"
	"time"
)

// The bounds of a look at a tree's processor time. The kernel itself counts by ticks of up to 10 ms.
const (
	cpuLookLeast = 5 * time.Millisecond
	cpuLookMost  = 250 * time.Millisecond
)

// watchCPU kills the tree once its group has used the processor time that the plan gives it. It returns when the exec is over.
//
// A tree can't use more than its cores' time, so that the next look isn't needed before what is left could be used up: an exec is looked at a few
// times in its life, and more often only towards the end. A count that can't be read is no count within the limit: the tree is killed.
func (c *Child) watchCPU(limit time.Duration) {
	cores := time.Duration(runtime.NumCPU())
	for {
		used, over, err := c.cpuUsed()
		switch {
		case over:
			return
		case err != nil:
			c.killFor(killUncounted)
			return
		case used >= limit:
			c.killFor(killCPU)
			return
		}
		select {
		case <-time.After(min(max((limit-used)/cores, cpuLookLeast), cpuLookMost)):
		case <-c.done:
			return
		}
	}
}

// cpuUsed is what the group counts; over says that the exec is.
func (c *Child) cpuUsed() (used time.Duration, over bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return 0, true, nil
	}
	used, err = c.countCPU()
	return used, false, err
}

// limitCPU has the processor time counted, and refuses an exec whose nobody could count.
func (c *Child) limitCPU(limit time.Duration) error {
	if limit == 0 {
		return nil
	}
	if c.group == nil {
		return fmt.Errorf("%w: the plan limits processor time, and the exec has no cgroup that counts it", ErrTable)
	}
	group := c.group
	before, err := group.CPUTime() // a group that had an exec before has counted that one too
	c.cpuLimit, c.countCPU = limit, func() (time.Duration, error) {
		now, err := group.CPUTime()
		return now - before, err
	}
	return err
}
