package main

import "syscall"

// i386Getpid is that table's number.
const i386Getpid = 20

// int80 makes a system call by the 32-bit entry (entry_linux_amd64.s).
func int80(number, a, b, c uintptr) uintptr

//go:norace
//go:nosplit
func i386() uintptr { return answer(int80(asked.number, asked.args[0], asked.args[1], asked.args[2])) }

//go:norace
//go:nosplit
func x32() uintptr {
	args := &asked.args
	_, _, errno := syscall.RawSyscall6(0x40000000|asked.number, args[0], args[1], args[2], args[3], args[4], args[5])
	return uintptr(errno)
}
