package enforcer

// Expect is what the daemon knows of one child that the plan can't: its pid, its descriptors, its sandbox. It comes from what the daemon made
// itself and from the launcher's verified state, never from the child.
type Expect struct {
	// PID is the child's and WorkerPID its parent's, in the daemon's PID namespace; both from pidfds that the kernel gave.
	PID       int
	WorkerPID int
	// StepsPlanned is the length of the child's table as the daemon computes it; StepsWalked the count in READY.
	StepsPlanned int
	StepsWalked  int
	// FDs has every descriptor of the child at the gate with its link text; the first 3+Extra survive execve, the others are close-on-exec.
	FDs   map[int]string
	Extra int
	// Namespaces are the sandbox's, by name: [Namespaces] of its launcher.
	Namespaces map[string]uint64
	// Outline is the launcher's, where that is all that may be read of it.
	Outline Outline
	// Root and RootID are those of [Locate] of the launcher.
	Root   string
	RootID string
	// Cwd is the link text of the directory that the child was told to change to: no symlink in it.
	Cwd string
	// WorkerID is ExeID of [Locate] of the worker: the child's at the gate, and after only with Own.
	WorkerID string
	// Own says that the target is the launcher's own binary: after execve too, the child's must be WorkerID.
	Own bool
	// Target is the link text of the opened target, which FDs has too, or empty where there is none before execve (a script).
	Target string
	// Terminal is what the daemon made for it, of a plan with one.
	Terminal Terminal
	// Cgroup is the exec's group as /proc/PID/cgroup says it ([cgroup.Group.Path]). Without a group of its own (KillShepherd): the one that the
	// child is left in, or empty where that isn't known.
	Cgroup string
}
