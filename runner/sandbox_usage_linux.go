package runner

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// Usage is what a sandbox uses, its launcher and workers too.
type Usage struct {
	// CPU is the processor time since it was made: by its cgroup, else of the processes that are there and of those they have waited for.
	CPU time.Duration
	// MemoryBytes is the memory that its processes hold of their own, a page that several have once. Processes is how many there are.
	MemoryBytes int64
	Processes   int
}

// Usage reads what the sandbox uses now.
func (s *Sandbox) Usage() (Usage, error) {
	launcher := strconv.Itoa(s.PID())
	pids, err := descendants(launcher, []string{launcher})
	if err != nil {
		return Usage{}, err
	}
	u := Usage{Processes: len(pids)}
	if u.MemoryBytes, err = sum(pids, share); err != nil {
		return Usage{}, err
	}
	if s.root != nil {
		u.CPU, err = s.root.CPUTime()
		return u, err
	}
	ticks, err := sum(pids, ticksOf)
	u.CPU = time.Duration(ticks) * (time.Second / userHZ)
	return u, err
}

// userHZ is the kernel's unit of time towards programs (time(7)).
const userHZ = 100

// ticksOf is the processor time of a process and of the children that it has waited for (proc_pid_stat(5), fields 14 to 17).
func ticksOf(pid string) (int64, error) {
	data, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0, err
	}
	_, rest, found := bytes.Cut(data, []byte(") "))
	words := bytes.Fields(rest)
	if !found || len(words) < 15 {
		return 0, fmt.Errorf("stat: %.80q", data)
	}
	total := int64(0)
	for _, word := range words[11:15] {
		ticks, err := strconv.ParseInt(string(word), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("stat: %w", err)
		}
		total += ticks
	}
	return total, nil
}
