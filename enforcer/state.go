package enforcer

import (
	"github.com/sandboxd/sandboxd/enforcer/procfs"
)

// NamespaceNames are the kinds of namespaces that [State] and [Expect] have, as /proc/PID/ns names them.
var NamespaceNames = []string{"cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts"}

// State is what the kernel says of a child. Nothing in it comes from the plan. Its mounts aren't here: they are those of its mount namespace,
// which [CheckSandbox] has looked at, and nobody in it has the capability to change them.
type State struct {
	// Threads has /proc/PID/task/TID/status of every thread.
	Threads []procfs.Status `json:"threads"`
	Limits  []procfs.Limit  `json:"limits"`
	// Namespaces are inode numbers by name.
	Namespaces map[string]uint64 `json:"namespaces"`
	// Root, Cwd and Exe are link texts. RootID and ExeID are "major:minor:inode" of what the links lead to: two mount namespaces both call
	// their root "/", and every launcher's binary is a memfd of the same name.
	Root   string `json:"root"`
	RootID string `json:"rootId"`
	Cwd    string `json:"cwd"`
	Exe    string `json:"exe"`
	ExeID  string `json:"exeId"`
	// FDs are number and link text ("pipe:[123]").
	FDs map[int]string `json:"fds"`
	// Cgroup is the path in the version 2 hierarchy; empty on a host that has none mounted.
	Cgroup       string            `json:"cgroup"`
	CgroupValues map[string]string `json:"cgroupValues,omitempty"`
	// EnvironOwner is the uid that owns /proc/PID/environ: not the process's own when it isn't dumpable.
	EnvironOwner int `json:"environOwner"`
	// Outline is what is known instead of namespaces, Root, Cwd, Exe and FDs where the daemon may not trace the process ([Host].Opaque): Opaque says so.
	Opaque  bool    `json:"opaque,omitzero"`
	Outline Outline `json:"outline,omitzero"`
	// Terminal is the controlling one, where it was asked for ([ObserveTerminal]).
	Terminal Terminal `json:"terminal,omitzero"`
	// Filter is the installed seccomp program as the kernel gave it back; nil where Host.SeccompReadback is false, and after execve.
	Filter []byte `json:"filter,omitempty"`
}
