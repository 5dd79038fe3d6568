package runner

import (
	"bytes"
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pidOf is the number, in this PID namespace, of the process that a pidfd holds: by PIDFD_GET_INFO (6.13), else by its fdinfo. 0 when it is gone.
func pidOf(pidfd int) int {
	if pidfd < 0 {
		return 0
	}
	// The structure of 6.13; its size is part of the request's number.
	var info unix.PidfdInfo
	const request = unix.PIDFD_GET_INFO&^(0x3fff<<16) | unix.PIDFD_INFO_SIZE_VER0<<16
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(pidfd), request, uintptr(unsafe.Pointer(&info)))
	if errno == 0 {
		return int(info.Tgid)
	}
	text, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(pidfd))
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(text) {
		if value, found := bytes.CutPrefix(line, []byte("Pid:")); found {
			pid, _ := strconv.Atoi(string(bytes.TrimSpace(value))) // -1 when it is reaped
			return max(pid, 0)
		}
	}
	return 0
}

// ended says whether the process of a pidfd has ended: it is readable then, reaped or not.
func ended(pidfd int) bool {
	polls := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(polls, 0)
		if err != unix.EINTR {
			return n > 0
		}
	}
}

// killProcess sends SIGKILL to the process of a pidfd, and to no other whatever its number is by now. That it is gone is asked of the pidfd.
func killProcess(pidfd int) {
	_ = unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0)
}
