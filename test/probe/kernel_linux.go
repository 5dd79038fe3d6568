package main

import (
	"golang.org/x/sys/unix"
)

var kernelActs = []act{
	{"mount", "[PATH]", "mount a tmpfs, on /tmp unless given", func(args []string) error {
		return unix.Mount("none", argument(args, 0, "/tmp"), "tmpfs", 0, "")
	}},
	{"remount", "[PATH]", "make a read-only mount writable", func(args []string) error {
		return unix.Mount("", argument(args, 0, "/"), "", unix.MS_REMOUNT|unix.MS_BIND, "")
	}},
	{"umount", "[PATH]", "take a mount away, /proc unless given", func(args []string) error {
		return unix.Unmount(argument(args, 0, "/proc"), unix.MNT_DETACH)
	}},
	{"fsopen", "", "the new mount API", func([]string) error { return closing(unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)) }},
	{"open-tree", "", "clone the root's mount", func([]string) error {
		return closing(unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC))
	}},
	{"pivot-root", "", "change the root", func([]string) error { return unix.PivotRoot("/tmp", "/tmp") }},
	{"chroot", "", "change the root directory", func([]string) error { return unix.Chroot("/tmp") }},
	{"keyctl", "", "ask for the session keyring, making it", func([]string) error {
		_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, true)
		return err
	}},
	{"add-key", "", "leave a key behind for a later run", func([]string) error {
		_, err := unix.AddKey("user", "probe", []byte("hidden"), unix.KEY_SPEC_USER_KEYRING)
		return err
	}},
	{"queue", "", "leave a POSIX message queue behind for a later run", func([]string) error { return openQueue("probe") }},
	{"io-uring", "", "io_uring_setup(2)", func([]string) error { return ioUringSetup() }},
	{"bpf", "", "make a BPF map", func([]string) error { return bpfMapCreate() }},
	{"perf", "", "perf_event_open(2) on this process", func([]string) error {
		attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_DUMMY}
		return closing(unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC))
	}},
	{"userfaultfd", "", "userfaultfd(2)", func([]string) error { return userfaultfd() }},
	{"module", "", "load a kernel module from an empty file", func([]string) error {
		fd, err := unix.MemfdCreate("module", unix.MFD_CLOEXEC)
		if err != nil {
			return err
		}
		return unix.FinitModule(fd, "", 0)
	}},
	{"syslog", "", "read the kernel's log", func([]string) error {
		_, err := unix.Klogctl(unix.SYSLOG_ACTION_READ_ALL, make([]byte, 64))
		return err
	}},
	{"hostname", "", "rename the machine", func([]string) error { return unix.Sethostname([]byte("probe")) }},
	{"clock", "", "set the clock to what it shows", func([]string) error {
		var now unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_REALTIME, &now); err != nil {
			return err
		}
		return unix.ClockSettime(unix.CLOCK_REALTIME, &now)
	}},
	{"personality", "", "turn address space randomisation off", func([]string) error { return personality(0x0040000 /* ADDR_NO_RANDOMIZE */) }},
	{"tiocsti", "", "push a key into the terminal (CVE-2017-5226)", func([]string) error {
		return unix.IoctlSetPointerInt(0, unix.TIOCSTI, 'x')
	}},
	{"tiocsti-high", "", "the same with the ignored high half of the request set", func([]string) error { return ioctlHigh(unix.TIOCSTI) }},
	{"seccomp-none", "", "a call number that no kernel has", func([]string) error { return unknownCall() }},
	{"sysctl", "", "write core_pattern", func([]string) error {
		return closing(unix.Open("/proc/sys/kernel/core_pattern", unix.O_WRONLY|unix.O_CLOEXEC, 0))
	}},
}
