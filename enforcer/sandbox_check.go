package enforcer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/enforcer/caps"
	"github.com/sandboxd/sandboxd/enforcer/network/fence"
	"github.com/sandboxd/sandboxd/policy"
)

// WorkerCapabilities are what launcher and workers keep: as root to change a child's ids and to empty its sets, as an ordinary user the last
// only. Children have none.
func (p SandboxPlan) WorkerCapabilities() uint64 {
	if p.Attached != nil {
		return 0
	}
	set := uint64(1) << capSetpcap
	if !p.UserNamespace() {
		set |= 1<<capSetuid | 1<<capSetgid
	}
	return set
}

// capabilities(7).
const (
	capSetgid  = 6
	capSetuid  = 7
	capSetpcap = 8
)

// sandboxRows collects the rows of a sandbox's verdict.
type sandboxRows struct {
	rows []policy.Row
}

// add compares texts that the daemon read from the kernel.
func (r *sandboxRows) add(control, want, got string) {
	r.rows = append(r.rows, policy.Row{Control: control, Want: want, Got: got, Held: want == got, Evidence: policy.EvidenceKernel})
}

// CheckSandbox compares a launcher's state with the plan of its sandbox.
func CheckSandbox(p SandboxPlan, h Host, s SandboxState) policy.Verdict {
	var r sandboxRows
	r.namespaces(p, h, s)
	r.mounts(p, s)
	r.owners(p, s)
	r.network(p, s)
	r.launcher(p, s)
	r.add("sandbox.hostname", p.Hostname, s.Hostname)
	if !s.HostnameRead {
		r.rows[len(r.rows)-1].Evidence = policy.EvidenceReport
	}
	return policy.Verdict{Tier: h.Tier(), Rows: r.rows, Degraded: slices.Clone(p.Degraded)}
}

// namespaces: those of the plan are the sandbox's own, and every other is the daemon's.
func (r *sandboxRows) namespaces(p SandboxPlan, h Host, s SandboxState) {
	for _, name := range NamespaceNames {
		outside, there := h.Namespaces[name]
		if !there {
			continue // not on this kernel
		}
		inside := s.Namespaces[name]
		want, got := "the daemon's", "the daemon's"
		if slices.Contains(p.Namespaces, name) {
			want = "its own"
		}
		switch {
		case inside == 0:
			got = "not read"
		case inside != outside:
			got = "its own"
		}
		r.add("namespace."+name, want, got)
	}
	for _, name := range p.Namespaces {
		if _, there := h.Namespaces[name]; !there {
			r.add("namespace."+name, "its own", "not known on this host")
		}
	}
	if p.UserNamespace() {
		r.add("user.uid_map", idMap(p.Worker.UID, p.Outside.UID), fmt.Sprint(s.UIDMap))
		r.add("user.gid_map", idMap(p.Worker.GID, p.Outside.GID), fmt.Sprint(s.GIDMap))
		r.add("user.setgroups", "deny", s.SetGroups)
	}
}

// idMap is a map of one id.
func idMap(inside, outside int) string {
	return fmt.Sprint([][3]uint32{{uint32(inside), uint32(outside), 1}})
}

// network: no link but the loopback, and no way out but through the fence's sockets, where there is a fence.
func (r *sandboxRows) network(p SandboxPlan, s SandboxState) {
	links := slices.DeleteFunc(slices.Clone(s.Links), func(name string) bool { return slices.Contains(fence.FallbackLinks, name) })
	r.add("network.links", "lo", strings.Join(links, " "))
	// The loopback's own routes are in the table "local", which /proc/net/route doesn't show.
	r.add("network.routes", "none", devices(s.Routes))
	r.add("network.routes6", "lo only", lo(s.Routes6))
	r.add("network.addresses6", "lo only", lo(s.Addresses6))
	r.rows = append(r.rows, CheckFence(p, s.Namespaces["net"], s.Fence)...)
}

// CheckFence compares what was read of a sandbox's fence with its plan. namespace is the inode of the sandbox's network namespace. There are no rows
// where the plan has no fence.
func CheckFence(p SandboxPlan, namespace uint64, s fence.State) (rows []policy.Row) {
	if p.Network.Variant == "" {
		return nil
	}
	for _, row := range fence.Check(p.Network, namespace, s) {
		rows = append(rows, policy.Row{Control: row.Control, Want: row.Want, Got: row.Got, Held: row.Held, Evidence: policy.EvidenceKernel})
	}
	return rows
}

