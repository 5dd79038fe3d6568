package enforcer

import "golang.org/x/sys/unix"

// ActCall is a forbidden system call as it is tried: numbers only, no pointer that leads anywhere.
type ActCall struct {
	// Name is the act's, Call the system call's.
	Name string
	Call string
	Args [6]uint64
	// Bit is added to the call's number: the x32 entry.
	Bit uint64
}

const (
	none       = 1<<64 - 1 // no descriptor, no process, every flag
	x32Bit     = 0x40000000
	badType    = 15      // a socket type that no kernel has: EINVAL of every family, so that a refusal by family is the filter's
	withThread = 0x10000 // CLONE_THREAD: to unshare of a process with threads, and to clone without shared handlers, EINVAL
)

// actCalls are the families of calls that a filter ought to refuse, each with arguments for which the kernel itself would answer something else,
// where such are known, and which do no harm where the call is let through. What a plan's filter answers to each is found by simulating it. The
// comment is the kernel's own answer.
var actCalls = []ActCall{
	// Terminals: characters pushed to whoever reads there next. The kernel takes the request as 32 bits.
	{Name: "ioctl TIOCSTI", Call: "ioctl", Args: [6]uint64{none, unix.TIOCSTI}},                  // EBADF
	{Name: "ioctl TIOCSTI high", Call: "ioctl", Args: [6]uint64{none, 1<<32 | unix.TIOCSTI}},     // EBADF
	{Name: "ioctl TIOCLINUX", Call: "ioctl", Args: [6]uint64{none, unix.TIOCLINUX}},              // EBADF
	{Name: "ioctl TIOCLINUX high", Call: "ioctl", Args: [6]uint64{none, 1<<32 | unix.TIOCLINUX}}, // EBADF
	{Name: "io_uring_setup", Call: "io_uring_setup"},                                             // EFAULT
	{Name: "io_uring_enter", Call: "io_uring_enter", Args: [6]uint64{none}},                      // EBADF
	{Name: "io_uring_register", Call: "io_uring_register", Args: [6]uint64{none}},                // EBADF, EINVAL
	{Name: "x32 getpid", Call: "getpid", Bit: x32Bit},                                            // ENOSYS, or a number
	{Name: "unknown call", Call: "", Args: [6]uint64{}},                                          // ENOSYS: what must not become EPERM
	{Name: "clone3", Call: "clone3"},                                                             // EINVAL
	{Name: "clone user", Call: "clone", Args: [6]uint64{unix.CLONE_NEWUSER | withThread}},        // EINVAL, as all that follow
	{Name: "clone mount", Call: "clone", Args: [6]uint64{unix.CLONE_NEWNS | withThread}},         //
	{Name: "clone pid", Call: "clone", Args: [6]uint64{unix.CLONE_NEWPID | withThread}},          //
	{Name: "clone net", Call: "clone", Args: [6]uint64{unix.CLONE_NEWNET | withThread}},          //
	{Name: "clone ipc", Call: "clone", Args: [6]uint64{unix.CLONE_NEWIPC | withThread}},          //
	{Name: "clone uts", Call: "clone", Args: [6]uint64{unix.CLONE_NEWUTS | withThread}},          //
	{Name: "clone cgroup", Call: "clone", Args: [6]uint64{unix.CLONE_NEWCGROUP | withThread}},    //
	{Name: "unshare user", Call: "unshare", Args: [6]uint64{unix.CLONE_NEWUSER | withThread}},    //
	{Name: "unshare mount", Call: "unshare", Args: [6]uint64{unix.CLONE_NEWNS | withThread}},     //
	{Name: "unshare net", Call: "unshare", Args: [6]uint64{unix.CLONE_NEWNET | withThread}},      //
	{Name: "unshare pid", Call: "unshare", Args: [6]uint64{unix.CLONE_NEWPID | withThread}},      //
	{Name: "setns", Call: "setns", Args: [6]uint64{none}},                                        // EBADF
	{Name: "ptrace seize", Call: "ptrace", Args: [6]uint64{unix.PTRACE_SEIZE}},                   // ESRCH
	{Name: "ptrace attach", Call: "ptrace", Args: [6]uint64{unix.PTRACE_ATTACH}},                 // ESRCH
	{Name: "process_vm_readv", Call: "process_vm_readv", Args: [6]uint64{0, 0, 0, 0, 0, 1}},      // EINVAL
	{Name: "process_vm_writev", Call: "process_vm_writev", Args: [6]uint64{0, 0, 0, 0, 0, 1}},    // EINVAL
	{Name: "process_madvise", Call: "process_madvise", Args: [6]uint64{none, 0, 0, 0, none}},     // EINVAL
	{Name: "pidfd_getfd", Call: "pidfd_getfd", Args: [6]uint64{none}},                            // EBADF
	{Name: "kcmp", Call: "kcmp"}, // ESRCH
	{Name: "prlimit64 of another", Call: "prlimit64", Args: [6]uint64{none}},                     // ESRCH
	{Name: "keyctl", Call: "keyctl", Args: [6]uint64{0, 1<<64 - 3}},                              // ENOKEY, or a number
	{Name: "add_key", Call: "add_key"},                                                           // EFAULT
	{Name: "request_key", Call: "request_key"},                                                   // EFAULT
	{Name: "socket vsock", Call: "socket", Args: [6]uint64{unix.AF_VSOCK, badType}},              // EINVAL, as all families that follow
	{Name: "socket packet", Call: "socket", Args: [6]uint64{unix.AF_PACKET, badType}},            //
	{Name: "socket alg", Call: "socket", Args: [6]uint64{unix.AF_ALG, badType}},                  //
	{Name: "socket bluetooth", Call: "socket", Args: [6]uint64{unix.AF_BLUETOOTH, badType}},      //
	{Name: "socket can", Call: "socket", Args: [6]uint64{unix.AF_CAN, badType}},                  //
	{Name: "socket tipc", Call: "socket", Args: [6]uint64{unix.AF_TIPC, badType}},                //
	{Name: "socket rds", Call: "socket", Args: [6]uint64{unix.AF_RDS, badType}},                  //
	{Name: "socket key", Call: "socket", Args: [6]uint64{unix.AF_KEY, badType}},                  //
	{Name: "socket xdp", Call: "socket", Args: [6]uint64{unix.AF_XDP, badType}},                  //
	{Name: "socket netfilter", Call: "socket", Args: [6]uint64{unix.AF_NETLINK, badType, 12}},    //
	{Name: "socket uevent", Call: "socket", Args: [6]uint64{unix.AF_NETLINK, badType, 15}},       //
	{Name: "socket audit", Call: "socket", Args: [6]uint64{unix.AF_NETLINK, badType, 9}},         //
	{Name: "socket inet, odd type", Call: "socket", Args: [6]uint64{unix.AF_INET, badType}},      //
	{Name: "socket inet6, odd type", Call: "socket", Args: [6]uint64{unix.AF_INET6, badType}},    //
	{Name: "socket raw", Call: "socket", Args: [6]uint64{unix.AF_INET, unix.SOCK_RAW, 1}},        // EPERM
	{Name: "socket raw6", Call: "socket", Args: [6]uint64{unix.AF_INET6, unix.SOCK_RAW, 58}},     // EPERM
	{Name: "socket mptcp", Call: "socket", Args: [6]uint64{unix.AF_INET, unix.SOCK_STREAM, 262}}, // a descriptor
	{Name: "socket sctp", Call: "socket", Args: [6]uint64{unix.AF_INET, unix.SOCK_STREAM, 132}},  // EPROTONOSUPPORT, or a descriptor
	{Name: "socketpair inet", Call: "socketpair", Args: [6]uint64{unix.AF_INET, badType}},        // EINVAL, EFAULT
	{Name: "bpf", Call: "bpf", Args: [6]uint64{0, 0, 1 << 20}},                                   // E2BIG
	{Name: "perf_event_open", Call: "perf_event_open", Args: [6]uint64{0, 0, none, none, none}},  // EINVAL
	{Name: "userfaultfd", Call: "userfaultfd", Args: [6]uint64{1<<32 - 1}},                       // EINVAL
	{Name: "fanotify_init", Call: "fanotify_init", Args: [6]uint64{none}},                        // EPERM, EINVAL
	{Name: "mount", Call: "mount"},                                                                 // EFAULT
	{Name: "umount2", Call: "umount2", Args: [6]uint64{0, 1<<31 - 1}},                              // EINVAL
	{Name: "pivot_root", Call: "pivot_root"},                                                       // EPERM
	{Name: "chroot", Call: "chroot"},                                                               // EFAULT
	{Name: "fsopen", Call: "fsopen"},                                                               // EPERM
	{Name: "fsconfig", Call: "fsconfig", Args: [6]uint64{none}},                                    // EINVAL
	{Name: "fsmount", Call: "fsmount", Args: [6]uint64{none}},                                      // EPERM
	{Name: "fspick", Call: "fspick", Args: [6]uint64{none}},                                        // EPERM
	{Name: "move_mount", Call: "move_mount", Args: [6]uint64{none, 0, none}},                       // EPERM
	{Name: "open_tree", Call: "open_tree", Args: [6]uint64{none, 0, 1<<31 - 1}},                    // EINVAL
	{Name: "mount_setattr", Call: "mount_setattr", Args: [6]uint64{none, 0, 1<<31 - 1}},            // EINVAL
	{Name: "name_to_handle_at", Call: "name_to_handle_at", Args: [6]uint64{none, 0, 0, 0, none}},   // EINVAL
	{Name: "open_by_handle_at", Call: "open_by_handle_at", Args: [6]uint64{none}},                  // EPERM
	{Name: "quotactl", Call: "quotactl", Args: [6]uint64{0x7f}},                                    // EINVAL
	{Name: "quotactl_fd", Call: "quotactl_fd", Args: [6]uint64{none}},                              // EBADF
	{Name: "swapon", Call: "swapon", Args: [6]uint64{0, 1<<31 - 1}},                                // EINVAL, EPERM
	{Name: "swapoff", Call: "swapoff"},                                                             // EPERM
	{Name: "acct", Call: "acct", Args: [6]uint64{}},                                                // EPERM
	{Name: "reboot", Call: "reboot"},                                                               // EPERM, EINVAL
	{Name: "kexec_load", Call: "kexec_load", Args: [6]uint64{0, 0, 0, none}},                       // EPERM
	{Name: "kexec_file_load", Call: "kexec_file_load", Args: [6]uint64{none, none, 0, 0, none}},    // EPERM
	{Name: "init_module", Call: "init_module"},                                                     // EPERM
	{Name: "finit_module", Call: "finit_module", Args: [6]uint64{none, 0, none}},                   // EPERM
	{Name: "delete_module", Call: "delete_module"},                                                 // EPERM
	{Name: "syslog", Call: "syslog", Args: [6]uint64{none}},                                        // EINVAL, EPERM
	{Name: "settimeofday", Call: "settimeofday", Args: [6]uint64{1}},                               // EFAULT
	{Name: "clock_settime", Call: "clock_settime", Args: [6]uint64{unix.CLOCK_MONOTONIC}},          // EINVAL
	{Name: "sethostname", Call: "sethostname", Args: [6]uint64{0, none}},                           // EPERM
	{Name: "setdomainname", Call: "setdomainname", Args: [6]uint64{0, none}},                       // EPERM
	{Name: "vhangup", Call: "vhangup"},                                                             // EPERM
	{Name: "personality", Call: "personality", Args: [6]uint64{0x0040000 /* ADDR_NO_RANDOMIZE */}}, // a number
	{Name: "ioperm", Call: "ioperm", Args: [6]uint64{0, none, 1}},                                  // EINVAL
	{Name: "iopl", Call: "iopl", Args: [6]uint64{9}},                                               // EINVAL
}

// unknownCall is a number far above those that any kernel has given away.
const unknownCall = 4000
