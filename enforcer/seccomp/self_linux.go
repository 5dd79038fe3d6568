package seccomp

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// RestrictSelf puts the program on the calling thread, and on whatever it starts. The thread must have no_new_privs or CAP_SYS_ADMIN.
func RestrictSelf(p Program) error {
	if len(p) == 0 {
		return errors.New("seccomp: this program has no instruction")
	}
	rows := p.Bytes()
	program := unix.SockFprog{Len: uint16(len(p)), Filter: (*unix.SockFilter)(unsafe.Pointer(&rows[0]))}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program))); errno != 0 {
		return fmt.Errorf("seccomp(SECCOMP_SET_MODE_FILTER): %w", errno)
	}
	return nil
}
