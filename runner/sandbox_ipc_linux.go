package runner

import "sync"

// execs counts the execs of a sandbox, for what they leave behind in the kernel beside files. An IPC namespace for each exec would take CAP_SYS_ADMIN
// in the worker; instead the first exec after all others have ended begins with a wipe, and who comes meanwhile waits for it.
type execs struct {
	entry sync.Mutex // held while an exec comes in, and over its wipe

	mu      sync.Mutex // guards what follows
	running int
	any     bool // one ran before
}

// enter counts an exec in and says whether it is to wipe. born must be called when its child is born or won't be; leave when the exec is over.
func (e *execs) enter() (wipe bool, born func()) {
	e.entry.Lock()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running++
	wipe = e.any && e.running == 1
	e.any = true
	if !wipe {
		e.entry.Unlock()
		return false, func() {}
	}
	return true, sync.OnceFunc(e.entry.Unlock)
}

func (e *execs) leave() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running--
}
