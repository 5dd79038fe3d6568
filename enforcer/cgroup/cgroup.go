// Package cgroup finds, makes, reads, kills and removes cgroups of the version 2 hierarchy (cgroups(7), Documentation/admin-guide/cgroup-v2.rst).
// On a host whose controllers are still on version 1, a version 2 tree without controllers is enough for killing and freezing.
package cgroup

// Host is the version 2 hierarchy as the daemon may use it. The zero value: not usable.
type Host struct {
	// Layout is "v2", "hybrid" (controllers on version 1, a version 2 tree beside them), "v1" or "none".
	Layout string `json:"layout"`
	// Mount is where the version 2 hierarchy is mounted; Base is the directory (below Mount) in which the daemon may make groups. Empty: none.
	Mount string `json:"mount"`
	Base  string `json:"base"`
	// Controllers may be enabled for groups in Base: among "cpu", "io", "memory", "pids".
	Controllers []string `json:"controllers"`
	// Kill: cgroup.kill is there (5.14). Freeze: cgroup.freeze is there.
	Kill   bool `json:"kill"`
	Freeze bool `json:"freeze"`
	// Why says why Base is empty or Controllers lacks one, for doctor.
	Why string `json:"why"`
}
