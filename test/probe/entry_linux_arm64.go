package main

import "syscall"

// A 64-bit process of arm64 can't enter by the 32-bit door: the instruction set changes only at execve.
func i386Getpid() uintptr { return uintptr(syscall.ENOSYS) }
func x32Getpid() uintptr  { return uintptr(syscall.ENOSYS) }
