package main

// entryActs enter the kernel by another door than the one the filter was written for. Where the filter kills, the attempt costs a child
// its life and is reported as a signal.
var entryActs = []act{
	{"i386", "", "getpid by int 0x80, the 32-bit entry", func([]string) error { return inChild(i386Getpid) }},
	{"x32", "", "getpid by its x32 number", func([]string) error { return inChild(x32Getpid) }},
}

// answer turns the kernel's return value into an errno, 0 for success.
//
//go:nosplit
func answer(value uintptr) uintptr {
	if value > ^uintptr(4095) {
		return -value
	}
	return 0
}
