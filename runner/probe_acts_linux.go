package runner

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer/landlock"
)

// The fixtures of the root that permissions allow everything on.
const (
	probeFile    = landlock.ProbeDir + "/file"
	probeDir     = landlock.ProbeDir + "/dir"
	probeSubfile = landlock.ProbeDir + "/dir/file"
	probeNew     = landlock.ProbeDir + "/new"
)

// The devices that are tried to be made. Without Landlock they take CAP_MKNOD and are answered with EPERM. Number 0, which takes no capability, would
// tell nothing: it is no device but a whiteout, and where Landlock knows that (Linux 6.1 with its updates does) it takes the right to make a regular file.
const (
	nullDevice = 1<<8 | 3
	loopDevice = 7 << 8
)

// probeActs are the acts that aren't single system calls, by their names in [enforcer.Acts]. What one of them makes it takes away again.
var probeActs = map[string]func() error{
	"root.create":                       func() error { return creates("/new") },
	"root.create in /usr":               func() error { return creates("/usr/new") },
	"root.create in /dev":               func() error { return creates("/dev/new") },
	"root.map executable from /dev/shm": mapExecutable,
	"proc.write core_pattern":           func() error { return opened("/proc/sys/kernel/core_pattern", unix.O_WRONLY) },
	"proc.launcher's memory":            func() error { return opened("/proc/1/mem", unix.O_RDWR) },
	"proc.launcher's environ":           func() error { return opened("/proc/1/environ", unix.O_RDONLY) },
	"proc.worker's memory":              func() error { return opened(ofWorker("mem"), unix.O_RDWR) },
	"proc.worker's environ":             func() error { return opened(ofWorker("environ"), unix.O_RDONLY) },
	"proc.worker's root":                func() error { return opened(ofWorker("root/etc"), unix.O_RDONLY) },
	"proc.launcher's root":              func() error { return opened("/proc/1/root/etc", unix.O_RDONLY) },
	"launcher.write own binary":         func() error { return opened("/proc/self/exe", unix.O_WRONLY) },
	"identity.become 0":                 func() error { return called(unix.SYS_SETRESUID, 0, 0, 0) },
	"identity.groups":                   func() error { return called(unix.SYS_SETGROUPS, 0, 0, 0) },
	"identity.signal the launcher":      func() error { return unix.Kill(1, 0) },
	"capabilities.raise":                raiseCapabilities,
	"no_new_privs.clear":                func() error { return called(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 0, 0) },
	"rlimit.nofile raise":               raiseLimit,
	"landlock.write_file":               func() error { return opened(probeFile, unix.O_WRONLY) },
	"landlock.write_device":             func() error { return opened(landlock.ProbeDevice, unix.O_WRONLY) },
	"landlock.write_fifo":               func() error { return opened(landlock.ProbeFIFO, unix.O_WRONLY) },
	"landlock.truncate":                 func() error { return unix.Truncate(probeFile, 0) },
	"landlock.ioctl_dev":                deviceIoctl,
	"landlock.remove_file":              func() error { return unix.Unlink(probeFile) },
	"landlock.remove_dir":               func() error { return unix.Rmdir(probeDir) }, // without Landlock ENOTEMPTY
	"landlock.make_reg":                 func() error { return creates(probeNew) },
	"landlock.make_dir":                 func() error { return made(unix.Mkdir(probeNew, 0o700), unix.Rmdir) },
	"landlock.make_sym":                 func() error { return made(unix.Symlink("x", probeNew), unix.Unlink) },
	"landlock.make_fifo":                func() error { return made(unix.Mkfifo(probeNew, 0o600), unix.Unlink) },
	"landlock.make_sock":                func() error { return made(unix.Mknod(probeNew, unix.S_IFSOCK|0o600, 0), unix.Unlink) },
	"landlock.make_char":                func() error { return made(unix.Mknod(probeNew, unix.S_IFCHR|0o600, nullDevice), unix.Unlink) },
	"landlock.make_char in /tmp":        func() error { return device(unix.S_IFCHR, nullDevice) },
	"landlock.make_block in /tmp":       func() error { return device(unix.S_IFBLK, loopDevice) },
	"landlock.refer":                    func() error { return made(unix.Link(probeSubfile, probeNew), unix.Unlink) },
	"landlock.create in /tmp":           func() error { return touches("/tmp") },
	"landlock.create in /work":          func() error { return touches("/work") },
	"landlock.create in /dev/shm":       func() error { return touches("/dev/shm") },
	"landlock.nameless file in /work":   func() error { return opened("/work", unix.O_TMPFILE|unix.O_RDWR) },
	"landlock.net.bind":                 func() error { return onSocket(unix.AF_INET, unix.Bind, &unix.SockaddrInet4{Addr: loopback4}) },
	"landlock.net.bind6":                func() error { return onSocket(unix.AF_INET6, unix.Bind, &unix.SockaddrInet6{Addr: loopback6}) },
	"landlock.net.connect": func() error {
		return onSocket(unix.AF_INET, unix.Connect, &unix.SockaddrInet4{Port: 1, Addr: loopback4})
	},
	"landlock.net.connect6": func() error {
		return onSocket(unix.AF_INET6, unix.Connect, &unix.SockaddrInet6{Port: 1, Addr: loopback6})
	},
	"landlock.scope.abstract": func() error {
		return onSocket(unix.AF_UNIX, unix.Connect, &unix.SockaddrUnix{Name: "@" + landlock.ProbeSocket})
	},
	"landlock.scope.signal": func() error { return unix.Kill(unix.Getppid(), 0) },
}

