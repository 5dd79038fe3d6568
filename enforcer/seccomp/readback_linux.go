package seccomp

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

// readbackBound is how long a process may take to stop: one that is blocked in read stops at once, one in D state never.
const readbackBound = time.Second

const (
	ptraceDetach           = 17
	ptraceInterrupt        = 0x4207
	ptraceSeccompGetFilter = 0x420c
	ptraceEventStop        = 128

	wAll = 0x40000000 // __WALL: the process may be a clone child of any kind
)

// Readback is the filter that is installed in a process, in the kernel's bytes; index 0 is the oldest. The kernel lets read it who has
// CAP_SYS_ADMIN and CAP_SYS_PTRACE in the initial user namespace and no filter of its own (EACCES, EPERM). ENOENT: there is no such filter;
// ESRCH: the process is gone; ETIMEDOUT: it did not stop.
//
// The process is stopped for a few microseconds (PTRACE_SEIZE, INTERRUPT, GET_FILTER, DETACH); the read it is blocked in is restarted by the
// kernel. It must have one thread. The caller holds a pidfd and checks it afterwards: the number may have been reused meanwhile.
func Readback(pid int, index int) ([]byte, error) {
	if pid <= 1 || index < 0 {
		return nil, fmt.Errorf("seccomp: read back filter %d of process %d: %w", index, pid, syscall.EINVAL)
	}
	type answer struct {
		program []byte
		err     error
	}
	done := make(chan answer, 1)
	go onOwnThread(func() (clean bool) {
		program, clean, err := traced(pid, index)
		done <- answer{program, err}
		return clean
	})
	var a answer
	bound := time.NewTimer(readbackBound)
	defer bound.Stop()
	select {
	case a = <-done:
	case <-bound.C:
		// The thread stays with it until it stops or ends, which it does when the caller kills it for this.
		a.err = syscall.ETIMEDOUT
	}
	if a.err != nil {
		return nil, fmt.Errorf("seccomp: read back filter %d of process %d: %w", index, pid, a.err)
	}
	return a.program, nil
}

// onOwnThread runs f on a locked thread, since the kernel knows tracers by thread. If f isn't clean the thread ends, and with it whatever it
// still traces is let go, which is the one detach that works for a process that doesn't stop.
func onOwnThread(f func() (clean bool)) {
	runtime.LockOSThread()
	if syscall.Gettid() == syscall.Getpid() {
		// Go parks the main thread instead of ending it. While it is locked here the next goroutine gets another one.
		ended := make(chan struct{})
		go func() { defer close(ended); onOwnThread(f) }()
		<-ended
		runtime.UnlockOSThread()
		return
	}
	if f() {
		runtime.UnlockOSThread()
	}
}

func traced(pid, index int) (program []byte, clean bool, err error) {
	if e := ptrace(ptraceSeize, pid, 0, 0); e == syscall.EPERM && ended(pid) {
		return nil, true, syscall.ESRCH // what is dead and not yet reaped answers EPERM
	} else if e != 0 {
		return nil, true, fmt.Errorf("PTRACE_SEIZE: %w", e)
	}
	if e := ptrace(ptraceInterrupt, pid, 0, 0); e != 0 {
		return nil, false, fmt.Errorf("PTRACE_INTERRUPT: %w", e)
	}
	status, err := stopped(pid)
	if err != nil {
		return nil, false, err
	}
	if !status.Stopped() {
		return nil, true, syscall.ESRCH // it ended, and the kernel has let it go
	}
	program, e := installed(pid, index)
	// A stop that wasn't ours is the delivery of a signal: hand it on. SIGTRAP of an event stop is no signal.
	var signal uintptr
	if int(status)>>16 != ptraceEventStop {
		signal = uintptr(status.StopSignal())
	}
	if d := ptrace(ptraceDetach, pid, 0, signal); d != 0 {
		return nil, d == syscall.ESRCH, fmt.Errorf("PTRACE_DETACH: %w", d)
	}
	if e != 0 {
		return nil, true, fmt.Errorf("PTRACE_SECCOMP_GET_FILTER: %w", e)
	}
	return program, true, nil
}

// installed asks for the length and then for the rows.
func installed(pid, index int) ([]byte, syscall.Errno) {
	n, _, e := syscall.RawSyscall6(syscall.SYS_PTRACE, ptraceSeccompGetFilter, uintptr(pid), uintptr(index), 0, 0, 0)
	if e != 0 || n == 0 {
		return nil, e
	}
	rows := make([]byte, n*rowSize)
	_, _, e = syscall.RawSyscall6(syscall.SYS_PTRACE, ptraceSeccompGetFilter, uintptr(pid), uintptr(index), uintptr(unsafe.Pointer(&rows[0])), 0, 0)
	return rows, e
}

// ended says whether a process is dead or gone.
func ended(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH)
	}
	// The state stands behind the name, which may have any character in it.
	_, state, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	return len(state) > 0 && (state[0] == 'Z' || state[0] == 'X')
}

// stopped waits for the stop, or the end, of a process that is being traced. It sleeps in the kernel: looking again and again would take the
// processor from the process that is to stop.
func stopped(pid int) (syscall.WaitStatus, error) {
	for {
		var raw uint32
		_, _, e := syscall.Syscall6(syscall.SYS_WAIT4, uintptr(pid), uintptr(unsafe.Pointer(&raw)), wAll, 0, 0, 0)
		switch e {
		case 0:
			return syscall.WaitStatus(raw), nil
		case syscall.EINTR:
		case syscall.ECHILD:
			return 0, syscall.ESRCH
		default:
			return 0, fmt.Errorf("wait4: %w", e)
		}
	}
}

func ptrace(request uintptr, pid int, address, data uintptr) syscall.Errno {
	_, _, e := syscall.RawSyscall6(syscall.SYS_PTRACE, request, uintptr(pid), address, data, 0, 0)
	return e
}

// ErrReadbackDiffers is a kernel that gives back other bytes than were installed.
var ErrReadbackDiffers = errors.New("seccomp: the kernel gave back another program than was installed")
