package dropin

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// killBound is how long a killed tree may take to be gone; killAgain how soon those are killed that came to us in the meantime.
const (
	killBound = 5 * time.Second
	killAgain = time.Millisecond
)

// killTree kills all that is left of the tree, and says whether the kernel calls it empty. Whoever loses his parent becomes our child, so that
// killing children until there is none gets everybody. As process 1 there is nobody else in this PID namespace, and one call is enough.
func (s *supervisor) killTree() bool {
	if s.empty == nil {
		return true
	}
	bound := time.NewTimer(killBound)
	defer bound.Stop()
	for {
		if os.Getpid() == 1 {
			_ = unix.Kill(-1, unix.SIGKILL) // ESRCH: nobody is left
		} else {
			for _, pid := range children() {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
		again := time.NewTimer(killAgain)
		select {
		case <-s.empty:
			again.Stop()
			return true
		case <-bound.C:
			again.Stop()
			return false
		case <-again.C:
		}
	}
}

// children are the processes whose parent is this one, by any of its threads.
func children() (pids []int) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return nil
	}
	for _, thread := range threads {
		list, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%s/children", thread.Name()))
		if err != nil {
			continue
		}
		for _, field := range strings.Fields(string(list)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
