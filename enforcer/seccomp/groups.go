package seccomp

import "slices"

// Group is what calls have in common, and what they give to who may make them.
type Group struct {
	Name string
	Why  string
	call []string
}

// groups cover what the base tightening refuses and what RuntimeDefault leaves out. The rest has no group.
var groups = [...]Group{
	{"namespaces", "makes or enters namespaces, in which a process has every capability: the way of most escapes of the last ten years", []string{"clone", "clone3", "setns", "unshare"}},
	{"mounts", "changes what the sandbox sees as its files", []string{
		"chroot", "fsconfig", "fsmount", "fsopen", "fspick", "listns", "mount", "mount_setattr", "move_mount", "open_tree", "open_tree_attr", "pivot_root", "umount", "umount2",
	}},
	{"other processes", "reads or changes the memory, the descriptors, the limits or the priority of other processes", []string{
		"ioprio_set", "kcmp", "migrate_pages", "pidfd_getfd", "prlimit64", "process_madvise", "process_vm_readv", "process_vm_writev", "ptrace", "setpriority",
	}},
	{"io_uring", "opens files and sockets past any filter", []string{"io_uring_enter", "io_uring_register", "io_uring_setup"}},
	{"keys", "kernel memory that outlives the sandbox and is in no namespace", []string{"add_key", "keyctl", "request_key"}},
	{"bpf and tracing", "runs programs in the kernel or watches it from inside", []string{
		"bpf", "fanotify_init", "lookup_dcookie", "perf_event_open", "uprobe", "uretprobe", "userfaultfd",
	}},
	{"kernel code", "replaces the kernel or parts of it", []string{
		"create_module", "delete_module", "finit_module", "get_kernel_syms", "init_module", "kexec_file_load", "kexec_load", "query_module",
	}},
	{"file handles", "reaches files outside of the root", []string{"name_to_handle_at", "open_by_handle_at"}},
	{"the machine", "changes clock, names, swap, ports, accounting or power of the whole machine", []string{
		"_sysctl", "acct", "clock_settime", "clock_settime64", "ioperm", "iopl", "nfsservctl", "quotactl", "quotactl_fd", "reboot", "setdomainname",
		"sethostname", "settimeofday", "stime", "swapoff", "swapon", "syslog", "uselib", "vhangup",
	}},
	{"terminals", "types into the terminal of whoever started it (TIOCSTI, CVE-2017-5226)", []string{"ioctl"}},
	{"sockets", "reaches the hypervisor (AF_VSOCK), loads network modules on demand or forges packets", []string{"socket", "socketcall", "socketpair"}},
	{"memory placement", "chooses the node of one's own memory", []string{"get_mempolicy", "mbind", "move_pages", "set_mempolicy", "set_mempolicy_home_node"}},
	{"personality", "changes how the kernel lays out one's own memory", []string{"personality"}},
	{"security modules", "asks which security modules there are, or sets one's own attributes", []string{"lsm_get_self_attr", "lsm_list_modules", "lsm_set_self_attr"}},
	{"obsolete", "no current program uses it", []string{"afs_syscall", "getpmsg", "putpmsg", "security", "sysfs", "tuxcall", "ustat", "vserver"}},
}

// GroupOf is the group of a call; false where it has none.
func GroupOf(call string) (Group, bool) {
	for _, g := range groups {
		if slices.Contains(g.call, call) {
			return g, true
		}
	}
	return Group{}, false
}
