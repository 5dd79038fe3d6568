package main

import "syscall"

// int80 makes a system call by the 32-bit entry (entry_linux_amd64.s).
func int80(number uintptr) uintptr

//go:norace
//go:nosplit
func i386Getpid() uintptr { return answer(int80(20)) }

//go:norace
//go:nosplit
func x32Getpid() uintptr {
	_, _, errno := syscall.RawSyscall(0x40000000|syscall.SYS_GETPID, 0, 0, 0)
	return uintptr(errno)
}
