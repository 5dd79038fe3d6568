package runner

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The bounds of a look at a tree's memory, and how much faster than any machine a tree is taken to fill it: bytes a second.
const (
	memoryLookLeast = 2 * time.Millisecond
	memoryLookMost  = 50 * time.Millisecond
	memoryRate      = 8 << 30
)

// watchMemory kills the tree once its processes hold more memory than the plan gives them. It returns when the exec is over.
//
// The next look comes before what is left could be filled, so that a tree far below its limit is looked at twenty times a second, and one that is
// near it more often. A tree that nobody can count isn't within its limit: it is killed.
func (c *Child) watchMemory(limit int64) {
	for {
		held, over, err := c.memoryHeld()
		switch {
		case over:
			return
		case err != nil:
			c.killFor(killUncounted)
			return
		case held > limit:
			c.killFor(killMemory)
			return
		}
		left := time.Duration(float64(limit-held) / memoryRate * float64(time.Second))
		select {
		case <-time.After(min(max(left, memoryLookLeast), memoryLookMost)):
		case <-c.done:
			return
		}
	}
}

// memoryHeld is what the tree holds; over says that the exec is.
func (c *Child) memoryHeld() (held int64, over bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return 0, true, nil
	}
	held, err = c.countMemory()
	return held, false, err
}

// limitMemory has the memory counted.
func (c *Child) limitMemory(limit int64) {
	if limit == 0 {
		return
	}
	members := func() ([]string, error) { return descendants(strconv.Itoa(c.worker.pid), nil) }
	if group := c.group; group != nil {
		members = func() ([]string, error) {
			read, err := group.Read([]string{"cgroup.procs"})
			return strings.Fields(read["cgroup.procs"]), err
		}
	}
	c.memoryLimit, c.countMemory = limit, func() (int64, error) {
		pids, err := members()
		if err != nil {
			return 0, err
		}
		return heldBy(pids, limit)
	}
}

// descendants are the children of a process and theirs. A worker's are its exec's tree, since who loses his parent becomes the worker's. One that
// does while this looks may be missed, until the next look.
func descendants(pid string, list []string) ([]string, error) {
	threads, err := filepath.Glob("/proc/" + pid + "/task/*/children")
	if err != nil {
		return list, err
	}
	for _, thread := range threads {
		data, err := os.ReadFile(thread)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // it has ended
		}
		if err != nil {
			return list, err
		}
		for _, child := range strings.Fields(string(data)) {
			if list, err = descendants(child, append(list, child)); err != nil {
				return list, err
			}
		}
	}
	return list, nil
}

// heldBy is how much memory processes hold of their own: anonymous and not on swap, the kernel's own for them left out, and what lies
// in their file systems, which have sizes of their own. A page that several have, as after a fork, is each one's part of it; that is a long look,
// so the short one, which counts it for each, comes first.
func heldBy(pids []string, limit int64) (int64, error) {
	held, err := sum(pids, anonymous)
	if err != nil || held <= limit {
		return held, err
	}
	return sum(pids, share)
}

// sum adds up what one look says of each process. One that has ended holds nothing.
func sum(pids []string, look func(pid string) (int64, error)) (total int64, err error) {
	for _, pid := range pids {
		held, err := look(pid)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue
		}
		if err != nil {
			return 0, err
		}
		total += held
	}
	return total, nil
}

var pageSize = int64(os.Getpagesize())

// anonymous is a process's resident memory less what files and shared memory have of it (proc_pid_statm(5): resident and shared, in pages).
func anonymous(pid string) (int64, error) {
	data, err := os.ReadFile("/proc/" + pid + "/statm")
	if err != nil {
		return 0, err
	}
	return anonymousPages(data, pageSize)
}

func anonymousPages(statm []byte, page int64) (int64, error) {
	words := bytes.Fields(statm)
	if len(words) < 3 {
		return 0, fmt.Errorf("statm: %q", statm)
	}
	resident, err := strconv.ParseInt(string(words[1]), 10, 64)
	shared, err2 := strconv.ParseInt(string(words[2]), 10, 64)
	if err := errors.Join(err, err2); err != nil {
		return 0, fmt.Errorf("statm: %w", err)
	}
	return max(resident-shared, 0) * page, nil
}

// share is a process's part of the anonymous pages that it has (Pss_Anon of proc_pid_smaps_rollup(5)). Without a memory of its own any more, which
// is a process on its way out, it has no part.
func share(pid string) (int64, error) {
	data, err := os.ReadFile("/proc/" + pid + "/smaps_rollup")
	if err != nil {
		return 0, err
	}
	return shareOf(data)
}

func shareOf(rollup []byte) (int64, error) {
	for line := range bytes.Lines(rollup) {
		value, found := bytes.CutPrefix(line, []byte("Pss_Anon:"))
		if !found {
			continue
		}
		kib, err := strconv.ParseInt(string(bytes.TrimSpace(bytes.TrimSuffix(bytes.TrimSpace(value), []byte("kB")))), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("smaps_rollup: %w", err)
		}
		return kib << 10, nil
	}
	return 0, fmt.Errorf("smaps_rollup: no Pss_Anon in %.80q", rollup)
}
