package runner

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// A process that waits in the kernel for a dead file system (state D, "uninterruptible") ends by no signal. Nobody needs to wait for it as long as for
// a large tree that is on its way out: from stuckAfter on, the rest of a killed tree is looked at, again and again, and is given up when nothing of it
// is anything but stuck.
const (
	stuckAfter = 2 * time.Second
	lookAgain  = 250 * time.Millisecond
	// mostStuck bounds what a look reads.
	mostStuck = 64
)

// patience is how long a killed tree is waited for until it is looked at.
func (c *Child) patience() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.giveUp.IsZero() {
		return stuckAfter
	}
	return max(time.Until(c.giveUp.Add(stuckAfter-killBound)), lookAgain)
}

// goOn says whether the wait for a killed tree's next word goes on after a deadline, and sets the next one.
func (c *Child) goOn() bool {
	c.mu.Lock()
	over := c.giveUp.IsZero() || !time.Now().Before(c.giveUp)
	c.mu.Unlock()
	if over || c.stuck {
		return false
	}
	if c.stuck = c.isStuck(); c.stuck {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.worker.conn.SetReadDeadline(sooner(time.Now().Add(lookAgain), c.giveUp))
	return true
}

func sooner(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// isStuck says whether every process that is left of the tree is stuck in the kernel: each of its threads is in state D or has ended, and one is in D.
func (c *Child) isStuck() bool {
	left, known := c.leftover()
	if !known || len(left) == 0 || len(left) > mostStuck {
		return false
	}
	waiting := 0
	for _, pid := range left {
		tasks := fmt.Sprintf("/proc/%d/task", pid)
		entries, err := os.ReadDir(tasks)
		if err != nil {
			continue // it has ended just now
		}
		for _, entry := range entries {
			switch state(tasks + "/" + entry.Name() + "/stat") {
			case 'D':
				waiting++
			case 'Z', 'X', 0:
			default:
				return false
			}
		}
	}
	return waiting > 0
}

// state is the letter of a thread's state, 0 when it has ended (proc_pid_stat(5)).
func state(path string) byte {
	data, err := os.ReadFile(path)
	end := bytes.LastIndexByte(data, ')')
	if err != nil || end < 0 || end+2 >= len(data) {
		return 0
	}
	return data[end+2]
}

// leftover are the processes of the tree that are left, in the daemon's numbers; false when nobody can say.
func (c *Child) leftover() (pids []int, known bool) {
	if c.group != nil {
		values, err := c.group.Read([]string{"cgroup.procs"})
		if err != nil {
			return nil, false
		}
		return numbersOf(values["cgroup.procs"])
	}
	// The worker's are all: it is their subreaper. Its own number stays its own until the launcher, which is stuck by then or alive, reaps it.
	for generation := []int{c.worker.pid}; len(generation) > 0; {
		parent := generation[0]
		generation = generation[1:]
		threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", parent))
		if err != nil {
			if parent == c.worker.pid {
				return nil, false
			}
			continue
		}
		for _, thread := range threads {
			data, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", parent, thread.Name()))
			if err != nil {
				continue
			}
			children, ok := numbersOf(string(data))
			if !ok {
				return nil, false
			}
			pids, generation = append(pids, children...), append(generation, children...)
		}
		if len(pids) > mostStuck {
			return pids, true
		}
	}
	return pids, true
}

func numbersOf(text string) (numbers []int, ok bool) {
	for field := range strings.FieldsSeq(text) {
		number, err := strconv.Atoi(field)
		if err != nil {
			return nil, false
		}
		numbers = append(numbers, number)
	}
	return numbers, true
}
