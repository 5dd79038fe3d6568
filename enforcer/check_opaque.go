package enforcer

import (
	"strconv"

	"github.com/sandboxd/sandboxd/policy"
)

// walked says that the child did all of its steps, each with the answer that it must get.
func (e Expect) walked() bool { return e.StepsPlanned > 0 && e.StepsWalked == e.StepsPlanned }

// outline is place for a process that the daemon may not trace: namespaces and root by what everybody may read of it. Those kinds of which nothing shows
// can't be changed without a capability, and it has none unless it makes a user namespace, which its map shows.
func (t *table) outline(e Expect, s State) {
	number := func(control string, want, got uint64) {
		t.add(control, policy.EvidenceKernel, strconv.FormatUint(want, 10), strconv.FormatUint(got, 10), want != 0 && want == got)
	}
	number("namespaces.mnt (root mount)", uint64(e.Outline.Root), uint64(s.Outline.Root))
	number("namespaces.net (net/dev)", e.Outline.Network, s.Outline.Network)
	number("namespaces.pid (depth)", uint64(e.Outline.Depth), uint64(s.Outline.Depth))
	t.equal("cgroup (not ours to make)", e.Outline.Cgroup, s.Outline.Cgroup)
	t.add("namespaces.user (uid_map)", policy.EvidenceKernel, e.Outline.UserMap, s.Outline.UserMap, e.Outline.UserMap != "" && e.Outline.UserMap == s.Outline.UserMap)
}

// reported are controls that the child's own steps set, and that this daemon can't read.
func (t *table) reported(e Expect, controls ...string) {
	for _, control := range controls {
		got := "set by a step of the child, not read: that takes CAP_SYS_PTRACE"
		if !e.walked() {
			got = "not all steps are done"
		}
		t.add(control, policy.EvidenceReport, "as planned", got, e.walked())
	}
}
