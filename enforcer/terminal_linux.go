package enforcer

import (
	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer/procfs"
)

// ObserveTerminal reads the controlling terminal of a child at its gate, and what its standard input is.
func ObserveTerminal(pid int, h Host) (Terminal, error) {
	process, err := procfs.Open(pid)
	if err != nil {
		return Terminal{}, err
	}
	defer process.Close()
	var t Terminal
	if t.Number, err = process.Terminal(); err != nil || h.Opaque {
		return t, ended(process, pid, err)
	}
	t.File, err = process.File(0)
	return t, ended(process, pid, err)
}

// NumberOf is a device's number as tty_nr has it.
func NumberOf(device uint64) int {
	major, minor := int(unix.Major(device)), int(unix.Minor(device))
	return minor&0xff | major<<8 | minor&^0xff<<12
}

// Devpts makes an instance of devpts that is mounted nowhere, with room for one terminal, and gives a descriptor of its root. Only root of the machine, or of a
// user namespace that owns the mount namespace, may.
func Devpts() (int, error) {
	making, err := unix.Fsopen("devpts", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(making)
	for _, option := range [][2]string{{"mode", "0600"}, {"ptmxmode", "0600"}, {"max", "1"}} {
		if err := unix.FsconfigSetString(making, option[0], option[1]); err != nil {
			return -1, err
		}
	}
	if err := unix.FsconfigCreate(making); err != nil {
		return -1, err
	}
	return unix.Fsmount(making, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC)
}

// tryDevpts says whether one can be made.
func tryDevpts() bool {
	fd, err := Devpts()
	if err == nil {
		unix.Close(fd)
	}
	return err == nil
}
