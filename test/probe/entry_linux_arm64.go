package main

import "syscall"

const i386Getpid = 20

// A 64-bit process of arm64 can't enter by the 32-bit door: the instruction set changes only at execve.
func i386() uintptr { return uintptr(syscall.ENOSYS) }
func x32() uintptr  { return uintptr(syscall.ENOSYS) }
