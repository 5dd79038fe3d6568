package enforcer

import "errors"

// NamespaceNames are the links of /proc/PID/ns that [State] and [Expect] have.
var NamespaceNames = []string{"cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts"}

// Location is where a process is: link texts, and "device:inode" of what they lead to.
type Location struct {
	Root   string
	RootID string
	Cwd    string
	Exe    string
	ExeID  string
}

// Locate reads root, cwd and exe of a process.
func Locate(pid int) (Location, error) { return Location{}, errors.ErrUnsupported }

// Namespaces reads the namespaces of a process, all of [NamespaceNames] that this kernel has.
func Namespaces(pid int) (map[string]uint64, error) { return nil, errors.ErrUnsupported }

// Observe reads the state of a child at the gate. A process that has ended is an error that wraps [os.ErrProcessDone].
func Observe(pid int, h Host) (State, error) { return State{}, errors.ErrUnsupported }

// ObserveStarted reads the state of a child after execve, without tracing it: it runs, and a tracer's interrupt would show in its system calls.
func ObserveStarted(pid int, h Host) (State, error) { return State{}, errors.ErrUnsupported }
