package seccomp

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
)

// ListenerFlags install a filter with a listener whose answers are waited for without being disturbed: a signal that interrupted a wait would have
// the call made, and told, twice. A signal that kills does end it.
const ListenerFlags = 1<<3 | 1<<5 // SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV

// ErrNoListener is a kernel without such listeners: they came with Linux 5.19.
var ErrNoListener = errors.New("seccomp: this kernel has no listeners that wait killably")

// ListenerWorks asks the kernel for a filter with a listener and gives it no program: one that knows the flags looks for it and finds none.
func ListenerWorks() error {
	number, ok := Number(runtime.GOARCH, "seccomp")
	if !ok {
		return fmt.Errorf("seccomp: no filter for architecture %q", runtime.GOARCH)
	}
	_, _, e := syscall.RawSyscall(uintptr(number), 1 /* SECCOMP_SET_MODE_FILTER */, ListenerFlags, 0)
	if e != syscall.EFAULT {
		return fmt.Errorf("%w: %w", ErrNoListener, e)
	}
	return nil
}
