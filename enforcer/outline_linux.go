package enforcer

import (
	"fmt"

	"github.com/sandboxd/sandboxd/enforcer/procfs"
)

// Outline is what everybody may read of a process. It stands for the links in /proc/PID, which show its namespaces, files and program to who may trace it
// only: a daemon without CAP_SYS_PTRACE may not where the process has another uid, or isn't dumpable.
type Outline struct {
	// Network tells network namespaces apart ([procfs.Process.NetworkID]).
	Network uint64 `json:"network"`
	// Root is the number of the mount that is the process's root.
	Root int `json:"root"`
	// UserMap is /proc/PID/uid_map: who has none has just made a user namespace.
	UserMap string `json:"userMap"`
	// Cgroup is its path in the version 2 hierarchy, empty without one.
	Cgroup string `json:"cgroup"`
	// Depth is how many PID namespaces the process is in, counted from the daemon's.
	Depth int `json:"depth"`
}

func outlineOf(p *procfs.Process, status procfs.Status) (o Outline, err error) {
	if o.Network, err = p.NetworkID(); err != nil {
		return o, err
	}
	mounts, err := p.Mounts()
	if err != nil {
		return o, err
	}
	o.Root = procfs.RootMount(mounts)
	if o.Cgroup, err = p.Cgroup(); err != nil {
		o.Cgroup = "" // no version 2 hierarchy; that the process is there, the rest says
	}
	ids, err := p.IDMap("uid_map")
	o.UserMap, o.Depth = fmt.Sprint(ids), len(status.NSPID)
	return o, err
}
