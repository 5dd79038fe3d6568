package runner

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hostile is the program that tests have executed where a shell can't do it.
func hostile(args []string) int {
	runtime.LockOSThread()
	switch args[0] {
	case "sibling": // a child that isn't a child: its parent is ours
		cloneAndSleep(unix.CLONE_PARENT)
		fmt.Println("made")
		return 0
	case "vfork": // blocked until its child leaves, which it doesn't
		fmt.Println("made")
		cloneAndSleep(unix.CLONE_VFORK)
		return 0
	case "attack":
		pid, err := strconv.Atoi(args[1])
		if err != nil {
			return 2
		}
		attack(pid)
		return 0
	case "limits": // of whoever there is, by every number that a small sandbox gives
		for pid := 1; pid < 64; pid++ {
			if err := unix.Prlimit(pid, unix.RLIMIT_CPU, &unix.Rlimit{}, nil); err != unix.EPERM {
				fmt.Println(pid, err)
			}
		}
		return 0
	case "refused": // how long a refused call takes, and an allowed one
		for _, nr := range []uintptr{unix.SYS_UNSHARE, unix.SYS_GETPPID} {
			const times = 5000
			began := time.Now()
			for range times {
				syscall.RawSyscall(nr, unix.CLONE_NEWUSER, 0, 0)
			}
			fmt.Println(time.Since(began).Nanoseconds() / times)
		}
		return 0
	case "sleep":
		time.Sleep(time.Minute)
	}
	return 2
}

// cloneAndSleep makes a process that sleeps for good.
//
//go:norace
//go:nosplit
func cloneAndSleep(flags uintptr) {
	pid, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, flags|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	for pid == 0 && errno == 0 {
		syscall.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
	}
}

// attack tries what one process of a uid may do to another, and says what the kernel answered.
func attack(pid int) {
	say := func(name string, err error) {
		answer := "success"
		if errno, ok := err.(syscall.Errno); ok {
			answer = errnoName(errno)
		} else if err != nil {
			answer = err.Error()
		}
		fmt.Println(name, answer)
	}
	say("attach", unix.PtraceAttach(pid))
	say("seize", unix.PtraceSeize(pid))
	for _, name := range []string{"mem", "environ", "maps", "syscall"} {
		fd, err := unix.Open(fmt.Sprintf("/proc/%d/%s", pid, name), unix.O_RDONLY, 0)
		if err == nil {
			_, err = unix.Read(fd, make([]byte, 16))
		}
		say(name, err)
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/mem", pid), unix.O_RDWR, 0)
	if err == nil {
		unix.Close(fd)
	}
	say("mem-write", err)
	_, err = os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if path, ok := err.(*os.PathError); ok {
		err = path.Err
	}
	say("fd", err)
	var word uint64
	local := []unix.Iovec{{Base: (*byte)(unsafe.Pointer(&word)), Len: 8}}
	remote := []unix.RemoteIovec{{Base: 0x400000, Len: 8}}
	_, err = unix.ProcessVMReadv(pid, local, remote, 0)
	say("vm-read", err)
	_, err = unix.ProcessVMWritev(pid, local, remote, 0)
	say("vm-write", err)
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err == nil {
		for fd := range 6 {
			if _, got := unix.PidfdGetfd(pidfd, fd, 0); got == nil || err == nil {
				err = got
			}
		}
	}
	say("pidfd_getfd", err)
}
