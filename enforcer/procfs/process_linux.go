package procfs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// Process is an open /proc/PID. Not for use by several goroutines at once.
type Process struct {
	pid int
	fd  int
	buf *[]byte
}

// Gone says whether an error of this package means that the process, or the thread, has ended.
func Gone(err error) bool {
	return errors.Is(err, os.ErrProcessDone) || errors.Is(err, unix.ESRCH)
}

// buffers are kept over processes: limits and status are under 2 KiB, a mountinfo may need more.
var buffers = sync.Pool{New: func() any { buf := make([]byte, 16<<10); return &buf }}

// Open opens /proc/PID. No such process is an error that wraps [os.ErrProcessDone].
func Open(pid int) (*Process, error) {
	if pid <= 0 {
		return nil, fmt.Errorf("procfs: pid %d", pid)
	}
	fd, err := open(unix.AT_FDCWD, "/proc/"+strconv.Itoa(pid), unix.O_PATH|unix.O_DIRECTORY)
	if errors.Is(err, unix.ENOENT) {
		return nil, fmt.Errorf("process %d: %w", pid, os.ErrProcessDone)
	}
	if err != nil {
		return nil, fmt.Errorf("process %d: %w", pid, err)
	}
	return &Process{pid: pid, fd: fd, buf: buffers.Get().(*[]byte)}, nil
}

// Close closes it; the Process must not be used after.
func (p *Process) Close() {
	unix.Close(p.fd)
	buffers.Put(p.buf)
}

// Ended says whether the process has gone, is a zombie, or is becoming one: then what else was asked of it failed for that reason.
func (p *Process) Ended() bool {
	stat, err := p.stat()
	if err != nil {
		return Gone(err)
	}
	if stat.Exiting() {
		return true
	}
	data, err := p.read("status")
	if err != nil {
		return Gone(err)
	}
	_, err = ParseStatus(data)
	return Gone(err)
}

func (p *Process) stat() (Stat, error) {
	data, err := p.read("stat")
	if err != nil {
		return Stat{}, err
	}
	return ParseStat(data)
}

// AwaitExec returns when no execve of the process is between the point of no return and its new credentials. Asking for a copy of a descriptor
// takes the lock that the kernel holds for that time (exec_update_lock), before it asks whether the caller may and whether there is one.
func (p *Process) AwaitExec() error {
	const none = 1<<31 - 1 // above every limit of open files
	pidfd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		return fmt.Errorf("pidfd_open: %w", err)
	}
	defer unix.Close(pidfd)
	copied, err := unix.PidfdGetfd(pidfd, none, 0)
	switch {
	case err == nil:
		unix.Close(copied)
		return fmt.Errorf("pidfd_getfd: descriptor %d is open", none)
	case errors.Is(err, unix.EBADF), errors.Is(err, unix.EPERM): // it isn't there, or may not be had; both after the lock
		return nil
	}
	return fmt.Errorf("pidfd_getfd: %w", err)
}

// Threads reads the status of every thread that there is. One that ends meanwhile is left out, but there is always one.
func (p *Process) Threads() ([]Status, error) {
	// The kernel counts the threads in the leader's status, under the lock under which it makes them: if it is one, that is all of them.
	if data, err := p.read("status"); err == nil && bytes.Contains(data, oneThread) {
		if status, err := ParseStatus(data); err == nil {
			return []Status{status}, nil
		}
	}
	var threads []Status
	err := p.each("task", func(dir int, tid int) error {
		fd, err := open(dir, strconv.Itoa(tid)+"/status", unix.O_RDONLY)
		if err != nil {
			if errors.Is(err, unix.ENOENT) {
				return nil
			}
			return err
		}
		data, err := readAll(fd, p.buf)
		if err != nil {
			if Gone(err) {
				return nil
			}
			return err
		}
		status, err := ParseStatus(data)
		if Gone(err) && len(threads) > 0 {
			return nil
		}
		threads = append(threads, status)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("task: %w", err)
	}
	if len(threads) == 0 {
		return nil, fmt.Errorf("task: no thread: %w", os.ErrProcessDone)
	}
	return threads, nil
}

// oneThread is a whole line of a status; the kernel escapes newlines in names.
var oneThread = []byte("\nThreads:\t1\n")

// Limits reads the resource limits.
func (p *Process) Limits() ([]Limit, error) {
	data, err := p.read("limits")
	if err != nil {
		return nil, err
	}
	return ParseLimits(data)
}

// Mounts reads the mounts that the process sees.
func (p *Process) Mounts() ([]Mount, error) {
	data, err := p.read("mountinfo")
	if err != nil {
		return nil, err
	}
	return ParseMounts(data)
}

// Cgroup reads its path in the version 2 hierarchy.
func (p *Process) Cgroup() (string, error) {
	data, err := p.read("cgroup")
	if err != nil {
		return "", err
	}
	return ParseCgroup(data)
}

// StartTime reads when it started, in clock ticks after boot.
func (p *Process) StartTime() (uint64, error) {
	stat, err := p.stat()
	return stat.StartTime, err
}

// Terminal is the number of the controlling terminal, 0 where there is none.
func (p *Process) Terminal() (int, error) {
	stat, err := p.stat()
	return stat.Terminal, err
}

// File is "major:minor:inode" of what a descriptor of the process is open to. As for [Process.FDs], who may trace it but not look gets a copy.
func (p *Process) File(fd int) (string, error) {
	text, err := p.Identity("fd/" + strconv.Itoa(fd))
	if !errors.Is(err, unix.EACCES) {
		return text, err
	}
	pidfd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		return "", fmt.Errorf("pidfd_open: %w", err)
	}
	defer unix.Close(pidfd)
	if _, err := p.stat(); err != nil { // read after the pidfd was opened: it is of this process
		return "", err
	}
	copied, err := unix.PidfdGetfd(pidfd, fd, 0)
	if err != nil {
		return "", fmt.Errorf("pidfd_getfd: %w", err)
	}
	defer unix.Close(copied)
	var stat unix.Stat_t
	if err := unix.Fstat(copied, &stat); err != nil {
		return "", fmt.Errorf("fd %d: %w", fd, err)
	}
	return identity(stat), nil
}

