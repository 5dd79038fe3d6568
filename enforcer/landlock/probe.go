package landlock

// What a sandbox has only so that probes can try it. Both ends use these names: the root and the launcher make them, the child's table tries
// them after landlock_restrict_self.
const (
	// ProbeFIFO is a FIFO without a reader, mode 0222, that no rule grants. Opening it with O_WRONLY|O_NONBLOCK answers EACCES within a
	// domain, and ENXIO without one: harmless either way.
	ProbeFIFO = "/.sandboxd-probe"
	// ProbeDevice takes the place of ProbeFIFO and of ProbeDir in a root that isn't ours: mode 0666 everywhere, and granted by no rule.
	ProbeDevice = "/dev/full"
	// ProbeSocket is the abstract name (after the NUL byte) of a SOCK_STREAM socket on which the launcher, who is in no domain, listens.
	// connect(2) answers EPERM where the domain scopes abstract sockets (ABI 6), and succeeds where it doesn't.
	ProbeSocket = "sandboxd-probe"
	// ProbeDir is a small file system of its own that permissions let everybody write to and no rule grants: what is refused there, Landlock refuses.
	// It has the regular files ProbeDir/file and ProbeDir/dir/file, mode 0666.
	ProbeDir = "/.sandboxd-probe.d"
)
