package enforcer

import (
	"strconv"
	"strings"

	"github.com/sandboxd/sandboxd/enforcer/procfs"
	"github.com/sandboxd/sandboxd/policy"
)

// CheckStarted compares once more after execve, which is where setuid bits, file capabilities and inherited descriptors act.
//
// The target runs by now, perhaps with several threads, perhaps as another program that it executed. What it may change itself isn't compared:
// its directory, its umask, its signal mask and handlers, descriptors that it opened. What it can't change is compared as at the gate, for every thread.
// Limits may have become lower, filters more.
func CheckStarted(p Plan, e Expect, s State) policy.Verdict {
	t := &table{rows: make([]policy.Row, 0, mostRows)}
	t.process(e, s)
	t.started(p, e, s)
	return policy.Verdict{Tier: p.Tier, Rows: t.rows, Degraded: p.Degraded}
}

// CheckMember compares another process of the tree of a target, as [CheckStarted] does the target itself: it has inherited all but pid, parent and session,
// and can get rid of none of it.
func CheckMember(p Plan, e Expect, s State) policy.Verdict {
	t := &table{rows: make([]policy.Row, 0, mostRows)}
	t.started(p, e, s)
	return policy.Verdict{Tier: p.Tier, Rows: t.rows, Degraded: p.Degraded}
}

// started is what a program can't change, of itself or of those it starts.
func (t *table) started(p Plan, e Expect, s State) {
	t.confinement(p, s)
	t.everyThread("seccomp.filters", "at least "+strconv.Itoa(filters(p)), s.Threads,
		func(st procfs.Status) string { return strconv.Itoa(st.SeccompFilters) },
		func(_ string, st procfs.Status) bool { return st.SeccompFilters >= filters(p) })
	t.limits(p, s, func(want, soft, hard int64) bool { return atMost(hard, want) && atMost(soft, hard) })
	t.place(e, s)
	if s.Opaque {
		t.reported(e, "exe", "fd")
	} else {
		t.executable(e, s)
		t.closed(e, s)
	}
	t.cgroup(p, e, s)
}

// executable is which program runs. The launcher's own binary, where that is the target, is known by its inode, and nothing else will do. It
// executes nothing itself. Every other target isn't that binary.
func (t *table) executable(e Expect, s State) {
	known := e.WorkerID != "" && s.ExeID != ""
	if e.Own {
		t.add("exe", policy.EvidenceKernel, "the worker's, "+e.WorkerID, s.ExeID, known && s.ExeID == e.WorkerID)
		return
	}
	t.add("exe", policy.EvidenceKernel, "not the worker's, "+e.WorkerID, s.ExeID, known && s.ExeID != e.WorkerID)
}

// atMost says whether a limit is as low as another or lower; -1 is unlimited.
func atMost(limit, bound int64) bool { return bound < 0 || limit >= 0 && limit <= bound }

// closed is that the close-on-exec descriptors are closed: the objects of ours that the child held at the gate (its end of the gate above all)
// are gone under every number. A file of the sandbox may be open again, since the target may open what it likes there.
func (t *table) closed(e Expect, s State) {
	for fd, text := range e.FDs {
		if fd < 3+e.Extra || strings.HasPrefix(text, "/") {
			continue
		}
		held := "closed"
		for number, have := range s.FDs {
			if have == text {
				held = "open as " + strconv.Itoa(number)
			}
		}
		t.equal("fd."+strconv.Itoa(fd), "closed", held)
	}
}
