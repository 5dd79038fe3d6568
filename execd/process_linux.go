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
