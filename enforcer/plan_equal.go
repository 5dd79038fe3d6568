package enforcer

import (
	"maps"
	"slices"

	"github.com/sandboxd/sandboxd/enforcer/landlock"
	"github.com/sandboxd/sandboxd/enforcer/seccomp"
)

// Equal says whether two plans are the same in everything, so that what follows from one follows from the other.
func (p Plan) Equal(o Plan) bool {
	return p.Tier == o.Tier && p.Identity.equal(o.Identity) && p.Securebits == o.Securebits && p.DropBounding == o.DropBounding &&
		p.LastCapability == o.LastCapability && p.SetIDs == o.SetIDs && p.SetGroups == o.SetGroups && p.Umask == o.Umask && p.WritableRoot == o.WritableRoot && p.Terminal == o.Terminal && p.Network == o.Network &&
		slices.Equal(p.RLimits, o.RLimits) && sameRules(p.Landlock, o.Landlock) && sameFilter(p.Seccomp, o.Seccomp) && p.Readback == o.Readback &&
		(p.Cgroup == nil) == (o.Cgroup == nil) && maps.Equal(p.Cgroup, o.Cgroup) && p.Kill == o.Kill && p.CPUTime == o.CPUTime && p.Memory == o.Memory &&
		p.Attached == o.Attached && p.Bounding == o.Bounding && p.Filters == o.Filters && slices.Equal(p.Degraded, o.Degraded)
}

func (i Identity) equal(o Identity) bool {
	return i.UID == o.UID && i.GID == o.GID && slices.Equal(i.Groups, o.Groups)
}

func sameRules(a, b landlock.Ruleset) bool {
	return a.ABI == b.ABI && a.HandledFS == b.HandledFS && a.HandledNet == b.HandledNet && a.Scoped == b.Scoped &&
		slices.Equal(a.Paths, b.Paths) && slices.Equal(a.Ports, b.Ports)
}

func sameFilter(a, b seccomp.Filter) bool {
	return a.Profile == b.Profile && slices.Equal(a.Program, b.Program) && slices.Equal(a.Probes, b.Probes) && a.Listener == b.Listener &&
		(a.Answers == nil) == (b.Answers == nil) && slices.Equal(a.Answers, b.Answers)
}

// clone shares no memory with the plan.
func (p Plan) clone() Plan {
	p.Identity.Groups = slices.Clone(p.Identity.Groups)
	p.RLimits = slices.Clone(p.RLimits)
	p.Landlock.Paths, p.Landlock.Ports = slices.Clone(p.Landlock.Paths), slices.Clone(p.Landlock.Ports)
	p.Seccomp.Program, p.Seccomp.Probes = slices.Clone(p.Seccomp.Program), slices.Clone(p.Seccomp.Probes)
	p.Seccomp.Answers = slices.Clone(p.Seccomp.Answers)
	p.Cgroup = maps.Clone(p.Cgroup)
	p.Degraded = slices.Clone(p.Degraded)
	return p
}
