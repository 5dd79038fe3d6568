package seccomp

import (
	"bytes"
	"fmt"
	"runtime"
	"syscall"
	"unsafe"
)

// ReadbackWorks tries Readback on a throw-away child: nil if the kernel gives back the bytes that were installed. Call it at start.
func ReadbackWorks() error {
	want := Program{{Code: opLoad, K: dataNumber}, {Code: opReturn, K: uint32(Allow)}}
	pid, release, err := forkFiltered(want)
	if err != nil {
		return err
	}
	defer release()
	got, err := Readback(pid, 0)
	if err != nil {
		return err
	}
	if !bytes.Equal(got, want.Bytes()) {
		return ErrReadbackDiffers
	}
	return nil
}

// sockFprog is struct sock_fprog.
type sockFprog struct {
	length uint16
	filter unsafe.Pointer
}

// forkPlan is all that the child needs, made before the fork: it must not allocate.
type forkPlan struct {
	seccomp      uintptr // number of seccomp(2)
	program      sockFprog
	ready, hold  [2]int
	all, before  uint64 // signal sets
	noNewPrivs   uintptr
	readyMessage [1]byte
}

// forkFiltered makes a child that has the program installed and does nothing but wait; release kills and reaps it.
func forkFiltered(program Program) (pid int, release func(), err error) {
	number, ok := Number(runtime.GOARCH, "seccomp")
	if !ok {
		return 0, nil, fmt.Errorf("seccomp: no filter for architecture %q", runtime.GOARCH)
	}
	rows := program.Bytes()
	plan := &forkPlan{
		seccomp: uintptr(number), all: ^uint64(0), noNewPrivs: 38, // PR_SET_NO_NEW_PRIVS
		program: sockFprog{uint16(len(program)), unsafe.Pointer(&rows[0])},
	}
	if err := syscall.Pipe2(plan.ready[:], syscall.O_CLOEXEC); err != nil {
		return 0, nil, fmt.Errorf("seccomp: pipe2: %w", err)
	}
	defer func() { _ = syscall.Close(plan.ready[0]) }()
	if err := syscall.Pipe2(plan.hold[:], syscall.O_CLOEXEC); err != nil {
		_ = syscall.Close(plan.ready[1])
		return 0, nil, fmt.Errorf("seccomp: pipe2: %w", err)
	}
	runtime.LockOSThread() // the signal mask is the thread's
	child, errno := forkAndWait(plan)
	runtime.UnlockOSThread()
	runtime.KeepAlive(rows)
	_, _ = syscall.Close(plan.ready[1]), syscall.Close(plan.hold[0])
	release = func() {
		_ = syscall.Close(plan.hold[1])
		_ = syscall.Kill(int(child), syscall.SIGKILL)
		for {
			if _, err := syscall.Wait4(int(child), nil, wAll, nil); err != syscall.EINTR {
				return
			}
		}
	}
	if errno != 0 {
		_ = syscall.Close(plan.hold[1])
		return 0, nil, fmt.Errorf("seccomp: clone: %w", errno)
	}
	var said [1]byte
	for {
		n, err := syscall.Read(plan.ready[0], said[:])
		if err == syscall.EINTR {
			continue
		}
		if n != 1 {
			release()
			return 0, nil, fmt.Errorf("seccomp: a throw-away child could not install a filter")
		}
		return int(child), release, nil
	}
}

// forkAndWait forks with all signals blocked, so that no Go signal handler ever runs in the child, which has one thread and no scheduler:
// after the fork there are only raw system calls and no function that could grow the stack.
//
//go:nosplit
//go:norace
//go:noinline
func forkAndWait(p *forkPlan) (child uintptr, errno syscall.Errno) {
	syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, 2 /* SIG_SETMASK */, uintptr(unsafe.Pointer(&p.all)), uintptr(unsafe.Pointer(&p.before)), 8, 0, 0)
	child, _, errno = syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 || child != 0 {
		syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, 2, uintptr(unsafe.Pointer(&p.before)), 0, 8, 0, 0)
		return child, errno
	}
	// Without our end of hold the read below ends when the parent does.
	syscall.RawSyscall(syscall.SYS_CLOSE, uintptr(p.hold[1]), 0, 0)
	_, _, errno = syscall.RawSyscall6(syscall.SYS_PRCTL, p.noNewPrivs, 1, 0, 0, 0, 0)
	if errno == 0 {
		_, _, errno = syscall.RawSyscall(p.seccomp, 1 /* SECCOMP_SET_MODE_FILTER */, 0, uintptr(unsafe.Pointer(&p.program)))
	}
	if errno == 0 {
		syscall.RawSyscall(syscall.SYS_WRITE, uintptr(p.ready[1]), uintptr(unsafe.Pointer(&p.readyMessage[0])), 1)
		syscall.RawSyscall(syscall.SYS_READ, uintptr(p.hold[0]), uintptr(unsafe.Pointer(&p.readyMessage[0])), 1)
	}
	for {
		syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
	}
}
