package procfs

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// NetworkID tells network namespaces apart where the links in /proc/PID/ns can't be read: the inode number of /proc/PID/net/dev, of which each namespace
// has a file of its own. Everybody may ask for it.
func (p *Process) NetworkID() (uint64, error) {
	var stat unix.Stat_t
	if err := unix.Fstatat(p.fd, "net/dev", &stat, 0); err != nil {
		return 0, fmt.Errorf("net/dev: %w", err)
	}
	return stat.Ino, nil
}

// RootMount is the number of the mount that the process's root is or lies on. Each mount namespace has mounts of its own, and no two mounts of a machine
// have one number. Everybody may ask for it.
func RootMount(mounts []Mount) int {
	id := 0
	for _, m := range mounts {
		if m.Target == "/" { // the last one lies on top
			id = m.ID
		}
	}
	return id
}
