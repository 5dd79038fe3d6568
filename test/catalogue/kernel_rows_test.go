package catalogue

import (
	"fmt"
	"strings"
)

// kernelRows are what a program asks of the kernel that it must not get: A8 to A16, A22 to A24.
var kernelRows = []row{
	{id: "A8", what: "keys pushed into a terminal (CVE-2017-5226)", try: `
		tiocsti                          → EPERM
		syscall ioctl 0 0x5412 0         → EPERM
		syscall ioctl 1 0x5412 0         → EPERM
		syscall ioctl 99 0x5412 0        → EPERM
		syscall ioctl 0 0x5423 0         → EPERM
		syscall ioctl 0 0x100005423 0    → EPERM`, readBack: "session seccomp.mode seccomp.filter"},
	{id: "A9", what: "paste through a console", try: `
		syscall ioctl 0 0x541c 0         → EPERM
		syscall ioctl 2 0x541c 0         → EPERM`, readBack: "seccomp.filter"},
	{id: "A10", what: "an ioctl with the half set that the kernel ignores", try: `
		tiocsti-high                     → EPERM
		syscall ioctl 0 0x100005412 0           → EPERM
		syscall ioctl 0 0xffffffff00005412 0    → EPERM
		syscall ioctl 0 0x8000000000005412 0    → EPERM
		syscall ioctl 0 0x10000541c 0           → EPERM
		syscall ioctl 0xffffffff00000000 0x5412 0 → EPERM`, readBack: "seccomp.filter"},
	{id: "A11", what: "io_uring, which opens files and sockets past a filter", try: `
		io-uring                         → ENOSYS
		syscall io_uring_setup 1 0       → ENOSYS
		syscall io_uring_enter 0 0 0 0   → ENOSYS
		syscall io_uring_register 0 0 0  → ENOSYS`, readBack: "seccomp.filter"},
	{id: "A12", what: "calls by their x32 numbers", needs: []feature{amd64}, try: `
		x32                              → SIGSYS or ENOSYS
		x32 1                            → SIGSYS or ENOSYS
		x32 41 40 1 0                    → SIGSYS or ENOSYS
		x32 512                          → SIGSYS or ENOSYS
		x32 520                          → SIGSYS or ENOSYS
		x32 0x3fffffff                   → SIGSYS or ENOSYS
		syscall 0x80000027               → SIGSYS or ENOSYS
		syscall 0x100000027              → SIGSYS or ENOSYS or done`, readBack: "seccomp.filter"},
	{id: "A13", what: "the 32-bit entry", needs: []feature{amd64}, try: `
		i386                             → SIGSYS or ENOSYS
		i386 102 1 0                     → SIGSYS or ENOSYS
		i386 359 40 1 0                  → SIGSYS or ENOSYS
		i386 360 40 1 0                  → SIGSYS or ENOSYS
		i386 11 0 0 0                    → SIGSYS or ENOSYS
		i386 120 0x10000000 0            → SIGSYS or ENOSYS
		i386 425 1 0                     → SIGSYS or ENOSYS`, readBack: "seccomp.filter"},
	{id: "A14", what: "namespaces by clone3, whose flags no filter can see", try: `
		clone3                           → ENOSYS
		syscall 435 0 0                  → ENOSYS
		syscall 435 0 88                 → ENOSYS`, readBack: "seccomp.filter"},
	{id: "A14", what: "namespaces by clone, each kind and together", try: `
		clone-user                       → EPERM
		syscall clone 0x10000011 0 0 0 0 → EPERM
		syscall clone 0x00020011 0 0 0 0 → EPERM
		syscall clone 0x02000011 0 0 0 0 → EPERM
		syscall clone 0x04000011 0 0 0 0 → EPERM
		syscall clone 0x08000011 0 0 0 0 → EPERM
		syscall clone 0x20000011 0 0 0 0 → EPERM
		syscall clone 0x40000011 0 0 0 0 → EPERM
		syscall clone 0x7e020011 0 0 0 0 → EPERM
		syscall clone 0x100010000011 0 0 0 0 → EPERM`, readBack: "seccomp.filter namespaces.user namespaces.mnt namespaces.net namespaces.pid"},
	{id: "A15", what: "calls that no kernel knows yet", try: `
		seccomp-none                     → ENOSYS
		syscall 350                      → ENOSYS
		syscall 399                      → ENOSYS
		syscall 400                      → ENOSYS
		syscall 4000                     → ENOSYS
		syscall 1000000                  → ENOSYS
		syscall 0x3fffffff               → ENOSYS`, readBack: "seccomp.filter"},
	{id: "A16", what: "namespaces by unshare, each kind", try: `
		unshare                          → EPERM
		syscall unshare 0x10000000       → EPERM
		syscall unshare 0x00020000       → EPERM
		syscall unshare 0x02000000       → EPERM
		syscall unshare 0x04000000       → EPERM
		syscall unshare 0x08000000       → EPERM
		syscall unshare 0x20000000       → EPERM
		syscall unshare 0x40000000       → EPERM
		syscall unshare 0x00000080       → EPERM
		syscall unshare 0x00000400       → EPERM
		syscall unshare 0                → EPERM`, readBack: "seccomp.filter namespaces.user"},
	{id: "A22", what: "a secret left in the kernel between runs", try: `
		keyctl                           → ENOSYS
		add-key                          → ENOSYS
		syscall request_key 0 0 0 0      → ENOSYS
		syscall keyctl 11 0 0 0          → ENOSYS
		syscall keyctl 1 0               → ENOSYS`, readBack: "seccomp.filter"},
	{id: "A22", what: "a POSIX queue, which outlives who makes it", try: `
		queue                            → EMFILE`, readBack: "rlimit.msgqueue"},
	{id: "A23", what: "sockets to the hypervisor, the wire and the kernel's own", try: `
		socket vsock                     → EAFNOSUPPORT
		socket 40 2 0                    → EAFNOSUPPORT
		socket 40 5 0                    → EAFNOSUPPORT
		syscall socket 0x100000028 1 0   → EAFNOSUPPORT
		socket packet                    → EAFNOSUPPORT
		socket alg                       → EAFNOSUPPORT
		socket bluetooth                 → EAFNOSUPPORT
		socket can                       → EAFNOSUPPORT
		socket tipc                      → EAFNOSUPPORT
		socket xdp                       → EAFNOSUPPORT
		socket netfilter                 → EAFNOSUPPORT
		socket audit                     → EAFNOSUPPORT
		socket kobject                   → EAFNOSUPPORT
		socket raw                       → EPERM (pod: EPERM or EAFNOSUPPORT)
		socket 10 3 58                   → EPERM (pod: EPERM or EAFNOSUPPORT)
		socket 2 3 255                   → EPERM (pod: EPERM or EAFNOSUPPORT)
		socket 2 10 0                    → EPERM (pod: EPERM or EAFNOSUPPORT)
		socket 2 5 132                   → EPERM (pod: EPERM or EAFNOSUPPORT)
		socket 2 6 33                    → EPERM (pod: EPERM or EAFNOSUPPORT)
		socket mptcp                     → EPROTONOSUPPORT (pod: EPROTONOSUPPORT or EAFNOSUPPORT)
		socket 2 1 132                   → EPROTONOSUPPORT (pod: EPROTONOSUPPORT or EAFNOSUPPORT)
		socket 10 2 115                  → EPROTONOSUPPORT (pod: EPROTONOSUPPORT or EAFNOSUPPORT)
		socketpair 40 1 0                → EAFNOSUPPORT
		socketpair 30 5 0                → EAFNOSUPPORT
		socketpair 2 1 0                 → EAFNOSUPPORT
		socketpair unix                  → done
		socket unix                      → done
		socket inet                      → done (pod: EAFNOSUPPORT)
		socket inet6                     → done (pod: EAFNOSUPPORT)`, readBack: "seccomp.filter namespaces.net"},
	{id: "A23", what: "every family but unix, inet, inet6 and netlink's routes", try: otherFamilies(), readBack: "seccomp.filter"},
	{id: "A23", what: "every netlink protocol but routes", try: otherNetlink(), readBack: "seccomp.filter"},
	{id: "A24", what: "mounts, by the old calls and the new", try: `
		mount                            → EPERM
		mount /work                      → EPERM
		remount                          → EPERM
		remount /proc                    → EPERM
		umount                           → EPERM
		umount /tmp                      → EPERM
		fsopen                           → EPERM
		open-tree                        → EPERM
		pivot-root                       → EPERM
		chroot                           → EPERM
		syscall fsconfig 0 0 0 0 0       → EPERM
		syscall fsmount 0 0 0            → EPERM
		syscall fspick 0 0 0             → EPERM
		syscall move_mount 0 0 0 0 0     → EPERM
		syscall mount_setattr 0 0 0 0 0  → EPERM
		syscall open_tree 0 0 1          → EPERM`, readBack: "seccomp.filter namespaces.mnt root"},
	{id: "A24", what: "modules, another kernel, and the machine's end", try: `
		module                           → EPERM
		syscall init_module 0 0 0        → EPERM
		syscall finit_module 0 0 0       → EPERM
		syscall delete_module 0 0        → EPERM
		syscall kexec_load 0 0 0 0       → EPERM
		syscall kexec_file_load 0 0 0 0 0 → EPERM
		syscall reboot 0 0 0 0           → EPERM
		syscall swapon 0 0               → EPERM
		syscall swapoff 0                → EPERM
		syscall acct 0                   → EPERM
		syscall quotactl 0 0 0 0         → EPERM
		syscall quotactl_fd 0 0 0 0      → EPERM
		syscall nfsservctl 0 0 0         → EPERM or ENOSYS`, readBack: "seccomp.filter capabilities.effective"},
	{id: "A24", what: "what watches or drives other programs", try: `
		bpf                              → EPERM
		perf                             → EPERM
		userfaultfd                      → EPERM
		syscall fanotify_init 0 0        → EPERM
		syscall kcmp 1 1 0 0 0           → EPERM
		syscall process_madvise 0 0 0 0 0 → EPERM
		syscall migrate_pages 1 0 0 0    → EPERM
		syscall move_pages 1 0 0 0 0 0   → EPERM
		syslog                           → EPERM`, readBack: "seccomp.filter"},
	{id: "A24", what: "other namespaces and roots, by descriptor or by handle", try: `
		setns 1                          → ENOENT or EACCES
		syscall setns 0 0                → EPERM
		syscall setns 0 0x7e020000       → EPERM
		open-by-handle                   → EPERM
		syscall name_to_handle_at 0 0 0 0 0 → EPERM
		syscall pidfd_getfd 0 0 0        → EPERM`, readBack: "seccomp.filter"},
	{id: "A24", what: "the machine's clock and names", try: `
		clock                            → EPERM
		hostname                         → EPERM
		syscall settimeofday 0 0         → EPERM
		syscall setdomainname 0 0        → EPERM
		syscall vhangup                  → EPERM`, readBack: "seccomp.filter namespaces.uts"},
	{id: "A24", what: "ports and tables of the processor, and calls of old", needs: []feature{amd64}, try: `
		syscall iopl 3                   → EPERM
		syscall ioperm 0 1 1             → EPERM
		syscall uselib 0                 → EPERM or ENOSYS
		syscall _sysctl 0                → EPERM or ENOSYS
		syscall create_module 0 0        → EPERM or ENOSYS
		syscall query_module 0 0 0 0 0   → EPERM or ENOSYS
		syscall get_kernel_syms 0        → EPERM or ENOSYS
		syscall lookup_dcookie 0 0 0     → EPERM or ENOSYS`, readBack: "seccomp.filter"},
	{id: "A24", what: "a layout of memory that an attacker knows", try: `
		personality                      → EPERM`, readBack: "seccomp.filter"},
}

// otherFamilies asks for a socket of every family that a kernel might have, but the four.
func otherFamilies() string {
	var lines strings.Builder
	for family := range 64 {
		switch family {
		case 1, 2, 10, 16:
			continue
		}
		for _, kind := range []int{1, 2, 3, 5} {
			fmt.Fprintf(&lines, "socket %d %d 0 → EAFNOSUPPORT\n", family, kind)
		}
	}
	return lines.String()
}

func otherNetlink() string {
	var lines strings.Builder
	for protocol := 1; protocol < 32; protocol++ {
		fmt.Fprintf(&lines, "socket 16 3 %d → EAFNOSUPPORT\n", protocol)
	}
	return lines.String()
}