var (
	loopback4 = [4]byte{127, 0, 0, 1}
	loopback6 = [16]byte{15: 1}
)

// made takes away what an act made.
func made(err error, remove func(string) error) error {
	if err == nil {
		_ = remove(probeNew) // that it could be made is what is told
	}
	return err
}

func creates(path string) error {
	err := opened(path, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
	if err == nil {
		_ = unix.Unlink(path) // that it could be made is what is told
	}
	return err
}

// touches makes a file in a directory that others may have files in, or opens the one of that name for writing.
func touches(dir string) error {
	path := dir + "/" + Name + "-probe"
	err := opened(path, unix.O_WRONLY|unix.O_CREAT)
	if err == nil {
		_ = unix.Unlink(path) // that it could be made is what is told
	}
	return err
}

// device makes a device file where everything but those may be made.
func device(kind uint32, number int) error {
	path := "/tmp/" + Name + "-probe"
	err := unix.Mknod(path, kind|0o600, number)
	if err == nil {
		_ = unix.Unlink(path) // that it could be made is what is told
	}
	return err
}

// deviceIoctl asks the null device something that it doesn't know: ENOTTY, where the question reaches it.
func deviceIoctl() error {
	fd, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.IoctlGetTermios(fd, unix.TCGETS)
	return err
}

// mapExecutable maps a file of a file system from which nothing may be executed.
func mapExecutable() error {
	file, err := os.CreateTemp("/dev/shm", "probe")
	if err != nil {
		return err
	}
	defer file.Close()
	if err := os.Remove(file.Name()); err != nil {
		return err
	}
	if err := file.Truncate(1); err != nil {
		return err
	}
	_, err = unix.Mmap(int(file.Fd()), 0, 1, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
	return err
}

func onSocket(family int, do func(int, unix.Sockaddr) error, address unix.Sockaddr) error {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return do(fd, address)
}

func raiseCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	sets[0].Permitted = 1 << unix.CAP_NET_RAW
	return unix.Capset(&header, &sets[0])
}

func raiseLimit() error {
	var limit unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &limit); err != nil {
		return err
	}
	limit.Max++
	return unix.Prlimit(0, unix.RLIMIT_NOFILE, &limit, nil)
}

// called is a system call of this thread alone, where Go's own would change all threads.
func called(nr, a, b, c uintptr) error {
	if _, _, errno := unix.RawSyscall(nr, a, b, c); errno != 0 {
		return errno
	}
	return nil
}

// ofWorker is a file in /proc of the worker, who is the parent and has the same uid where nobody can change it.
func ofWorker(name string) string { return "/proc/" + strconv.Itoa(unix.Getppid()) + "/" + name }
