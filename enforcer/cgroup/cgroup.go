// Package cgroup finds, makes, reads, kills and removes cgroups of the version 2 hierarchy (cgroups(7), Documentation/admin-guide/cgroup-v2.rst).
// On a host whose controllers are still on version 1, a version 2 tree without controllers is enough for killing and freezing.
//
//	<Base>/<daemon>                      one for each daemon; its name says which (Name), so that the next one can clean up after it
//	<Base>/<daemon>/<sandbox>            one for each sandbox; holds no process itself (the kernel's "no internal processes" rule)
//	<Base>/<daemon>/<sandbox>/workers    launcher and workers
//	<Base>/<daemon>/<sandbox>/<exec>     one for each exec: its limits, its kill
//
// A worker clones into an exec's group (CLONE_INTO_CGROUP). The kernel wants write permission on cgroup.procs of that group and of the common
// ancestor of it and the worker's own, the sandbox's group; so these two files belong to the worker's uid, and nothing else does.
package cgroup

import (
	"fmt"
	"path"
	"strings"
)

// Host is the version 2 hierarchy as the daemon may use it. The zero value: not usable.
type Host struct {
	// Layout is "v2", "hybrid" (controllers on version 1, a version 2 tree beside them), "v1" or "none".
	Layout string `json:"layout"`
	// Mount is where the version 2 hierarchy is mounted; Base is the directory (below Mount) in which the daemon may make groups. Empty: none.
	Mount string `json:"mount"`
	Base  string `json:"base"`
	// Path is Base as /proc/PID/cgroup says it.
	Path string `json:"path"`
	// Daemon is the name of this daemon's group in Base ([Name]).
	Daemon string `json:"daemon"`
	// Controllers may be enabled for groups in Base: among "cpu", "io", "memory", "pids".
	Controllers []string `json:"controllers"`
	// Kill: cgroup.kill is there (5.14). Freeze: cgroup.freeze is there.
	Kill   bool `json:"kill"`
	Freeze bool `json:"freeze"`
	// NSDelegate: the kernel lets nobody cross the root of his cgroup namespace (cgroup-v2.rst, "Delegation"); systemd mounts it so.
	NSDelegate bool `json:"nsDelegate"`
	// Swap: memory.swap.max is there, where the memory controller is.
	Swap bool `json:"swap"`
	// Why says why Base is empty or Controllers lacks one, for doctor.
	Why string `json:"why"`
}

// The layouts.
const (
	LayoutV2     = "v2"
	LayoutHybrid = "hybrid"
	LayoutV1     = "v1"
	LayoutNone   = "none"
)

// Mount is a row of mountinfo, as far as it says where hierarchies are.
type Mount struct {
	Type    string
	Root    string
	Target  string
	Options []string // of the super block; version 1 lists its controllers there
}

// known are the controllers that limits need.
var known = []string{"cpu", "io", "memory", "pids"}

// layout says which hierarchies the mounts show, and which of them is version 2. The last mount on a target is the one that is seen.
func layout(mounts []Mount) (string, *Mount) {
	var unified *Mount
	legacy := false
	for i, mount := range mounts {
		switch mount.Type {
		case "cgroup2":
			unified = &mounts[i]
		case "cgroup":
			for _, option := range mount.Options {
				for _, controller := range known {
					legacy = legacy || option == controller
				}
			}
		}
	}
	switch {
	case unified != nil && legacy:
		return LayoutHybrid, unified
	case unified != nil:
		return LayoutV2, unified
	case legacy:
		return LayoutV1, nil
	}
	return LayoutNone, nil
}

// directory is where a group, named as in /proc/PID/cgroup, is found below a mount; false where that mount doesn't show it.
func directory(mount Mount, group string) (string, bool) {
	if mount.Root == "/" {
		return path.Join(mount.Target, group), !strings.HasPrefix(group, "/..")
	}
	if group != mount.Root && !strings.HasPrefix(group, mount.Root+"/") {
		return "", false
	}
	return path.Join(mount.Target, strings.TrimPrefix(group, mount.Root)), true
}

// Name is the name of a daemon's group: its pid, its start time in clock ticks after boot, and the PID namespace in which that pid is one. A pid
// alone would be taken for alive when another process has got its number, and for dead when seen from another PID namespace.
func Name(pid int, start, pidNamespace uint64) string {
	return fmt.Sprintf("sandboxd-%d-%d-%d", pid, start, pidNamespace)
}

// parseName takes a Name apart; false for a name that isn't one, which is then none of ours.
func parseName(name string) (pid int, start, pidNamespace uint64, ok bool) {
	if n, err := fmt.Sscanf(name, "sandboxd-%d-%d-%d", &pid, &start, &pidNamespace); err != nil || n != 3 {
		return 0, 0, 0, false
	}
	return pid, start, pidNamespace, pid > 0 && name == Name(pid, start, pidNamespace)
}
