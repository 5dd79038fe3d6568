package runner

// RunWorker is the worker process; fd is its socket to the daemon.
func RunWorker(fd int) int { return 2 }
