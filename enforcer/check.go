package enforcer

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer/caps"
	"github.com/sandboxd/sandboxd/enforcer/procfs"
	"github.com/sandboxd/sandboxd/policy"
)

// Check compares the state of a child at the gate with its plan. Every row must hold before the child is released.
func Check(p Plan, e Expect, s State) policy.Verdict {
	t := &table{rows: make([]policy.Row, 0, mostRows)}
	t.process(e, s)
	// One thread: every step of a child acts on the calling thread alone, so that a second one would be unconfined.
	t.number("threads", 1, len(s.Threads))
	t.threads("process.tracer", "0", s.Threads, func(st procfs.Status) string { return strconv.Itoa(st.Tracer) })
	t.confinement(p, s)
	t.threads("umask", octal(p.Umask), s.Threads, func(st procfs.Status) string { return octal(st.Umask) })
	t.threads("signals.blocked", "0x0", s.Threads, func(st procfs.Status) string { return maskText(st.SigBlocked) })
	t.threads("signals.ignored", "0x0", s.Threads, func(st procfs.Status) string { return maskText(st.SigIgnored) })
	t.threads("signals.caught", "0x0", s.Threads, func(st procfs.Status) string { return maskText(st.SigCaught) })
	t.threads("seccomp.filters", strconv.Itoa(filters(p)), s.Threads, func(st procfs.Status) string { return strconv.Itoa(st.SeccompFilters) })
	t.filter(p, s)
	t.limits(p, s, func(want, soft, hard int64) bool { return soft == want && hard == want })
	t.place(e, s)
	if s.Opaque {
		t.reported(e, "cwd", "exe", "fd")
	} else {
		t.equal("cwd", e.Cwd, s.Cwd)
		t.add("exe", policy.EvidenceKernel, "the worker's, "+e.WorkerID, s.ExeID, e.WorkerID != "" && s.ExeID == e.WorkerID)
		t.descriptors(e, s)
	}
	t.terminal(p, e, s)
	t.cgroup(p, e, s)
	// The kernel gives the files of a process that isn't dumpable to root: nobody of its uid may read its memory or trace it.
	t.add("dumpable", policy.EvidenceKernel, "no", dumpable(p, s), s.EnvironOwner != p.Identity.UID)
	t.steps(p, e)
	return policy.Verdict{Tier: p.Tier, Rows: t.rows, Degraded: p.Degraded}
}

// process is that this is the child and no other: its pid, its parent, and a session of its own. The session is told by its leader's pid, in
// each PID namespace from the daemon's to its own.
func (t *table) process(e Expect, s State) {
	t.everyThread("process.pid", strconv.Itoa(e.PID), s.Threads,
		func(st procfs.Status) string { return strconv.Itoa(st.TGID) },
		func(got string, st procfs.Status) bool {
			return e.PID > 0 && st.TGID == e.PID && len(st.NSPID) > 0 && (st.PID != st.TGID || st.NSPID[0] == e.PID)
		})
	t.threads("process.parent", strconv.Itoa(e.WorkerPID), s.Threads, func(st procfs.Status) string { return strconv.Itoa(st.PPID) })
	leader := slices.IndexFunc(s.Threads, func(st procfs.Status) bool { return st.PID == st.TGID })
	if leader < 0 {
		t.add("session", policy.EvidenceKernel, "its own", "no leader", false)
		return
	}
	t.threads("session", list(s.Threads[leader].NSPID), s.Threads, func(st procfs.Status) string { return list(st.NSSID) })
}

