package enforcer

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// CloneMount is a detached copy of the mount that a sandbox has on target, which must be of the device dev ("major:minor"). A mount is cloned in its own mount
// namespace only, which a thread of its own enters; it follows no link there, and what is found must be a mount's own root.
func CloneMount(pid int, target, dev string) (clone *os.File, err error) {
	namespace, err := os.Open("/proc/" + strconv.Itoa(pid) + "/ns/mnt")
	if err != nil {
		return nil, err
	}
	defer namespace.Close()
	err = onThread(func() (keep bool, err error) {
		if err := unix.Unshare(unix.CLONE_FS); err != nil { // no thread enters that shares its root with others
			return false, os.NewSyscallError("unshare", err)
		}
		if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNS); err != nil {
			return false, os.NewSyscallError("setns", err)
		}
		found, err := unix.Openat2(unix.AT_FDCWD, target, &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS})
		if err != nil {
			return false, os.NewSyscallError("openat2", err)
		}
		defer unix.Close(found)
		var is unix.Statx_t
		if err := unix.Statx(found, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS, &is); err != nil {
			return false, os.NewSyscallError("statx", err)
		}
		if got := fmt.Sprintf("%d:%d", is.Dev_major, is.Dev_minor); got != dev || is.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0 {
			return false, fmt.Errorf("%s is of the device %s, not the mount of %s", target, got, dev)
		}
		fd, err := unix.OpenTree(found, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
		if err != nil {
			return false, os.NewSyscallError("open_tree", err)
		}
		clone = os.NewFile(uintptr(fd), target)
		return false, nil
	})
	return clone, err
}
