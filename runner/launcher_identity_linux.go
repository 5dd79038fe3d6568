package runner

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// identity makes this thread what launcher and workers are: another uid than the daemon's, with the capabilities that a worker needs to make a
// child less than itself, and with no way to gain others.
func (l *launcher) identity() error {
	keep := l.plan.WorkerCapabilities()
	for _, step := range []struct {
		name string
		do   func() error
	}{
		// First: it takes CAP_SETPCAP, and from here no file can give more back.
		{"bounding", func() error { return dropBoundingExcept(keep) }},
		{"ids", l.become},
		{"capabilities", func() error { return capset(keep) }},
		// Last of the capabilities, since it takes them in two other sets.
		{"ambient", func() error { return raiseAmbient(keep) }},
		// The change of ids may have made us dumpable again.
		{"dumpable", func() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }},
		{"no_new_privs", func() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }},
	} {
		if sabotaged("launcher.identity." + step.name) {
			continue
		}
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

func dropBoundingExcept(keep uint64) error {
	for capability := uintptr(0); ; capability++ {
		if keep>>capability&1 != 0 {
			continue
		}
		err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0)
		if err == unix.EINVAL { // above the last one that this kernel has
			return nil
		}
		if err != nil {
			return fmt.Errorf("capability %d: %w", capability, err)
		}
	}
}

// raiseAmbient has capabilities survive execve: ours as "serve", and that of the workers. no_new_privs doesn't stand against it: nothing is gained.
func raiseAmbient(keep uint64) error {
	for capability := uintptr(0); capability < 64; capability++ {
		if keep>>capability&1 == 0 {
			continue
		}
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, capability, 0, 0); err != nil {
			return fmt.Errorf("capability %d: %w", capability, err)
		}
	}
	return nil
}

// become changes the ids of this thread: groups first and the uid last, since that is what takes the privilege to do so. Raw system calls, as
// the Go ones change every thread or fail. In a user namespace of one id there is nobody else to be.
func (l *launcher) become() error {
	if l.plan.UserNamespace() {
		return nil
	}
	if err := unix.Prctl(unix.PR_SET_KEEPCAPS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("PR_SET_KEEPCAPS: %w", err)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); errno != 0 {
		return fmt.Errorf("setgroups: %w", errno)
	}
	gid, uid := uintptr(l.plan.Worker.GID), uintptr(l.plan.Worker.UID)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, gid, gid, gid); errno != 0 {
		return fmt.Errorf("setresgid %d: %w", gid, errno)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uid, uid, uid); errno != 0 {
		return fmt.Errorf("setresuid %d: %w", uid, errno)
	}
	return nil
}

// capset makes set the effective, permitted and inheritable set of this thread.
func capset(set uint64) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	for i := range data {
		half := uint32(set >> (32 * i))
		data[i] = unix.CapUserData{Effective: half, Permitted: half, Inheritable: half}
	}
	if err := unix.Capset(&header, &data[0]); err != nil {
		return fmt.Errorf("capset: %w", err)
	}
	return nil
}

// nameBytes is [Name] for prctl(2).
func nameBytes() uintptr { return uintptr(unsafe.Pointer(&commandName[0])) }

// commandName is global: the kernel reads it through a number, which keeps nothing alive.
var commandName = [16]byte([]byte(Name + "\x00"))
