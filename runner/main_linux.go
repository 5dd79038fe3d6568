package runner

// Name is argv[0] and the command name of launcher and workers.
const Name = "sandboxd-runner"

// Main is the sandboxd-runner program: args are its whole argument vector. It returns the exit status.
//
//	sandboxd-runner launcher    set the sandbox up, then become "serve"        socket to the daemon on descriptor 3
//	sandboxd-runner serve       start workers, reap                            the same, and the probe's listening socket on 4
//	sandboxd-runner connect PATH UID    as a container's first process: connect to the daemon, which has that uid, then become "connected"
//	sandboxd-runner connected   as serve, of a sandbox that somebody else made   the same two
//	sandboxd-runner worker      one exec at a time                             socket to the daemon on descriptor 250
//	sandboxd-runner python      the runner contract of DataRobot's sandbox, without a daemon: see package dropin
//	sandboxd-runner MODE ...    the target of an exec of our own ([enforcer.Invocation].Own), see modes
func Main(args []string) int {
	if len(args) < 2 {
		return exitUsage
	}
	if mode := modes[args[1]]; mode != nil {
		return mode(args[2:])
	}
	if args[1] == modeConnect && len(args) == 4 {
		return connectMain(args[2:])
	}
	if len(args) != 2 {
		return exitUsage
	}
	switch args[1] {
	case "launcher", "serve", modeConnected:
		return RunLauncher(args)
	case "worker":
		heedSignals()
		return RunWorker(workerSocket)
	}
	return exitUsage
}

// The modes of a launcher that the daemon hasn't started.
const (
	modeConnect   = "connect"
	modeConnected = "connected"
)

// exitUsage is the status of a program that was started by hand.
const exitUsage = 2

// The descriptors of a launcher.
const (
	daemonSocket = 3
	probeSocket  = 4
)
