package main

import (
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The calls here have no wrapper. Those that run in a forked child keep to raw system calls: the child has one thread and no Go runtime.

func ptraceSeize(pid int) error {
	return call(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid), 0)
}

func ptraceMe() error { return call(unix.SYS_PTRACE, unix.PTRACE_TRACEME, 0, 0) }

func personality(flags uintptr) error { return call(unix.SYS_PERSONALITY, flags, 0, 0) }

func userfaultfd() error {
	return call(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|1 /* UFFD_USER_MODE_ONLY */, 0, 0)
}

func unknownCall() error { return call(4000, 0, 0, 0) }

func ioctlHigh(request uintptr) error {
	key := int32('x')
	return call(unix.SYS_IOCTL, 0, 1<<32|request, uintptr(unsafe.Pointer(&key)))
}

func ioUringSetup() error {
	var params [30]uint32 // struct io_uring_params, 120 bytes
	return call(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)), 0)
}

// openQueue is mq_open(3) with the defaults of the kernel, whose names come without the slash.
func openQueue(name string) error {
	text := append([]byte(name), 0)
	fd, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(&text[0])), unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o600, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return unix.Close(int(fd))
}

func bpfMapCreate() error {
	attr := [4]uint32{2 /* BPF_MAP_TYPE_ARRAY */, 4, 4, 1}
	return call(unix.SYS_BPF, 0 /* BPF_MAP_CREATE */, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
}

// executeDescriptor is fexecve(3).
func executeDescriptor(fd int, argv []string) error {
	words, err := syscall.SlicePtrFromStrings(argv)
	if err != nil {
		return err
	}
	env, err := syscall.SlicePtrFromStrings(os.Environ())
	if err != nil {
		return err
	}
	empty := []byte{0}
	_, _, errno := syscall.RawSyscall6(unix.SYS_EXECVEAT, uintptr(fd), uintptr(unsafe.Pointer(&empty[0])),
		uintptr(unsafe.Pointer(&words[0])), uintptr(unsafe.Pointer(&env[0])), unix.AT_EMPTY_PATH, 0)
	return errno
}

func call(number, a, b, c uintptr) error {
	_, _, errno := unix.Syscall(number, a, b, c)
	return orNil(errno)
}

func orNil(errno syscall.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}

// unshareUser tries in a forked child: unshare(CLONE_NEWUSER) refuses a process with threads (EINVAL) whatever else may refuse it.
func unshareUser() error {
	return inChild(unshareCall)
}

//go:norace
//go:nosplit
func unshareCall() uintptr {
	_, _, errno := syscall.RawSyscall(unix.SYS_UNSHARE, unix.CLONE_NEWUSER, 0, 0)
	return uintptr(errno)
}

// cloneWith forks with namespace flags; the child ends at once.
func cloneWith(flags uintptr) error {
	pid, errno := fork(flags)
	if errno != 0 {
		return errno
	}
	return outcome(pid)
}

func clone3User() error {
	// struct clone_args, 64 bytes (CLONE_ARGS_SIZE_VER0): flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls.
	args := [8]uint64{0: unix.CLONE_NEWUSER, 4: uint64(syscall.SIGCHLD)}
	pid, errno := fork3(&args)
	if errno != 0 {
		return errno
	}
	return outcome(pid)
}

// inChild runs try in a forked child, which ends with the errno that try returns. A child that dies by a signal is a [killed].
func inChild(try func() uintptr) error {
	pid, errno := forkRun(try)
	if errno != 0 {
		return errno
	}
	return outcome(pid)
}

func outcome(pid int) error {
	var status unix.WaitStatus
	if _, err := unix.Wait4(pid, &status, 0, nil); err != nil {
		return err
	}
	if status.Signaled() {
		return killed(status.Signal())
	}
	return orNil(syscall.Errno(status.ExitStatus()))
}

//go:norace
//go:nosplit
func fork(flags uintptr) (int, syscall.Errno) {
	pid, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, flags|uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if errno == 0 && pid == 0 {
		exit(0)
	}
	return int(pid), errno
}

//go:norace
//go:nosplit
func fork3(args *[8]uint64) (int, syscall.Errno) {
	pid, _, errno := syscall.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(args)), unsafe.Sizeof(*args), 0)
	if errno == 0 && pid == 0 {
		exit(0)
	}
	return int(pid), errno
}

//go:norace
//go:nosplit
func forkRun(run func() uintptr) (int, syscall.Errno) {
	pid, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if errno == 0 && pid == 0 {
		exit(run())
	}
	return int(pid), errno
}

var everySignal = ^uint64(0)

// blockSignals blocks all that can be blocked: a SIGTERM then stays pending for ever.
//
//go:norace
//go:nosplit
func blockSignals() {
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_BLOCK, uintptr(unsafe.Pointer(&everySignal)), 0, 8, 0, 0)
}

//go:norace
//go:nosplit
func exit(status uintptr) {
	for {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, status, 0, 0)
	}
}
