package execd

import "github.com/sandboxd/sandboxd/enforcer/procfs"

// isRunning says whether a process lives that has this pid and began at this time.
func isRunning(pid int, start uint64) bool {
	process, err := procfs.Open(pid)
	if err != nil {
		return !procfs.Gone(err) // what can't be seen is left alone
	}
	defer process.Close()
	began, err := process.StartTime()
	if err != nil {
		return !procfs.Gone(err)
	}
	return began == start
}

// startTime is when a process began, in the kernel's ticks: with its number, which process it is.
func startTime(pid int) (uint64, error) {
	process, err := procfs.Open(pid)
	if err != nil {
		return 0, err
	}
	defer process.Close()
	return process.StartTime()
}
