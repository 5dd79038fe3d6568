package seccomp

import "syscall"

const (
	low      = 0xffffffff
	typeMask = 0xf // SOCK_TYPE_MASK: the rest are SOCK_CLOEXEC and SOCK_NONBLOCK

	afUnix, afInet, afInet6, afNetlink = 1, 2, 10, 16
	sockStream, sockDgram              = 1, 2
	netlinkRoute                       = 0

	// namespaceFlags are CLONE_NEW* but CLONE_NEWTIME, which only unshare and clone3 take (in clone it is part of the exit signal).
	namespaceFlags = 0x7e020000
	tiocsti        = 0x5412
	tioclinux      = 0x541c
	tiocsetd       = 0x5423

	prioUser, ioprioUser = 2, 3 // PRIO_USER, IOPRIO_WHO_USER
)

// BaseTightening is what sandboxd refuses on top of any profile. The answer of a call is the stricter of the two; between two errnos, this one.
// Besides, and not expressible as rules: foreign architectures and x32 numbers are killed, numbers that nobody knows answer ENOSYS.
func BaseTightening() []Rule {
	return []Rule{
		// libc and runtimes fall back on ENOSYS; EPERM breaks them. clone3 hides its flags behind a pointer that no filter can follow.
		{Action: Errno(syscall.ENOSYS), Calls: []string{
			"clone3",
			"io_uring_enter", "io_uring_register", "io_uring_setup", // opens files and sockets past this filter
			"add_key", "keyctl", "request_key", // kernel memory that outlives the sandbox and isn't in any namespace
		}},
		{Action: Errno(syscall.EPERM), Calls: []string{
			"setns", "unshare",
			"kcmp", "pidfd_getfd", "process_madvise", "process_vm_readv", "process_vm_writev", "ptrace",
			"chroot", "fsconfig", "fsmount", "fsopen", "fspick", "mount", "mount_setattr", "move_mount", "open_tree", "open_tree_attr", "pivot_root", "umount", "umount2",
			"bpf", "fanotify_init", "lookup_dcookie", "perf_event_open", "userfaultfd",
			"create_module", "delete_module", "finit_module", "get_kernel_syms", "init_module", "kexec_file_load", "kexec_load", "query_module",
			"name_to_handle_at", "open_by_handle_at", // handles reach files outside of the root
			"acct", "nfsservctl", "quotactl", "quotactl_fd", "reboot", "swapoff", "swapon", "syslog", "vhangup",
			"clock_settime", "clock_settime64", "settimeofday", "stime",
			"ioperm", "iopl", "_sysctl", "setdomainname", "sethostname", "uselib",
		}},
		// Flags are the first argument on both of our architectures.
		{Action: Errno(syscall.EPERM), Calls: []string{"clone"}, Tests: []Test{{Op: NotEqual, Mask: namespaceFlags, Value: 0}}},
		// Who may read and set the limits of others is asked by uid alone, and no Landlock scope stands against it: an RLIMIT_CPU of 0 kills another
		// exec of the sandbox, and for an ordinary user the worker and the launcher too. Without a number it is one's own.
		{Action: Errno(syscall.EPERM), Calls: []string{"prlimit64"}, Tests: []Test{{Op: NotEqual, Mask: low, Value: 0}}},
		// Priorities of everybody of a uid at once: every exec of the sandbox, and for an ordinary user worker and launcher. By number it can't be refused:
		// threads have numbers of their own, and libraries set theirs by them.
		{Action: Errno(syscall.EPERM), Calls: []string{"setpriority"}, Tests: []Test{{Op: Equal, Mask: low, Value: prioUser}}},
		{Action: Errno(syscall.EPERM), Calls: []string{"ioprio_set"}, Tests: []Test{{Op: Equal, Mask: low, Value: ioprioUser}}},
		{Action: Errno(syscall.EPERM), Calls: []string{"ioctl"}, Tests: []Test{{Arg: 1, Op: Equal, Mask: low, Value: tiocsti}}},
		{Action: Errno(syscall.EPERM), Calls: []string{"ioctl"}, Tests: []Test{{Arg: 1, Op: Equal, Mask: low, Value: tioclinux}}},
		// A line discipline is a driver, loaded on demand, for who has a terminal (n_hdlc: CVE-2017-2636, n_gsm: CVE-2023-6546).
		{Action: Errno(syscall.EPERM), Calls: []string{"ioctl"}, Tests: []Test{{Arg: 1, Op: Equal, Mask: low, Value: tiocsetd}}},

		// Families: VSOCK reaches the hypervisor from any network namespace; the others are drivers that nothing here needs.
		{Action: Errno(syscall.EAFNOSUPPORT), Calls: []string{"socket"}, Tests: []Test{
			{Op: NotEqual, Mask: low, Value: afUnix}, {Op: NotEqual, Mask: low, Value: afInet},
			{Op: NotEqual, Mask: low, Value: afInet6}, {Op: NotEqual, Mask: low, Value: afNetlink},
		}},
		{Action: Errno(syscall.EAFNOSUPPORT), Calls: []string{"socket"}, Tests: []Test{
			{Op: Equal, Mask: low, Value: afNetlink}, {Arg: 2, Op: NotEqual, Mask: low, Value: netlinkRoute},
		}},
		// SOCK_RAW and SOCK_PACKET forge packets; the other types and protocols (DCCP, SCTP, MPTCP, L2TP, SMC) load modules on demand.
		{Action: Errno(syscall.EPERM), Calls: []string{"socket"}, Tests: otherTypes(afInet)},
		{Action: Errno(syscall.EPERM), Calls: []string{"socket"}, Tests: otherTypes(afInet6)},
		{Action: Errno(syscall.EPROTONOSUPPORT), Calls: []string{"socket"}, Tests: otherProtocols(afInet)},
		{Action: Errno(syscall.EPROTONOSUPPORT), Calls: []string{"socket"}, Tests: otherProtocols(afInet6)},
		{Action: Errno(syscall.EAFNOSUPPORT), Calls: []string{"socketpair"}, Tests: []Test{{Op: NotEqual, Mask: low, Value: afUnix}}},
	}
}

// otherTypes holds for sockets of a family that are neither stream nor datagram.
func otherTypes(family uint64) []Test {
	return []Test{
		{Op: Equal, Mask: low, Value: family},
		{Arg: 1, Op: NotEqual, Mask: typeMask, Value: sockStream},
		{Arg: 1, Op: NotEqual, Mask: typeMask, Value: sockDgram},
	}
}

// otherProtocols holds for sockets of a family that are not TCP, UDP or ping.
func otherProtocols(family uint64) []Test {
	tests := []Test{{Op: Equal, Mask: low, Value: family}}
	for _, protocol := range [...]uint64{0, syscall.IPPROTO_TCP, syscall.IPPROTO_UDP, syscall.IPPROTO_ICMP, syscall.IPPROTO_ICMPV6} {
		tests = append(tests, Test{Arg: 2, Op: NotEqual, Mask: low, Value: protocol})
	}
	return tests
}

// gateCalls are what the child still needs once the filter is on: to say it is ready, to wait for its release, to unblock signals, and to go.
var gateCalls = [...]string{"write", "read", "rt_sigprocmask", "execve", "execveat", "exit_group"}