// IDMap reads "uid_map" or "gid_map".
func (p *Process) IDMap(name string) ([][3]uint32, error) {
	data, err := p.read(name)
	if err != nil {
		return nil, err
	}
	return ParseIDMap(data)
}

// Namespace reads the inode number of a namespace by its name in /proc/PID/ns. A kernel without that kind: an error that wraps [os.ErrNotExist].
func (p *Process) Namespace(kind string) (uint64, error) {
	text, err := p.Link("ns/" + kind)
	if err != nil {
		return 0, err
	}
	return ParseNamespace(kind, text)
}

// Link reads the text of a link below /proc/PID.
func (p *Process) Link(name string) (string, error) {
	text, err := readlink(p.fd, name, *p.buf)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return text, nil
}

// Identity is "device:inode" of what a link below /proc/PID leads to. The kernel follows it by object, not by name.
func (p *Process) Identity(name string) (string, error) {
	var stat unix.Stat_t
	if err := unix.Fstatat(p.fd, name, &stat, 0); err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return identity(stat), nil
}

func identity(stat unix.Stat_t) string {
	text := strconv.AppendUint(make([]byte, 0, 32), uint64(unix.Major(uint64(stat.Dev))), 10)
	text = strconv.AppendUint(append(text, ':'), uint64(unix.Minor(uint64(stat.Dev))), 10)
	return string(strconv.AppendUint(append(text, ':'), stat.Ino, 10))
}

// Owner is the uid that owns a file of /proc/PID itself.
func (p *Process) Owner(name string) (int, error) {
	var stat unix.Stat_t
	if err := unix.Fstatat(p.fd, name, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return int(stat.Uid), nil
}

// read reads a whole file below /proc/PID into the buffer; the result is valid until the next call.
func (p *Process) read(name string) ([]byte, error) {
	fd, err := open(p.fd, name, unix.O_RDONLY)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	data, err := readAll(fd, p.buf)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return data, nil
}

// each calls visit with the numbers that are the entries of a directory, and with that directory open.
func (p *Process) each(name string, visit func(dir, number int) error) error {
	dir, err := open(p.fd, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	var entries [4096]byte
	for {
		n, err := unix.Getdents(dir, entries[:])
		if err != nil {
			return err
		}
		if n == 0 {
			return nil
		}
		for rest := entries[:n]; len(rest) > 0; {
			number, length, err := parseEntry(rest)
			if err != nil {
				return err
			}
			rest = rest[length:]
			if number < 0 {
				continue
			}
			if err := visit(dir, number); err != nil {
				return err
			}
		}
	}
}

// parseEntry takes the first struct linux_dirent64 apart (getdents64(2)): its name as a number, -1 for "." and "..", and its length.
func parseEntry(data []byte) (number, length int, err error) {
	const nameAt = 19
	if len(data) <= nameAt {
		return 0, 0, fmt.Errorf("directory entry of %d bytes", len(data))
	}
	length = int(binary.NativeEndian.Uint16(data[16:]))
	if length <= nameAt || length > len(data) {
		return 0, 0, fmt.Errorf("directory entry of length %d", length)
	}
	name, _, _ := bytes.Cut(data[nameAt:length], []byte{0})
	if string(name) == "." || string(name) == ".." {
		return -1, length, nil
	}
	number, err = strconv.Atoi(string(name))
	return number, length, err
}

func open(dir int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags|unix.O_CLOEXEC, 0)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// readAll reads a file to its end and closes it. The buffer grows, since a file of /proc that is read in pieces is made anew for some pieces.
func readAll(fd int, buf *[]byte) ([]byte, error) {
	defer unix.Close(fd)
	for size := 0; ; {
		n, err := unix.Read(fd, (*buf)[size:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return (*buf)[:size], nil
		}
		if size += n; size == len(*buf) {
			*buf = append(*buf, make([]byte, len(*buf))...)
		}
	}
}

func readlink(dir int, name string, buf []byte) (string, error) {
	n, err := unix.Readlinkat(dir, name, buf)
	if err != nil {
		return "", err
	}
	if n == len(buf) {
		return "", fmt.Errorf("link text of %s: %w", name, unix.ENAMETOOLONG)
	}
	return string(buf[:n]), nil
}
