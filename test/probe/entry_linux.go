package main

import (
	"errors"
	"fmt"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// entryActs enter the kernel by another door than the one the filter was written for. Where the filter kills, the attempt costs a child
// its life and is reported as a signal.
var entryActs = []act{
	{"i386", "[NUMBER [ARG…]]", "a call by int 0x80, the 32-bit entry; getpid unless given", func(args []string) error {
		return onCall(args, i386Getpid, i386)
	}},
	{"x32", "[NUMBER [ARG…]]", "a call by its x32 number; getpid unless given", func(args []string) error {
		return onCall(args, unix.SYS_GETPID, x32)
	}},
	{"syscall", "NAME|NUMBER [ARG…]", "one call of this architecture with these numbers", func(args []string) error {
		if len(args) == 0 {
			return errors.New("want NAME or NUMBER")
		}
		if number, known := calls[args[0]]; known {
			args = append([]string{strconv.FormatUint(uint64(number), 10)}, args[1:]...)
		}
		return onCall(args, 0, native)
	}},
}

// asked is the call that the child makes. A closure would have it too, but a closure looks at its stack first, and the scheduler that it may ask
// for more of it isn't there in a forked child.
var asked struct {
	number uintptr
	args   [6]uintptr
}

// onCall makes a call in a child of its own, since the answer may be a signal.
func onCall(args []string, number uintptr, do func() uintptr) error {
	asked.number, asked.args = number, [6]uintptr{}
	if len(args) > 7 {
		return errors.New("a call has at most 6 arguments")
	}
	for i, text := range args {
		value, err := strconv.ParseInt(text, 0, 64)
		if unsigned, uerr := strconv.ParseUint(text, 0, 64); err != nil && uerr == nil {
			value, err = int64(unsigned), nil
		}
		if err != nil {
			return fmt.Errorf("%q is no number and no call that this program knows by name", text)
		}
		if i == 0 {
			asked.number = uintptr(value)
		} else {
			asked.args[i-1] = uintptr(value)
		}
	}
	return inChild(do)
}

//go:norace
//go:nosplit
func native() uintptr {
	args := &asked.args
	_, _, errno := syscall.RawSyscall6(asked.number, args[0], args[1], args[2], args[3], args[4], args[5])
	return uintptr(errno)
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
