package enforcer

import (
	"github.com/sandboxd/sandboxd/enforcer/procfs"
)

// State is what the kernel says of a child. Nothing in it comes from the plan.
type State struct {
	// Threads has /proc/PID/task/TID/status of every thread.
	Threads []procfs.Status `json:"threads"`
	Session int             `json:"session"` // its session leader, in its own PID namespace
	Limits  []procfs.Limit  `json:"limits"`
	Mounts  []procfs.Mount  `json:"mounts,omitempty"` // nil when its mount namespace is the sandbox's, already checked
	// Namespaces are inode numbers by name.
	Namespaces map[string]uint64 `json:"namespaces"`
	Root       string            `json:"root"`
	Cwd        string            `json:"cwd"`
	Exe        string            `json:"exe"`
	// FDs are number and link text ("pipe:[123]").
	FDs map[int]string `json:"fds"`
	// Cgroup is the path in the version 2 hierarchy.
	Cgroup       string            `json:"cgroup"`
	CgroupValues map[string]string `json:"cgroupValues,omitempty"`
	// EnvironOwner is the uid that owns /proc/PID/environ: not the process's own when it isn't dumpable.
	EnvironOwner int `json:"environOwner"`
	// Filter is the installed seccomp program as the kernel gave it back; nil where Host.SeccompReadback is false.
	Filter []byte `json:"filter,omitempty"`
}