func devices(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, " ")
}

// lo is "lo only" for no device too: IPv6 may be off.
func lo(names []string) string {
	if len(names) == 0 || slices.Equal(names, []string{"lo"}) {
		return "lo only"
	}
	return strings.Join(names, " ")
}

// launcher: every thread of PID 1 has the worker's ids and capabilities, and none more.
func (r *sandboxRows) launcher(p SandboxPlan, s SandboxState) {
	var ids, gids, groups, pids, privileges, ignored, sets []string
	for _, t := range s.Threads {
		ids = append(ids, fmt.Sprint(t.UIDs))
		gids = append(gids, fmt.Sprint(t.GIDs))
		groups = append(groups, fmt.Sprint(t.Groups))
		privileges = append(privileges, fmt.Sprint(t.NoNewPrivs))
		ignored = append(ignored, fmt.Sprintf("%#x", t.SigIgnored&LauncherIgnores))
		sets = append(sets, capabilitySets(t.Inheritable, t.Permitted, t.Effective, t.Bounding, t.Ambient))
		inside := 0
		if len(t.NSPID) > 0 && t.TGID == t.PID {
			inside = t.NSPID[len(t.NSPID)-1]
			pids = append(pids, fmt.Sprint(inside))
		}
	}
	want := p.WorkerCapabilities()
	r.add("launcher.pid", "1", each(pids))
	r.add("launcher.uid", four(p.Outside.UID), each(ids))
	r.add("launcher.gid", four(p.Outside.GID), each(gids))
	if !p.UserNamespace() { // there they stay; the plan says so in Degraded
		r.add("launcher.groups", "[]", each(groups))
	}
	r.add("launcher.capabilities", capabilitySets(want, want, want, want, want), each(sets))
	r.add("launcher.no_new_privs", "1", each(privileges))
	r.add("launcher.signals.ignored", fmt.Sprintf("%#x", uint64(LauncherIgnores)), each(ignored))
	dumpable := "no"
	if s.EnvironOwner == p.Outside.UID {
		dumpable = "yes"
	}
	r.add("launcher.dumpable", "no", dumpable)
	r.add("launcher.executable", LauncherExe, s.Exe)
	r.add("launcher.root", "/", s.Root)
	r.descriptors(s)
}

// LauncherIgnores are the signals that a launcher ignores, bit n-1 for signal n: those from 1 to 31 for which the Go runtime has a handler,
// which for the first process of a PID namespace is what makes the kernel deliver them from within (pid_namespaces(7)). Not among them are
// SIGKILL (9) and SIGSTOP (19), which can't be; SIGCHLD (17), without which the kernel reaps children itself; SIGURG (23), the runtime's own,
// whose handler does nothing to a stranger's; and SIGCONT (18), SIGTSTP (20), SIGTTIN (21) and SIGTTOU (22), which have no handler.
const LauncherIgnores = (1<<31 - 1) &^ (1<<8 | 1<<16 | 1<<17 | 1<<18 | 1<<19 | 1<<20 | 1<<21 | 1<<22)

// LauncherExe is what /proc/PID/exe of launcher and workers says: a memfd.
const LauncherExe = "/memfd:sandboxd-runner (deleted)"

// descriptors: the null device, the daemon's socket and the probe's. A directory of the host that is still open is a way out (CVE-2024-21626).
func (r *sandboxRows) descriptors(s SandboxState) {
	var numbers []int
	for fd := range s.FDs {
		numbers = append(numbers, fd)
	}
	slices.Sort(numbers)
	var got []string
	for _, fd := range numbers {
		kind, _, _ := strings.Cut(s.FDs[fd], "[") // "socket:[4711]"
		got = append(got, fmt.Sprint(fd, "=", kind))
	}
	r.add("launcher.descriptors", "0=/dev/null 1=/dev/null 2=/dev/null 3=socket: 4=socket:", strings.Join(got, " "))
}

func four(id int) string { return fmt.Sprint([4]int{id, id, id, id}) }

// each is the one text that all threads have, or all of them.
func each(values []string) string {
	slices.Sort(values)
	return strings.Join(slices.Compact(values), "; ")
}

func capabilitySets(inheritable, permitted, effective, bounding, ambient uint64) string {
	return fmt.Sprintf("inheritable=%s permitted=%s effective=%s bounding=%s ambient=%s", caps.Text(inheritable), caps.Text(permitted),
		caps.Text(effective), caps.Text(bounding), caps.Text(ambient))
}
