package enforcer

import "golang.org/x/sys/unix"

// ActCall is a forbidden system call as it is tried: numbers only, no pointer that leads anywhere.
type ActCall struct {
	// Name is the act's, Call the system call's: empty for a number that no kernel has given away.
	Name string
	Call string
	Args [6]uint64
	// Bit is added to the call's number: the x32 entry.
	Bit uint64
	// Own is what the kernel answers where no filter does, for readers: some of it depends on how the kernel was built.
	Own string
}

const (
	none       = 1<<64 - 1 // no descriptor, no process, every flag
	x32Bit     = 0x40000000
	badType    = 15      // a socket type that no kernel has: EINVAL of every family, so that a refusal by family is the filter's
	withThread = 0x10000 // CLONE_THREAD: to unshare of a process with threads, and to clone without shared handlers, EINVAL
)

// actCalls are the families of calls that a filter ought to refuse, each with arguments for which the kernel itself would answer something else,
// where such are known, and which do no harm where the call is let through. What a plan's filter answers to each is found by simulating it.
var actCalls = []ActCall{
	// Terminals: characters pushed to whoever reads there next. The kernel takes the request as 32 bits.
	{Name: "ioctl TIOCSTI", Call: "ioctl", Args: [6]uint64{none, unix.TIOCSTI}, Own: "EBADF"},
	{Name: "ioctl TIOCSTI high", Call: "ioctl", Args: [6]uint64{none, 1<<32 | unix.TIOCSTI}, Own: "EBADF"},
	{Name: "ioctl TIOCLINUX", Call: "ioctl", Args: [6]uint64{none, unix.TIOCLINUX}, Own: "EBADF"},
	{Name: "ioctl TIOCLINUX high", Call: "ioctl", Args: [6]uint64{none, 1<<32 | unix.TIOCLINUX}, Own: "EBADF"},
	{Name: "ioctl TIOCSETD", Call: "ioctl", Args: [6]uint64{none, unix.TIOCSETD}, Own: "EBADF"},
	{Name: "io_uring_setup", Call: "io_uring_setup", Own: "EFAULT"},
	{Name: "io_uring_enter", Call: "io_uring_enter", Args: [6]uint64{none}, Own: "EBADF"},
	{Name: "io_uring_register", Call: "io_uring_register", Args: [6]uint64{none}, Own: "EBADF, EINVAL"},
	{Name: "x32 getpid", Call: "getpid", Bit: x32Bit, Own: "ENOSYS, or a number"},
	{Name: "unknown call", Own: "ENOSYS"},
	{Name: "clone3", Call: "clone3", Own: "EINVAL"},
	{Name: "clone user", Call: "clone", Args: [6]uint64{unix.CLONE_NEWUSER | withThread}, Own: "EINVAL"},
	{Name: "clone mount", Call: "clone", Args: [6]uint64{unix.CLONE_NEWNS | withThread}, Own: "EINVAL"},
	{Name: "clone pid", Call: "clone", Args: [6]uint64{unix.CLONE_NEWPID | withThread}, Own: "EINVAL"},
	{Name: "clone net", Call: "clone", Args: [6]uint64{unix.CLONE_NEWNET | withThread}, Own: "EINVAL"},
	{Name: "clone ipc", Call: "clone", Args: [6]uint64{unix.CLONE_NEWIPC | withThread}, Own: "EINVAL"},
	{Name: "clone uts", Call: "clone", Args: [6]uint64{unix.CLONE_NEWUTS | withThread}, Own: "EINVAL"},
	{Name: "clone cgroup", Call: "clone", Args: [6]uint64{unix.CLONE_NEWCGROUP | withThread}, Own: "EINVAL"},
	{Name: "unshare user", Call: "unshare", Args: [6]uint64{unix.CLONE_NEWUSER | withThread}, Own: "EINVAL"},
	{Name: "unshare mount", Call: "unshare", Args: [6]uint64{unix.CLONE_NEWNS | withThread}, Own: "EINVAL"},
	{Name: "unshare net", Call: "unshare", Args: [6]uint64{unix.CLONE_NEWNET | withThread}, Own: "EINVAL"},
	{Name: "unshare pid", Call: "unshare", Args: [6]uint64{unix.CLONE_NEWPID | withThread}, Own: "EINVAL"},
	{Name: "setns", Call: "setns", Args: [6]uint64{none}, Own: "EBADF"},
	{Name: "ptrace seize", Call: "ptrace", Args: [6]uint64{unix.PTRACE_SEIZE}, Own: "ESRCH"},
	{Name: "ptrace attach", Call: "ptrace", Args: [6]uint64{unix.PTRACE_ATTACH}, Own: "ESRCH"},
	{Name: "process_vm_readv", Call: "process_vm_readv", Args: [6]uint64{0, 0, 0, 0, 0, 1}, Own: "EINVAL"},
	{Name: "process_vm_writev", Call: "process_vm_writev", Args: [6]uint64{0, 0, 0, 0, 0, 1}, Own: "EINVAL"},
	{Name: "process_madvise", Call: "process_madvise", Args: [6]uint64{none, 0, 0, 0, none}, Own: "EINVAL"},
	{Name: "pidfd_getfd", Call: "pidfd_getfd", Args: [6]uint64{none}, Own: "EBADF"},
	{Name: "kcmp", Call: "kcmp", Own: "ESRCH"},
	{Name: "prlimit64 of another", Call: "prlimit64", Args: [6]uint64{none}, Own: "ESRCH"},
	{Name: "keyctl", Call: "keyctl", Args: [6]uint64{0, 1<<64 - 3}, Own: "ENOKEY, or a number"},
	{Name: "add_key", Call: "add_key", Own: "EFAULT"},
	{Name: "request_key", Call: "request_key", Own: "EFAULT"},
	{Name: "socket vsock", Call: "socket", Args: [6]uint64{unix.AF_VSOCK, badType}, Own: "EINVAL"},
	{Name: "socket packet", Call: "socket", Args: [6]uint64{unix.AF_PACKET, badType}, Own: "EINVAL"},
	{Name: "socket alg", Call: "socket", Args: [6]uint64{unix.AF_ALG, badType}, Own: "EINVAL"},
	{Name: "socket bluetooth", Call: "socket", Args: [6]uint64{unix.AF_BLUETOOTH, badType}, Own: "EINVAL"},
	{Name: "socket can", Call: "socket", Args: [6]uint64{unix.AF_CAN, badType}, Own: "EINVAL"},
	{Name: "socket tipc", Call: "socket", Args: [6]uint64{unix.AF_TIPC, badType}, Own: "EINVAL"},
	{Name: "socket rds", Call: "socket", Args: [6]uint64{unix.AF_RDS, badType}, Own: "EINVAL"},
	{Name: "socket key", Call: "socket", Args: [6]uint64{unix.AF_KEY, badType}, Own: "EINVAL"},
	{Name: "socket xdp", Call: "socket", Args: [6]uint64{unix.AF_XDP, badType}, Own: "EINVAL"},
	{Name: "socket netfilter", Call: "socket", Args: [6]uint64{unix.AF_NETLINK, badType, 12}, Own: "EINVAL"},
	{Name: "socket uevent", Call: "socket", Args: [6]uint64{unix.AF_NETLINK, badType, 15}, Own: "EINVAL"},
	{Name: "socket audit", Call: "socket", Args: [6]uint64{unix.AF_NETLINK, badType, 9}, Own: "EINVAL"},
	{Name: "socket inet, odd type", Call: "socket", Args: [6]uint64{unix.AF_INET, badType}, Own: "EINVAL"},
	{Name: "socket inet6, odd type", Call: "socket", Args: [6]uint64{unix.AF_INET6, badType}, Own: "EINVAL"},
	{Name: "socket raw", Call: "socket", Args: [6]uint64{unix.AF_INET, unix.SOCK_RAW, 1}, Own: "EPERM"},
	{Name: "socket raw6", Call: "socket", Args: [6]uint64{unix.AF_INET6, unix.SOCK_RAW, 58}, Own: "EPERM"},
	{Name: "socket mptcp", Call: "socket", Args: [6]uint64{unix.AF_INET, unix.SOCK_STREAM, 262}, Own: "a descriptor"},
	{Name: "socket sctp", Call: "socket", Args: [6]uint64{unix.AF_INET, unix.SOCK_STREAM, 132}, Own: "EPROTONOSUPPORT, or a descriptor"},
	{Name: "socketpair inet", Call: "socketpair", Args: [6]uint64{unix.AF_INET, badType}, Own: "EINVAL, EFAULT"},
	{Name: "bpf", Call: "bpf", Args: [6]uint64{0, 0, 1 << 20}, Own: "E2BIG"},
	{Name: "perf_event_open", Call: "perf_event_open", Args: [6]uint64{0, 0, none, none, none}, Own: "EINVAL"},
	{Name: "userfaultfd", Call: "userfaultfd", Args: [6]uint64{1<<32 - 1}, Own: "EINVAL"},
	{Name: "fanotify_init", Call: "fanotify_init", Args: [6]uint64{none}, Own: "EPERM, EINVAL"},
	{Name: "mount", Call: "mount", Own: "EFAULT"},
	{Name: "umount2", Call: "umount2", Args: [6]uint64{0, 1<<31 - 1}, Own: "EINVAL"},
	{Name: "pivot_root", Call: "pivot_root", Own: "EPERM"},
	{Name: "chroot", Call: "chroot", Own: "EFAULT"},
	{Name: "fsopen", Call: "fsopen", Own: "EPERM"},
	{Name: "fsconfig", Call: "fsconfig", Args: [6]uint64{none}, Own: "EINVAL"},
	{Name: "fsmount", Call: "fsmount", Args: [6]uint64{none}, Own: "EPERM"},
	{Name: "fspick", Call: "fspick", Args: [6]uint64{none}, Own: "EPERM"},
	{Name: "move_mount", Call: "move_mount", Args: [6]uint64{none, 0, none}, Own: "EPERM"},
	{Name: "open_tree", Call: "open_tree", Args: [6]uint64{none, 0, 1<<31 - 1}, Own: "EINVAL"},
	{Name: "mount_setattr", Call: "mount_setattr", Args: [6]uint64{none, 0, 1<<31 - 1}, Own: "EINVAL"},
	{Name: "name_to_handle_at", Call: "name_to_handle_at", Args: [6]uint64{none, 0, 0, 0, none}, Own: "EINVAL"},
	{Name: "open_by_handle_at", Call: "open_by_handle_at", Args: [6]uint64{none}, Own: "EPERM"},
	{Name: "quotactl", Call: "quotactl", Args: [6]uint64{0x7f}, Own: "EINVAL"},
	{Name: "quotactl_fd", Call: "quotactl_fd", Args: [6]uint64{none}, Own: "EBADF"},
	{Name: "swapon", Call: "swapon", Args: [6]uint64{0, 1<<31 - 1}, Own: "EINVAL, EPERM"},
	{Name: "swapoff", Call: "swapoff", Own: "EPERM"},
	{Name: "acct", Call: "acct", Own: "EPERM"},
	{Name: "reboot", Call: "reboot", Own: "EPERM, EINVAL"},
	{Name: "kexec_load", Call: "kexec_load", Args: [6]uint64{0, 0, 0, none}, Own: "EPERM"},
	{Name: "kexec_file_load", Call: "kexec_file_load", Args: [6]uint64{none, none, 0, 0, none}, Own: "EPERM"},
	{Name: "init_module", Call: "init_module", Own: "EPERM"},
	{Name: "finit_module", Call: "finit_module", Args: [6]uint64{none, 0, none}, Own: "EPERM"},
	{Name: "delete_module", Call: "delete_module", Own: "EPERM"},
	{Name: "syslog", Call: "syslog", Args: [6]uint64{none}, Own: "EINVAL, EPERM"},
	{Name: "settimeofday", Call: "settimeofday", Args: [6]uint64{1}, Own: "EFAULT"},
	{Name: "clock_settime", Call: "clock_settime", Args: [6]uint64{unix.CLOCK_MONOTONIC}, Own: "EINVAL"},
	{Name: "sethostname", Call: "sethostname", Args: [6]uint64{0, none}, Own: "EPERM"},
	{Name: "setdomainname", Call: "setdomainname", Args: [6]uint64{0, none}, Own: "EPERM"},
	{Name: "vhangup", Call: "vhangup", Own: "EPERM"},
	{Name: "personality", Call: "personality", Args: [6]uint64{0x0040000 /* ADDR_NO_RANDOMIZE */}, Own: "a number"},
	{Name: "ioperm", Call: "ioperm", Args: [6]uint64{0, none, 1}, Own: "EINVAL"},
	{Name: "iopl", Call: "iopl", Args: [6]uint64{9}, Own: "EINVAL"},
}

