package procfs

import (
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// maxTable bounds a descriptor table that is walked number by number.
const maxTable = 1 << 16

// FDs reads the open descriptors: number and text of the link.
//
// The directory fd of a process that isn't dumpable belongs to root, and only root may list it. Who may trace the process all the same, such as
// the maker of its user namespace, gets a copy of each descriptor from the kernel instead (pidfd_getfd(2)) and reads the link of that.
func (p *Process) FDs() (map[int]string, error) {
	fds, err := p.listFDs()
	if errors.Is(err, unix.EACCES) {
		fds, err = p.copyFDs()
	}
	if err != nil {
		return nil, fmt.Errorf("fd: %w", err)
	}
	return fds, nil
}

func (p *Process) listFDs() (map[int]string, error) {
	fds := make(map[int]string, 8)
	err := p.each("fd", func(dir int, fd int) error {
		text, err := readlink(dir, strconv.Itoa(fd), *p.buf)
		if errors.Is(err, unix.ENOENT) { // closed meanwhile
			return nil
		}
		fds[fd] = text
		return err
	})
	return fds, err
}

func (p *Process) copyFDs() (map[int]string, error) {
	pidfd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		return nil, fmt.Errorf("pidfd_open: %w", err)
	}
	defer unix.Close(pidfd)
	// Read after the pidfd was opened: that this process still has its status says that the number was its own by then.
	data, err := p.read("status")
	if err != nil {
		return nil, err
	}
	status, err := ParseStatus(data)
	if err != nil {
		return nil, err
	}
	if status.FDSize > maxTable {
		return nil, fmt.Errorf("a table for %d descriptors", status.FDSize)
	}
	fds := make(map[int]string, 8)
	for fd := range status.FDSize {
		copied, err := unix.PidfdGetfd(pidfd, fd, 0)
		if errors.Is(err, unix.EBADF) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("pidfd_getfd: %w", err)
		}
		fds[fd], err = readlink(unix.AT_FDCWD, "/proc/thread-self/fd/"+strconv.Itoa(copied), *p.buf)
		unix.Close(copied)
		if err != nil {
			return nil, err
		}
	}
	return fds, nil
}