// confinement is what holds from the gate to the end, for every thread.
func (t *table) confinement(p Plan, s State) {
	id := func(control string, want int, ids func(procfs.Status) [4]int) {
		t.everyThread(control, list([]int{want, want, want, want}), s.Threads,
			func(st procfs.Status) string { four := ids(st); return list(four[:]) },
			// 0 is root, and -1 is what setresuid(2) takes for "leave it": a plan that says so never holds.
			func(_ string, st procfs.Status) bool {
				return want > 0 && want < 1<<32-1 && ids(st) == [4]int{want, want, want, want}
			})
	}
	id("identity.uid", p.Identity.UID, func(st procfs.Status) [4]int { return st.UIDs })
	id("identity.gid", p.Identity.GID, func(st procfs.Status) [4]int { return st.GIDs })
	t.threads("identity.groups", list(sorted(p.Identity.Groups)), s.Threads, func(st procfs.Status) string { return list(sorted(st.Groups)) })
	for _, set := range []struct {
		control string
		mask    func(procfs.Status) uint64
	}{
		{"capabilities.inheritable", func(st procfs.Status) uint64 { return st.Inheritable }},
		{"capabilities.permitted", func(st procfs.Status) uint64 { return st.Permitted }},
		{"capabilities.effective", func(st procfs.Status) uint64 { return st.Effective }},
		{capabilitiesBounding, func(st procfs.Status) uint64 { return st.Bounding }},
		{"capabilities.ambient", func(st procfs.Status) uint64 { return st.Ambient }},
	} {
		want := "none"
		if set.control == capabilitiesBounding {
			want = caps.Text(p.Bounding)
		}
		t.threads(set.control, want, s.Threads, func(st procfs.Status) string { return caps.Text(set.mask(st)) })
	}
	t.threads("no_new_privs", "1", s.Threads, func(st procfs.Status) string { return strconv.Itoa(st.NoNewPrivs) })
	t.threads("seccomp.mode", strconv.Itoa(seccompMode(p)), s.Threads, func(st procfs.Status) string { return strconv.Itoa(st.Seccomp) })
}

func sorted(numbers []int) []int { return slices.Sorted(slices.Values(numbers)) }

const capabilitiesBounding = "capabilities.bounding"

func filters(p Plan) int {
	if len(p.Seccomp.Program) == 0 {
		return p.Filters
	}
	return p.Filters + 1
}

func seccompMode(p Plan) int {
	if filters(p) == 0 {
		return unix.SECCOMP_MODE_DISABLED
	}
	return unix.SECCOMP_MODE_FILTER
}

// filter compares the installed program byte for byte, where the kernel gives it back.
func (t *table) filter(p Plan, s State) {
	if p.Readback {
		want := p.derived()
		same, got := bytes.Equal(want.program, s.Filter), want.programText
		if !same {
			got = digestText(s.Filter)
		}
		t.add(seccompFilter, policy.EvidenceKernel, want.programText, got, same)
	}
}

const seccompFilter = "seccomp.filter"

func digestText(program []byte) string {
	if len(program) == 0 {
		return "none"
	}
	sum := sha256.Sum256(program)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func (t *table) limits(p Plan, s State, holds func(want, soft, hard int64) bool) {
	for _, limit := range p.RLimits {
		control := "rlimit." + limit.Name
		i := slices.IndexFunc(s.Limits, func(have procfs.Limit) bool { return have.Name == limit.Name })
		if i < 0 {
			t.add(control, policy.EvidenceKernel, limitValue(limit.Value), "not listed", false)
			continue
		}
		have := s.Limits[i]
		t.add(control, policy.EvidenceKernel, limitValue(limit.Value), limitText(have.Soft, have.Hard), holds(limit.Value, have.Soft, have.Hard))
	}
}

// sandboxNamespaces are those that every sandbox has of its own; without one of them in Expect, nobody has looked at the sandbox.
var sandboxNamespaces = []string{"ipc", "mnt", "net", "pid", "uts"}

// place is that the child is in its sandbox: namespaces and root.
func (t *table) place(e Expect, s State) {
	if s.Opaque {
		t.outline(e, s)
		return
	}
	for _, name := range NamespaceNames {
		want, wanted := e.Namespaces[name]
		got, found := s.Namespaces[name]
		if !wanted && !found && !slices.Contains(sandboxNamespaces, name) {
			continue // a kind that this kernel doesn't have
		}
		t.add("namespaces."+name, policy.EvidenceKernel, strconv.FormatUint(want, 10), strconv.FormatUint(got, 10), wanted && want != 0 && want == got)
	}
	t.add("root", policy.EvidenceKernel, e.Root+" "+e.RootID, s.Root+" "+s.RootID, e.RootID != "" && e.Root == s.Root && e.RootID == s.RootID)
}

// descriptors is that the child has exactly those that it was given, each being what was given: a pipe or a socket has its number in its text.
func (t *table) descriptors(e Expect, s State) {
	if len(e.FDs) == 0 {
		t.add("fd", policy.EvidenceKernel, "known", "the daemon expects none", false)
	}
	for _, fd := range slices.Sorted(maps.Keys(e.FDs)) {
		got, open := s.FDs[fd]
		if !open {
			got = "closed"
		}
		t.add("fd."+strconv.Itoa(fd), policy.EvidenceKernel, e.FDs[fd], got, open && e.FDs[fd] != "" && got == e.FDs[fd])
	}
	for _, fd := range slices.Sorted(maps.Keys(s.FDs)) {
		if _, granted := e.FDs[fd]; !granted {
			t.add("fd."+strconv.Itoa(fd), policy.EvidenceKernel, "closed", s.FDs[fd], false)
		}
	}
	if e.Target != "" {
		found := "not open"
		for fd, text := range s.FDs {
			if fd >= 3+e.Extra && text == e.Target {
				found = text
			}
		}
		t.equal("target", e.Target, found)
	}
}

// cgroup is membership, then each limit of that group.
func (t *table) cgroup(p Plan, e Expect, s State) {
	if p.Kill == KillCgroup || e.Cgroup != "" {
		t.add("cgroup", policy.EvidenceKernel, e.Cgroup, s.Cgroup, e.Cgroup != "" && e.Cgroup == s.Cgroup)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Cgroup)) {
		t.equal("cgroup."+name, p.Cgroup[name], s.CgroupValues[name])
	}
}

