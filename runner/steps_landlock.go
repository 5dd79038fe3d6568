package runner

import (
	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/enforcer/landlock"
	"github.com/sandboxd/sandboxd/enforcer/seccomp"
)

// landlocked says whether the plan has a domain to enter.
func landlocked(plan enforcer.Plan) bool {
	return plan.Landlock.HandledFS != 0 || plan.Landlock.HandledNet != 0 || plan.Landlock.Scoped != 0
}

// landlock enters the domain, before seccomp, so that the filter may refuse the Landlock calls to the target. The kernel gives no way to read a
// domain back, so forbidden acts are tried at once, one for each part of it. None does harm where it isn't refused.
func (t *builder) landlock(plan enforcer.Plan, inv enforcer.Invocation, worker int) {
	if plan.Securebits != 0 { // here and not in /proc: nothing else shows them
		t.add(Step{Name: "probe.securebits", Nr: unix.SYS_PRCTL, Args: [6]uint64{unix.PR_GET_SECUREBITS}, Want: int64(plan.Securebits), Probe: true})
	}
	if !landlocked(plan) {
		return
	}
	rules := numbers(inv.Extra).rules
	t.add(Step{Name: "landlock.restrict_self", Nr: unix.SYS_LANDLOCK_RESTRICT_SELF, Args: [6]uint64{uint64(rules)}})
	t.add(Step{Name: "landlock.close", Nr: unix.SYS_CLOSE, Args: [6]uint64{uint64(rules)}})
	if plan.Landlock.HandledFS&unix.LANDLOCK_ACCESS_FS_WRITE_FILE != 0 {
		t.add(Step{
			Name: "probe.landlock.fs", Nr: unix.SYS_OPENAT, Args: [6]uint64{atFDCWD, 0, unix.O_WRONLY | unix.O_NONBLOCK | unix.O_CLOEXEC},
			Memory: []Memory{{Arg: 1, Bytes: cstring(probeOf(plan))}}, Want: -int64(unix.EACCES), Probe: true,
		})
	}
	// A socket gets the lowest free number, which is the one that the ruleset had.
	if plan.Landlock.Scoped&unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET != 0 {
		name := append(order.AppendUint16(nil, unix.AF_UNIX), 0)
		name = append(name, landlock.ProbeSocket...)
		t.socket("landlock.socket.unix", unix.AF_UNIX, rules)
		t.address("probe.landlock.abstract", unix.SYS_CONNECT, rules, name, unix.EPERM)
		t.add(Step{Name: "landlock.close.unix", Nr: unix.SYS_CLOSE, Args: [6]uint64{uint64(rules)}})
	}
	if plan.Landlock.HandledNet != 0 {
		// Port 1 of 127.0.0.1, which no plan grants, to connect to. To bind to it would take a capability, with or without a domain: any free port,
		// which is number 0 and which no plan grants either.
		loopback := append(order.AppendUint16(nil, unix.AF_INET), 0, 1, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0)
		anyPort := append(order.AppendUint16(nil, unix.AF_INET), 0, 0, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0)
		t.socket("landlock.socket.tcp", unix.AF_INET, rules)
		if plan.Landlock.HandledNet&unix.LANDLOCK_ACCESS_NET_BIND_TCP != 0 {
			t.address("probe.landlock.bind", unix.SYS_BIND, rules, anyPort, unix.EACCES)
		}
		if plan.Landlock.HandledNet&unix.LANDLOCK_ACCESS_NET_CONNECT_TCP != 0 {
			t.address("probe.landlock.connect", unix.SYS_CONNECT, rules, loopback, unix.EACCES)
		}
		t.add(Step{Name: "landlock.close.tcp", Nr: unix.SYS_CLOSE, Args: [6]uint64{uint64(rules)}})
	}
	// Another uid may not signal the worker anyway: only where it is the same does the refusal say something of the domain.
	if plan.Landlock.Scoped&unix.LANDLOCK_SCOPE_SIGNAL != 0 && !plan.SetIDs {
		t.add(Step{Name: "probe.landlock.signal", Nr: unix.SYS_KILL, Args: [6]uint64{uint64(worker), 0}, Want: -int64(unix.EPERM), Probe: true})
	}
}

// probeOf is a file that permissions let everybody write to and no rule grants: ours, or in a root that somebody else made a device that every
// container has and hardly anybody needs.
func probeOf(plan enforcer.Plan) string {
	if plan.Attached {
		return landlock.ProbeDevice
	}
	return landlock.ProbeFIFO
}

func (t *builder) socket(name string, family, want int) {
	t.add(Step{Name: name, Nr: unix.SYS_SOCKET, Args: [6]uint64{uint64(family), unix.SOCK_STREAM | unix.SOCK_CLOEXEC}, Want: int64(want)})
}

func (t *builder) address(name string, nr uintptr, fd int, address []byte, want unix.Errno) {
	t.add(Step{
		Name: name, Nr: nr, Args: [6]uint64{uint64(fd), 0, uint64(len(address))},
		Memory: []Memory{{Arg: 1, Bytes: address}}, Want: -int64(want), Probe: true,
	})
}

// seccomp is the last restriction: everything after it must be allowed by the filter. Its probes are calls that the filter was computed to refuse.
func (t *builder) seccomp(plan enforcer.Plan, inv enforcer.Invocation) {
	if len(plan.Seccomp.Program) == 0 {
		return
	}
	// No TSYNC: the child has one thread.
	install := Step{
		Name: "seccomp", Nr: unix.SYS_SECCOMP, Args: [6]uint64{unix.SECCOMP_SET_MODE_FILTER},
		Memory: []Memory{{Arg: 2, Program: plan.Seccomp.Program.Bytes()}},
	}
	if plan.Listens() { // the listener gets the lowest free number, and is close-on-exec
		install.Args[1], install.Want = seccomp.ListenerFlags, int64(numbers(inv.Extra).rules)
	}
	t.add(install)
	if plan.Listens() {
		// The daemon takes a copy at this word. The probes that follow may need it: their answers come from there.
		t.add(Step{
			Name: "seccomp.listener", Nr: unix.SYS_WRITE, Args: [6]uint64{uint64(numbers(inv.Extra).gate), 0, gateSize},
			Memory: []Memory{{Arg: 1, Word: wordListener}}, Want: gateSize,
		})
	}
	for _, probe := range plan.Seccomp.Probes {
		t.add(Step{Name: "probe.seccomp." + probe.Name, Nr: probe.Nr, Args: probe.Args, Want: -int64(probe.Errno), Probe: true})
	}
}

// atFDCWD is AT_FDCWD (-100) as the kernel takes it.
const atFDCWD = ^uint64(99)
