// Package landlock describes and builds Landlock rulesets (landlock(7)). The kernel has no read API for a domain, so a ruleset carries probes:
// acts that it must refuse, tried in the child after landlock_restrict_self and before the gate.
package landlock

// Ruleset is a ruleset for one ABI: everything that ABI can handle is handled, so all that no rule grants is refused.
type Ruleset struct {
	// ABI is what the kernel offers; the masks hold all of its rights.
	ABI        int    `json:"abi"`
	HandledFS  uint64 `json:"handledFs"`
	HandledNet uint64 `json:"handledNet"`
	// Scoped are LANDLOCK_SCOPE_* bits: abstract unix sockets, signals (ABI 6).
	Scoped uint64     `json:"scoped"`
	Paths  []PathRule `json:"paths"`
	Ports  []PortRule `json:"ports"`
}

// PathRule grants Access (LANDLOCK_ACCESS_FS_*) beneath Path. A path that isn't there is an error, never skipped.
type PathRule struct {
	Path   string `json:"path"`
	Access uint64 `json:"access"`
}

// PortRule grants Access (LANDLOCK_ACCESS_NET_*) to a TCP port.
type PortRule struct {
	Port   uint16 `json:"port"`
	Access uint64 `json:"access"`
}
