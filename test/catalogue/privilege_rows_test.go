package catalogue

import (
	"regexp"
	"strings"
	"testing"
)

// ownGroup is a line of /proc/PID/cgroup that says nothing of the host: the root of the reader's namespace, or an exec's group beside or below it.
var ownGroup = regexp.MustCompile(`^[0-9]+:[^:]*:/((\.\./)?exec-[0-9]+)?\n$`)

// privilegeRows are attempts on other programs, the launcher, the daemon and the machine's own files: A1, A2, A17 to A21, A26 to A30.
var privilegeRows = []row{
	{id: "A1", what: "the launcher's binary overwritten (CVE-2019-5736)", beside: true, try: `
		write /proc/1/exe                → ENOENT or EACCES
		truncate /proc/1/exe             → ENOENT or EACCES
		open /proc/1/exe                 → ENOENT or EACCES
		execute /proc/1/exe              → ENOENT or EACCES
		write /proc/SIBLING/exe          → ENOENT or EACCES
		truncate /proc/SIBLING/exe       → ENOENT or EACCES
		rewrite-self                     → EROFS or EACCES or ETXTBSY
		write /proc/self/exe             → EROFS or EACCES or ETXTBSY
		truncate /proc/self/exe          → EROFS or EACCES or ETXTBSY
		write PROBE                      → EROFS or EACCES or ETXTBSY
		unlink PROBE                     → EROFS or EACCES`, readBack: "dumpable landlock.fs exe"},
	{id: "A2", what: "a directory left open (CVE-2024-21626)", run: []string{"PROBE", "fds"}, with: `"env":{"GODEBUG":"containermaxprocs=0,updatemaxprocs=0"}`, stderr: "!\n3 ", readBack: "fd.0 fd.1 fd.2 cwd gate.steps"},
	{id: "A2", what: "a working directory through a descriptor", run: []string{"PROBE", "exit", "0"}, with: `"cwd":"/proc/self/fd/7/../.."`,
		outcome: "denied command.cwd"},
	{id: "A2", what: "a working directory through the launcher's root", run: []string{"PROBE", "exit", "0"}, with: `"cwd":"/proc/1/root"`,
		outcome: "denied command.cwd"},
	{id: "A2", what: "a working directory that is a descriptor's directory", run: []string{"PROBE", "exit", "0"}, with: `"cwd":"/dev/fd/3"`,
		outcome: "denied command.cwd"},
	{id: "A2", what: "a working directory by way of dots", run: []string{"PROBE", "exit", "0"}, with: `"cwd":"/work/../proc/self/cwd"`,
		outcome: "denied command.cwd"},
	{id: "A17", what: "another exec of the same sandbox traced", beside: true, try: `
		ptrace SIBLING                   → EPERM
		ptrace 1                         → EPERM
		ptrace-self                      → EPERM
		syscall ptrace 16 SIBLING 0 0    → EPERM
		syscall ptrace 0x4206 SIBLING 0 0 → EPERM
		syscall ptrace 0 0 0 0           → EPERM`, readBack: "seccomp.filter process.tracer dumpable"},
	{id: "A18", what: "another's memory by /proc", beside: true, try: `
		process-memory SIBLING           → ENOENT or EACCES or EPERM
		process-memory 1                 → ENOENT or EACCES or EPERM
		read /proc/SIBLING/mem           → ENOENT or EACCES or EPERM
		read /proc/1/mem                 → ENOENT or EACCES or EPERM
		read /proc/1/pagemap             → ENOENT or EACCES or EPERM
		write /proc/SIBLING/clear_refs   → ENOENT or EACCES or EPERM`, readBack: "dumpable"},
	{id: "A19", what: "another's memory by calls", beside: true, try: `
		process-read SIBLING             → EPERM
		process-read 1                   → EPERM
		syscall process_vm_writev SIBLING 0 0 0 0 0 → EPERM
		syscall process_vm_readv SIBLING 0 0 0 0 0 → EPERM
		pidfd-getfd SIBLING              → EPERM
		pidfd-getfd 1                    → EPERM
		rlimit-of SIBLING                → EPERM
		rlimit-of 1                      → EPERM`, readBack: "seccomp.filter"},
	{id: "A19", what: "the priority of everybody of one's uid, others in the sandbox among them", beside: true, try: `
		syscall setpriority 2 0 5        → EPERM
		syscall setpriority 0x100000002 0 5 → EPERM
		syscall ioprio_set 3 0 0x4004    → EPERM
		syscall setpriority 0 0 5        → done
		syscall setpriority 1 0 5        → done
		syscall ioprio_set 1 0 0x4004    → done`, readBack: "seccomp.filter"},
	{id: "A19", what: "one's own processor and priority, which go on working", run: []string{"sh", "-c", "renice -n 3 -p $$ && nice -n 2 true && taskset -p 1 $$ && taskset 1 true"}, needs: []feature{utilLinux}, pod: "image: util-linux"},
	{id: "A21", what: "the launcher's environment and memory map", beside: true, try: `
		read /proc/1/environ             → ENOENT or EACCES
		read /proc/1/maps                → ENOENT or EACCES
		read /proc/1/smaps               → ENOENT or EACCES
		read /proc/1/auxv                → ENOENT or EACCES
		read /proc/1/stack               → ENOENT or EACCES or EPERM
		read /proc/1/syscall             → ENOENT or EACCES or EPERM
		list /proc/1/fd                  → ENOENT or EACCES
		list /proc/1/root                → ENOENT or EACCES
		list /proc/1/cwd                 → ENOENT or EACCES
		list /proc/1/map_files           → ENOENT or EACCES
		open /proc/1/ns/mnt              → ENOENT or EACCES`, readBack: "namespaces.pid dumpable"},
	{id: "A21", what: "the daemon and others outside, who have no number in here", beside: true, try: `
		read /proc/DAEMON/environ        → ENOENT (pod: EACCES)
		read /proc/DAEMON/cmdline        → ENOENT (pod: done)
		read /proc/HOST/cmdline          → ENOENT
		kill HOST                        → ESRCH
		ptrace HOST                      → EPERM
		setns HOST                       → ENOENT`, readBack: "namespaces.pid"},
	{id: "A21", what: "the paths of the host's cgroups", run: []string{"cat", "/proc/self/cgroup"}, readBack: "namespaces.cgroup", pod: "not offered: a cgroup namespace, which is the container runtime's to make", also: func(t *testing.T, a *answer) {
		for line := range strings.Lines(string(a.stdout)) {
			if !ownGroup.MatchString(line) {
				t.Errorf("it sees %q", line)
			}
		}
		if len(a.stdout) == 0 {
			t.Error("nothing was read")
		}
	}},
	{id: "A21", what: "the daemon's environment is nobody else's", run: []string{"PROBE", "env"}, stderr: "!CANARY"},
	{id: "A26", what: "capabilities asked for", body: `"securityContext":{"capabilities":{"add":["SYS_ADMIN"]}}`, run: []string{"PROBE", "status"},
		outcome: "denied securityContext.capabilities.add"},
	{id: "A26", what: "a privileged context", body: `"securityContext":{"privileged":true}`, run: []string{"PROBE", "status"},
		outcome: "denied securityContext.privileged"},
	{id: "A26", what: "privilege escalation allowed", body: `"securityContext":{"allowPrivilegeEscalation":true}`, run: []string{"PROBE", "status"},
		outcome: "denied securityContext.allowPrivilegeEscalation"},
	{id: "A26", what: "uid 0 asked for", body: `"securityContext":{"runAsUser":0}`, run: []string{"PROBE", "status"},
		outcome: "denied securityContext.runAsUser"},
	{id: "A26", what: "an unmasked /proc", body: `"securityContext":{"procMount":"Unmasked"}`, run: []string{"PROBE", "status"},
		outcome: "denied securityContext.procMount"},
	{id: "A26", what: "no filter", body: `"securityContext":{"seccompProfile":{"type":"Unconfined"}}`, run: []string{"PROBE", "status"},
		outcome: "denied securityContext.seccompProfile.type"},
	{id: "A26", what: "a mode spelled wrong", body: `"securityContext":{"seccompProfile":{"type":"RuntimeDefualt"}}`, run: []string{"PROBE", "status"},
		outcome: "refused securityContext.seccompProfile.type"},
	{id: "A26", what: "five sets of nothing, as the program sees them", run: []string{"PROBE", "status"},
		stderr:   "CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\nCapBnd:\t0000000000000000\nCapAmb:\t0000000000000000\n",
		readBack: "capabilities.inheritable capabilities.permitted capabilities.effective capabilities.bounding capabilities.ambient"},
	{id: "A26", what: "privilege asked of the kernel", try: `
		setuid                           → EPERM (user: EINVAL)
		setgroups                        → EPERM
		capset                           → EPERM
		threads-setuid                   → EPERM (user: EINVAL)
		syscall setuid 0                 → EPERM (user: EINVAL)
		syscall setresuid 0 0 0          → EPERM (user: EINVAL)
		syscall setresgid 0 0 0          → EPERM (user: EINVAL)
		syscall setgroups 0 0            → EPERM
		syscall prctl 47 2 21 0 0        → EPERM
		syscall prctl 28 0 0 0 0         → EPERM
		priority                         → EACCES or EPERM
		rlimit                           → EPERM`, readBack: "identity.uid identity.gid identity.groups no_new_privs"},
	{id: "A28", what: "the kernel's own settings", try: `
		sysctl                           → EROFS or EACCES
		write /proc/sys/kernel/core_pattern → EROFS or EACCES
		write /proc/sys/kernel/modprobe  → ENOENT or EROFS or EACCES
		write /proc/sys/vm/overcommit_memory → EROFS or EACCES
		write /proc/sys/net/ipv4/ip_forward → EROFS or EACCES
		write /proc/sysrq-trigger        → ENOENT or EROFS or EACCES
		write /proc/irq/default_smp_affinity → EROFS or EACCES or ENOENT
		write /proc/self/loginuid        → EPERM or EACCES or ENOENT
		write /proc/self/uid_map         → EACCES or EPERM
		write /proc/self/setgroups       → EACCES or EPERM
		write /sys/kernel/uevent_helper  → ENOENT or EACCES or EROFS
		read /proc/kcore                 → ENODATA or EACCES or EPERM or ENOENT
		read /proc/keys                  → ENODATA or ENOENT
		read /proc/timer_list            → ENODATA or ENOENT or EACCES
		read /proc/interrupts            → ENODATA or ENOENT (pod: ENODATA or ENOENT or done)
		list /proc/acpi                  → ENOENT or done
		mkdir /proc/x                    → ENOENT or EACCES or EROFS`, readBack: "landlock.fs root"},
	{id: "A29", what: "a core dump", run: []string{"sh", "-c", "cd /work; kill -SEGV $$"}, outcome: "signaled 11", readBack: "rlimit.core dumpable"},
	{id: "A29", what: "no core is left for the next exec", beside: true, run: []string{"sh", "-c", "cd /work; (kill -QUIT $(exec sh -c 'echo $PPID')); ls -A /work /tmp /dev/shm"},
		stdout: "!core", readBack: "rlimit.core"},
	{id: "A30", what: "programs from memory and from what one may write: allowed, and the plan on record says by which filter", try: `
		memfd                            → done
		copy-execute /dev/shm            → EACCES or done
		copy-execute /tmp                → EACCES or done
		copy-execute /work               → EACCES or done`, readBack: "seccomp.filter landlock.fs"},
	{id: "A3", what: "the null device is the null device (CVE-2025-31133)", run: []string{"PROBE", "each", "device", "/dev/null", "--", "device", "/dev/zero", "--", "device", "/dev/full"},
		stderr: "/dev/null 1:3\n/dev/zero 1:5\n/dev/full 1:7\n"},
	{id: "A4", what: "no console and no terminal to be redirected (CVE-2025-52565)", try: `
		open /dev/console                → ENOENT or EACCES
		open /dev/ptmx                   → ENOENT or EACCES (pod: done)
		open /dev/tty                    → ENOENT or EACCES (pod: ENXIO or EACCES)
		open /dev/pts/0                  → ENOENT or EACCES
		open /dev/tty0                   → ENOENT or EACCES`, readBack: "session fd.0 fd.1 fd.2"},
	{id: "A5", what: "writes under /proc, and /proc is procfs (CVE-2025-52881)", try: `
		write /proc/self/attr/current    → EACCES or EINVAL or ENOENT or done
		symlink /proc/self/x             → ENOENT or EACCES or EPERM
		mkdir /proc/self/x               → ENOENT or EACCES or EPERM
		mount /proc                      → EPERM`, readBack: "landlock.fs"},
	{id: "A6", what: "/dev is a directory of ours, and closed (CVE-2026-41579)", try: `
		mknod /dev/sda                   → EACCES or EPERM or EROFS
		mknod /tmp/sda                   → EACCES or EPERM
		mknod /work/sda                  → EACCES or EPERM
		write /dev/new                   → EACCES or EROFS
		symlink /dev/new                 → EACCES or EROFS
		unlink /dev/null                 → EACCES or EROFS or EPERM or EBUSY`, readBack: "landlock.fs root"},
	{id: "A7", what: "files outside of what one may write", try: `
		write /new                       → EACCES or EROFS
		write /usr/bin/env               → EACCES or EROFS
		write /etc/passwd                → EACCES or EROFS
		mkdir /usr/x                     → EACCES or EROFS
		symlink /usr/x                   → EACCES or EROFS
		write SHOW/writable              → EACCES or EROFS
		truncate SHOW/writable           → EACCES or EROFS
		chmod SHOW/writable              → EACCES or EROFS or EPERM
		unlink SHOW/writable             → EACCES or EROFS
		link SHOW/writable               → EACCES or EXDEV or EROFS
		mkdir /tmp/../usr/x              → EACCES or EROFS
		open SHOW/secret                 → EACCES (user: done)
		open SHOW/link-out               → ENOENT or EACCES
		open SHOW/link-through-proc      → EACCES or ENOENT`, readBack: "landlock.fs root"},
}
