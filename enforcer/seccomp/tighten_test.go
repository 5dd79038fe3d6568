package seccomp

import (
	"syscall"
	"testing"
)

// TestForbidden walks the kernel-surface group of the attack catalogue, under the default profile and under one that allows everything.
func TestForbidden(t *testing.T) {
	eperm, enosys, eaf := Errno(syscall.EPERM), Errno(syscall.ENOSYS), Errno(syscall.EAFNOSUPPORT)
	rows := []struct {
		why  string
		call string
		args [6]uint64
		want Action
	}{
		{"A8 keys pushed into a terminal", "ioctl", [6]uint64{0, 0x5412}, eperm},
		{"A9 paste through a console", "ioctl", [6]uint64{0, 0x541c}, eperm},
		{"A10 high bits", "ioctl", [6]uint64{0, 0xffffffff_00005412}, eperm},
		{"A10 high bits", "ioctl", [6]uint64{0, 0x1_0000541c}, eperm},
		{"other ioctls", "ioctl", [6]uint64{0, 0x5413}, Allow},
		{"A11", "io_uring_setup", [6]uint64{}, enosys},
		{"A11", "io_uring_enter", [6]uint64{}, enosys},
		{"A11", "io_uring_register", [6]uint64{}, enosys},
		{"A14", "clone3", [6]uint64{}, enosys},
		{"A14 new user namespace", "clone", [6]uint64{0x10000000 | 17}, eperm},
		{"A14 new mount namespace", "clone", [6]uint64{0x00020000}, eperm},
		{"A14 new cgroup namespace", "clone", [6]uint64{0x02000000}, eperm},
		{"A14 new uts namespace", "clone", [6]uint64{0x04000000}, eperm},
		{"A14 new ipc namespace", "clone", [6]uint64{0x08000000}, eperm},
		{"A14 new pid namespace", "clone", [6]uint64{0x20000000}, eperm},
		{"A14 new net namespace", "clone", [6]uint64{0x40000000 | 0xdead<<32}, eperm},
		{"a plain fork", "clone", [6]uint64{17}, Allow},
		{"a thread", "clone", [6]uint64{0x3d0f00}, Allow},
		{"A16", "unshare", [6]uint64{0x10000000}, eperm},
		{"A17", "ptrace", [6]uint64{0x4206, 1}, eperm},
		{"A19", "process_vm_writev", [6]uint64{1}, eperm},
		{"A19", "process_vm_readv", [6]uint64{1}, eperm},
		{"A22", "keyctl", [6]uint64{}, enosys},
		{"A22", "add_key", [6]uint64{}, enosys},
		{"A22", "request_key", [6]uint64{}, enosys},
		{"A23 vsock", "socket", [6]uint64{40, 1}, eaf},
		{"A23 vsock, high bits", "socket", [6]uint64{1<<32 | 40, 1}, eaf},
		{"A23 packet", "socket", [6]uint64{17, 3, 0x300}, eaf},
		{"A23 alg", "socket", [6]uint64{38, 5}, eaf},
		{"A23 bluetooth", "socket", [6]uint64{31, 3}, eaf},
		{"A23 xdp", "socket", [6]uint64{44, 3}, eaf},
		{"A23 no family", "socket", [6]uint64{0, 1}, eaf},
		{"A23 netlink netfilter", "socket", [6]uint64{16, 3, 12}, eaf},
		{"A23 netlink audit", "socket", [6]uint64{16, 3 | 0x80000, 9}, eaf},
		{"netlink route", "socket", [6]uint64{16, 3 | 0x80000, 0}, Allow},
		{"A23 raw icmp", "socket", [6]uint64{2, 3, 1}, eperm},
		{"A23 raw icmp, high bits", "socket", [6]uint64{2, 0xff_0000_0003, 1}, eperm},
		{"A23 raw, close on exec", "socket", [6]uint64{10, 3 | 0x80800, 58}, eperm},
		{"A23 SOCK_PACKET", "socket", [6]uint64{2, 10, 0}, eperm},
		{"dccp", "socket", [6]uint64{2, 6, 33}, eperm},
		{"sctp", "socket", [6]uint64{2, 1, 132}, Errno(syscall.EPROTONOSUPPORT)},
		{"mptcp", "socket", [6]uint64{10, 1, 262}, Errno(syscall.EPROTONOSUPPORT)},
		{"tcp", "socket", [6]uint64{2, 1 | 0x80800, 6}, Allow},
		{"udp 6", "socket", [6]uint64{10, 2, 0}, Allow},
		{"ping", "socket", [6]uint64{2, 2, 1}, Allow},
		{"unix stream", "socket", [6]uint64{1, 1}, Allow},
		{"unix seqpacket", "socket", [6]uint64{1, 5}, Allow},
		{"unix pair", "socketpair", [6]uint64{1, 1}, Allow},
		{"tipc pair", "socketpair", [6]uint64{30, 5}, eaf},
		{"limits of another", "prlimit64", [6]uint64{1}, eperm},
		{"limits of another, read", "prlimit64", [6]uint64{7, 7, 0, 0x7fff0000}, eperm},
		{"limits of another, by a negative number", "prlimit64", [6]uint64{1<<64 - 1}, eperm},
		{"own limits", "prlimit64", [6]uint64{0, 7, 0x7fff0000}, Allow},
		{"own limits, high bits", "prlimit64", [6]uint64{1 << 32, 7, 0x7fff0000}, Allow},
		{"A24", "setns", [6]uint64{}, eperm},
		{"A24", "bpf", [6]uint64{}, eperm},
		{"A24", "perf_event_open", [6]uint64{}, eperm},
		{"A24", "userfaultfd", [6]uint64{}, eperm},
		{"A24", "kexec_load", [6]uint64{}, eperm},
		{"A24", "kexec_file_load", [6]uint64{}, eperm},
		{"A24", "init_module", [6]uint64{}, eperm},
		{"A24", "finit_module", [6]uint64{}, eperm},
		{"A24", "delete_module", [6]uint64{}, eperm},
		{"A24", "mount", [6]uint64{}, eperm},
		{"A24", "umount2", [6]uint64{}, eperm},
		{"A24", "pivot_root", [6]uint64{}, eperm},
		{"A24", "fsopen", [6]uint64{}, eperm},
		{"A24", "fsmount", [6]uint64{}, eperm},
		{"A24", "move_mount", [6]uint64{}, eperm},
		{"A24", "open_tree", [6]uint64{}, eperm},
		{"A24", "open_tree_attr", [6]uint64{}, eperm},
		{"A24", "mount_setattr", [6]uint64{}, eperm},
		{"A24", "open_by_handle_at", [6]uint64{}, eperm},
		{"A24", "quotactl", [6]uint64{}, eperm},
		{"A24", "quotactl_fd", [6]uint64{}, eperm},
		{"A24", "swapon", [6]uint64{}, eperm},
		{"A30 allowed, and the plan says which program", "memfd_create", [6]uint64{}, Allow},
		{"A30", "execveat", [6]uint64{}, Allow},
		{"landlock", "landlock_restrict_self", [6]uint64{}, Allow},
	}
	for _, m := range machines {
		programs := map[string]Program{
			"default":   mustCompile(t, mustDefault(t, m.goarch), m.goarch),
			"allow all": mustCompile(t, Profile{Default: Allow}, m.goarch),
			"log all":   mustCompile(t, Profile{Default: Log}, m.goarch),
		}
		for name, program := range programs {
			for _, r := range rows {
				want := r.want
				if want == Allow && name == "log all" {
					want = Log
				}
				if got := Action(program.Run(m.audit, number(t, m.goarch, r.call), r.args)); got != want {
					t.Errorf("%s, %s: %s: %s%x: got %v, want %v", m.goarch, name, r.why, r.call, r.args, got, want)
				}
			}
			testNumbers(t, name, m, program)
		}
	}
}

