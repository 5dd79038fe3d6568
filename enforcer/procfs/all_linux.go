package procfs

import (
	"os"
	"strconv"
)

// All are the processes that this one can see, by their numbers.
func All() (pids []int, err error) {
	entries, err := os.ReadDir("/proc")
	for _, entry := range entries {
		if pid, notANumber := strconv.Atoi(entry.Name()); notANumber == nil {
			pids = append(pids, pid)
		}
	}
	return pids, err
}
