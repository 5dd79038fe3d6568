package enforcer

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer/procfs"
)

// maxDescriptors bounds the search of a table that the kernel won't list.
const maxDescriptors = 4096

// descriptors are the open descriptors of a process, number and link text. /proc/PID/fd of a process that isn't dumpable belongs to root, so
// an ordinary user can't list it, not even that of a process in a user namespace of his own. There each number below the table's size is asked
// for in turn, by pidfd_getfd(2), which goes by the capability over that namespace that its owner has.
func descriptors(p *procfs.Process, pid int) (map[int]string, error) {
	fds, err := p.FDs()
	if !errors.Is(err, unix.EACCES) {
		return fds, err
	}
	size, err := tableSize(pid)
	if err != nil {
		return nil, err
	}
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, fmt.Errorf("pidfd_open: %w", err)
	}
	defer unix.Close(pidfd)
	fds = map[int]string{}
	for fd := range size {
		text, err := linkOf(pidfd, fd)
		if errors.Is(err, unix.EBADF) {
			continue
		}
		if err != nil {
			return nil, err
		}
		fds[fd] = text
	}
	return fds, nil
}

// tableSize is how many descriptors the process's table has room for: no number in use is above it.
func tableSize(pid int) (int, error) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(data) {
		if value, ok := bytes.CutPrefix(line, []byte("FDSize:")); ok {
			size, err := strconv.Atoi(string(bytes.TrimSpace(value)))
			if err != nil || size > maxDescriptors {
				return 0, fmt.Errorf("FDSize %q, at most %d", value, maxDescriptors)
			}
			return size, nil
		}
	}
	return 0, errors.New("status: no FDSize")
}

// linkOf is what /proc/PID/fd/FD would say, seen through a duplicate of it.
func linkOf(pidfd, fd int) (string, error) {
	ours, err := unix.PidfdGetfd(pidfd, fd, 0)
	if err != nil {
		return "", fmt.Errorf("pidfd_getfd %d: %w", fd, err)
	}
	defer unix.Close(ours)
	return os.Readlink("/proc/self/fd/" + strconv.Itoa(ours))
}
