package seccomp

import (
	"slices"
	"syscall"
)

// atAnyTime are calls that a program makes when the timing is such, and that one observed run may not have shown: the ends of a signal handler and
// of a thread, a sleep or a lock that is gone on with.
var atAnyTime = [...]string{"exit", "futex", "restart_syscall", "rt_sigreturn", "sched_yield"}

// Restricted is the profile cut down to what a run of a program has used: every rule as it is, for those calls alone, the calls of the gate, and a few
// that depend on timing. It never allows what the profile doesn't.
func (p Profile) Restricted(arch string, used []string) (Profile, error) {
	resolved, err := p.Resolved(arch)
	if err != nil {
		return Profile{}, err
	}
	used = slices.Sorted(slices.Values(slices.Concat(used, gateCalls[:], atAnyTime[:])))
	used = slices.Compact(used)
	restricted := Profile{Default: Errno(syscall.EPERM), Kernel: p.Kernel}
	if p.Default.permits() {
		restricted.Rules = append(restricted.Rules, Rule{Calls: used, Action: p.Default})
	}
	for _, r := range resolved.Rules {
		kept := slices.DeleteFunc(slices.Clone(r.Calls), func(name string) bool { return !slices.Contains(used, name) })
		if len(kept) == 0 {
			continue
		}
		slices.Sort(kept)
		r.Calls = kept
		restricted.Rules = append(restricted.Rules, r)
	}
	return restricted, nil
}