func dumpable(p Plan, s State) string {
	if s.EnvironOwner == p.Identity.UID {
		return "yes: environ belongs to uid " + strconv.Itoa(s.EnvironOwner)
	}
	return "no"
}

// steps are the controls that the kernel gives no way to read. The child tried to break each of them after it was in force, and a try that
// wasn't refused as it must be ends the child with its name; so that the count of its steps being whole is the evidence that all were refused.
func (t *table) steps(p Plan, e Expect) {
	whole := e.walked()
	t.add("gate.steps", policy.EvidenceReport, strconv.Itoa(e.StepsPlanned), strconv.Itoa(e.StepsWalked), whole)
	known := p.derived()
	if len(known.program) > 0 && !p.Readback {
		// That the installed program is the planned one is the worker's word then; the filter's probes speak for it.
		t.add(seccompFilter, policy.EvidenceReport, known.programText, "sent, not read back", whole)
	}
	for _, control := range known.probes {
		want := "refused"
		if control == securebits {
			want = maskText(uint64(p.Securebits)) // asked for, not tried: nothing in /proc shows them
		}
		got := want
		if !whole {
			got = "not tried"
		}
		t.add(control, policy.EvidenceProbe, want, got, whole)
	}
}

const securebits = "securebits"

// Probes are the controls of a plan that are known by trying, in the order of the child's steps.
func Probes(p Plan) []string {
	var controls []string
	if p.Securebits != 0 {
		controls = append(controls, securebits)
	}
	for _, part := range []struct {
		control string
		there   bool
	}{
		{"landlock.fs", p.Landlock.HandledFS&unix.LANDLOCK_ACCESS_FS_WRITE_FILE != 0},
		{"landlock.scope.abstract", p.Landlock.Scoped&unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET != 0},
		{"landlock.net.bind", p.Landlock.HandledNet&unix.LANDLOCK_ACCESS_NET_BIND_TCP != 0},
		{"landlock.net.connect", p.Landlock.HandledNet&unix.LANDLOCK_ACCESS_NET_CONNECT_TCP != 0},
		// Where the ids differ, the kernel refuses the signal for that reason already, and the try says nothing of Landlock.
		{"landlock.scope.signal", p.Landlock.Scoped&unix.LANDLOCK_SCOPE_SIGNAL != 0 && !p.SetIDs},
	} {
		if part.there {
			controls = append(controls, part.control)
		}
	}
	for _, probe := range p.Seccomp.Probes {
		controls = append(controls, "seccomp."+probe.Name)
	}
	return controls
}