// networkCalls are those that only a filter which holds the network refuses.
var networkCalls = []ActCall{
	{Name: "socket inet", Call: "socket", Args: [6]uint64{unix.AF_INET, unix.SOCK_STREAM}, Own: "a descriptor"},
	{Name: "socket inet6", Call: "socket", Args: [6]uint64{unix.AF_INET6, unix.SOCK_STREAM}, Own: "a descriptor"},
	{Name: "socket udp", Call: "socket", Args: [6]uint64{unix.AF_INET, unix.SOCK_DGRAM}, Own: "a descriptor"},
	{Name: "socket udp6", Call: "socket", Args: [6]uint64{unix.AF_INET6, unix.SOCK_DGRAM}, Own: "a descriptor"},
	{Name: "socket inet high", Call: "socket", Args: [6]uint64{1<<32 | unix.AF_INET, 1<<32 | unix.SOCK_DGRAM}, Own: "a descriptor"},
	{Name: "socket route", Call: "socket", Args: [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW}, Own: "a descriptor"},
	{Name: "socket mptcp6", Call: "socket", Args: [6]uint64{unix.AF_INET6, unix.SOCK_STREAM, 262}, Own: "a descriptor"},
	{Name: "sendto fast open", Call: "sendto", Args: [6]uint64{none, 0, 0, unix.MSG_FASTOPEN}, Own: "EBADF"},
	{Name: "sendmsg fast open", Call: "sendmsg", Args: [6]uint64{none, 0, unix.MSG_FASTOPEN}, Own: "EBADF"},
	{Name: "sendmmsg fast open", Call: "sendmmsg", Args: [6]uint64{none, 0, 0, unix.MSG_FASTOPEN}, Own: "EBADF"},
	{Name: "listen", Call: "listen", Args: [6]uint64{none}, Own: "EBADF"},
}

// readingCalls are those that a plan which reads only refuses besides. They name nothing, so that without a filter they change nothing.
var readingCalls = []ActCall{
	{Name: "fchmod", Call: "fchmod", Args: [6]uint64{none, 0o777}, Own: "EBADF"},
	{Name: "fchmodat", Call: "fchmodat", Args: [6]uint64{none}, Own: "EFAULT"},
	{Name: "fchown", Call: "fchown", Args: [6]uint64{none, none, none}, Own: "EBADF"},
	{Name: "fchownat", Call: "fchownat", Args: [6]uint64{none, 0, none, none}, Own: "EFAULT"},
	{Name: "utimensat", Call: "utimensat", Args: [6]uint64{none}, Own: "EBADF"},
	{Name: "fsetxattr", Call: "fsetxattr", Args: [6]uint64{none}, Own: "EBADF"},
	{Name: "fremovexattr", Call: "fremovexattr", Args: [6]uint64{none}, Own: "EBADF"},
}

// unknownCall is a number far above those that any kernel has given away.
const unknownCall = 4000
