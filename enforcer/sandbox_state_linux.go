package enforcer

import "errors"

// SandboxState is what the kernel says of a launcher, and so of its sandbox.
type SandboxState struct{}

// ObserveSandbox reads the state of the launcher pid. A process that has ended is an error that wraps [os.ErrProcessDone].
func ObserveSandbox(pid int) (SandboxState, error) { return SandboxState{}, errors.ErrUnsupported }
