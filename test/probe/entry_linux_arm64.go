package main

// A 64-bit process of arm64 can't enter by the 32-bit door: the instruction set changes only at execve.
func i386Getpid() uintptr { return unsupported }
func x32Getpid() uintptr  { return unsupported }