// testNumbers: A12, A13, A15.
func testNumbers(t *testing.T, name string, m machine, program Program) {
	t.Helper()
	x32, x32Last := KillProcess, KillProcess
	if !m.x32 {
		x32, x32Last = Errno(syscall.ENOSYS), Errno(syscall.ENOSYS)
	}
	for _, r := range []struct {
		arch uint32
		nr   uint64
		want Action
	}{
		{m.audit, uint64(len(m.names())), Errno(syscall.ENOSYS)},
		{m.audit, 400, Errno(syscall.ENOSYS)}, // a hole in the table
		{m.audit, 1<<30 - 1, Errno(syscall.ENOSYS)},
		{m.audit, 1 << 30, x32},
		{m.audit, 1<<30 | 41, x32},
		{m.audit, 1<<31 | 1, x32Last},
		{m.audit, 1<<32 - 2, x32Last},
		{m.audit, 1<<32 - 1, Errno(syscall.ENOSYS)},
		{0x40000003, 4, KillProcess},                                      // i386 write
		{0x40000003, 102, KillProcess},                                    // i386 socketcall
		{0x40000028, 4, KillProcess},                                      // arm
		{machines[0].audit ^ machines[1].audit ^ m.audit, 1, KillProcess}, // the other one of ours
		{0, 0, KillProcess},
		{1<<32 - 1, 0, KillProcess},
	} {
		if got := Action(program.Run(r.arch, r.nr, [6]uint64{})); got != r.want {
			t.Errorf("%s, %s: architecture %#x, number %#x: got %v, want %v", m.goarch, name, r.arch, r.nr, got, r.want)
		}
	}
}

// TestTighteningNamesExist: each name of the tables is a call, and each refused call is refused on both architectures where they have it.
func TestTighteningNamesExist(t *testing.T) {
	for _, r := range BaseTightening() {
		if r.Action.permits() {
			t.Errorf("%v: %v permits", r.Calls, r.Action)
		}
		for _, name := range r.Calls {
			if _, ok := lookup(name); !ok {
				t.Errorf("%s is no system call", name)
			}
			for _, test := range r.Tests {
				if test.Mask > low {
					t.Errorf("%s: a 64-bit comparison of argument %d", name, test.Arg)
				}
			}
		}
	}
	for _, n := range low32 {
		if _, ok := lookup(n.name); !ok {
			t.Errorf("%s is no system call", n.name)
		}
	}
	for _, name := range gateCalls {
		for _, m := range machines {
			if _, ok := Number(m.goarch, name); !ok {
				t.Errorf("%s has no %s", m.goarch, name)
			}
		}
	}
}
