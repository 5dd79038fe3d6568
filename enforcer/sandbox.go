package enforcer

import "errors"

// SandboxSpec is what one sandbox is asked to be.
type SandboxSpec struct {
	// Show are paths to show besides the default ones; each must be among the Host's sources.
	Show []string
	// TmpBytes and WorkBytes are the size limits of /tmp and /work (and of /dev/shm, as /tmp), > 0.
	TmpBytes, WorkBytes int64
	// Worker and Child are the ids of launcher and workers, and of children, when the daemon is root; ignored otherwise.
	Worker, Child Identity
	// Hostname is a DNS label, at most 63 bytes.
	Hostname string
}

// BuildSandbox makes a spec concrete for this host, or refuses with a [*RefusedError].
func BuildSandbox(h Host, s SandboxSpec) (SandboxPlan, error) {
	return SandboxPlan{}, errors.ErrUnsupported
}
