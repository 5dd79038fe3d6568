package runner

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer/mount"
)

// ownersNamespace is a user namespace in which 0 is uid and gid, and every other id is itself. It maps owners of files and has nobody in it: who made it is
// our own binary, which is told nothing and ends at once. A namespace is a process's to the last of its life, and past it for who waits for it.
func ownersNamespace(binary *os.File, uid, gid int) (*os.File, error) {
	process, err := os.StartProcess("/proc/self/fd/"+strconv.Itoa(int(binary.Fd())), []string{Name}, &os.ProcAttr{
		Dir: "/", Env: []string{}, Sys: &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER, UidMappings: mapRoot(uid), GidMappings: mapRoot(gid)},
	})
	if err != nil {
		return nil, fmt.Errorf("user namespace of owners: %w", err)
	}
	namespace, err := os.Open("/proc/" + strconv.Itoa(process.Pid) + "/ns/user")
	_, waitErr := process.Wait()
	if err = errors.Join(err, waitErr); err != nil {
		if namespace != nil {
			namespace.Close()
		}
		return nil, fmt.Errorf("user namespace of owners: %w", err)
	}
	return namespace, nil
}

// mapRoot has 0 mean id, and all others themselves; nothing is that id's by its own name.
func mapRoot(id int) []syscall.SysProcIDMap {
	const all = 1<<32 - 1 // -1 is no id
	return []syscall.SysProcIDMap{{ContainerID: 0, HostID: id, Size: 1}, {ContainerID: 1, HostID: 1, Size: id - 1}, {ContainerID: id + 1, HostID: id + 1, Size: all - id - 1}}
}

// MapsOwners says whether the files of a directory can have other owners in a sandbox's root than on the disk: overlayfs takes such mounts from 5.19 on,
// and the file system must know them.
func MapsOwners(dir string, binary *os.File, kernel string) bool {
	var major, minor int
	if _, err := fmt.Sscanf(kernel, "%d.%d", &major, &minor); err != nil || major < 5 || major == 5 && minor < 19 {
		return false
	}
	owners, err := ownersNamespace(binary, mostOwner, mostOwner)
	if err != nil {
		return false
	}
	defer owners.Close()
	return mount.MapsOwners(dir, int(owners.Fd())) == nil
}

// mostOwner is an id to try it with.
const mostOwner = 1<<31 - 2
