package file

import (
	"errors"
	"sync"

	"golang.org/x/sys/unix"
)

// place is a base that is open: everything of an order happens beneath it and on its mount.
type place struct {
	fd int
	id mountID
	// opened are the descriptors that last as long as the operation.
	opened []int
	// follow: the root of an order that follows links, and the owners that it knows.
	follow bool
	owners owners
}

// keep has a descriptor closed at the end.
func (p *place) keep(fd int) { p.opened = append(p.opened, fd) }

func (p *place) close() {
	for _, fd := range p.opened {
		unix.Close(fd)
	}
}

// mountID tells mounts apart: by the kernel's number, or by the device where statx(2) doesn't know that (before 5.8) or is refused.
type mountID struct {
	number uint64
	device uint64
}

func openPlace(base string) (*place, error) {
	fd, err := unix.Open(base, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	p := &place{fd: fd}
	p.keep(fd)
	p.id, err = mountOf(fd)
	return p, err
}

func mountOf(fd int) (mountID, error) {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return mountID{}, err
	}
	id := mountID{device: stat.Dev}
	var more unix.Statx_t
	if unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &more) == nil && more.Mask&unix.STATX_MNT_ID != 0 {
		id.number = more.Mnt_id
	}
	return id, nil
}

// here refuses what lies on another mount.
func (p *place) here(fd int) error {
	if p.follow {
		return nil
	}
	id, err := mountOf(fd)
	if err == nil && id != p.id {
		return unix.EXDEV
	}
	return err
}

// directory opens the directory that the parts lead to, as O_PATH.
func (p *place) directory(parts []string) (int, error) {
	if len(parts) == 0 {
		return unix.FcntlInt(uintptr(p.fd), unix.F_DUPFD_CLOEXEC, 0)
	}
	if !haveOpenat2() {
		return p.walk(parts)
	}
	path := parts[0]
	for _, part := range parts[1:] {
		path += "/" + part
	}
	how := unix.OpenHow{Flags: pathDirectory, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV}
	for range mostTries {
		fd, err := openat2(p.fd, path, &how)
		// A rename or a mount came in between, and the kernel can't be sure: it says to try again.
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
	return -1, &Fault{Code: Changed, Message: "the path changed again and again while it was resolved", Errno: "EAGAIN"}
}

const pathDirectory = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC

// mostTries bounds how often a hostile program can make us try again.
const mostTries = 64

// walk is directory where there is no openat2: one part after the other, none of which may be a link.
func (p *place) walk(parts []string) (int, error) {
	at := p.fd
	for _, part := range parts {
		next, err := p.step(at, part)
		if at != p.fd {
			unix.Close(at)
		}
		if err != nil {
			return -1, err
		}
		at = next
	}
	return at, nil
}

// step opens one part.
func (p *place) step(at int, part string) (int, error) {
	fd, err := unix.Openat(at, part, pathDirectory|unix.O_NOFOLLOW, 0)
	if errors.Is(err, unix.ENOTDIR) {
		var stat unix.Stat_t
		if unix.Fstatat(at, part, &stat, unix.AT_SYMLINK_NOFOLLOW) == nil && stat.Mode&unix.S_IFMT == unix.S_IFLNK {
			err = unix.ELOOP // as openat2 says it
		}
	}
	if err != nil {
		return -1, err
	}
	if err := p.here(fd); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// openat2 is a variable for tests of the fallback.
var openat2 = unix.Openat2

// haveOpenat2 asks once: a kernel before 5.6 doesn't know the call, and a seccomp profile may refuse it in either way.
var haveOpenat2 = sync.OnceValue(askOpenat2)

func askOpenat2() bool {
	fd, err := openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: pathDirectory, Resolve: unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		return false
	}
	unix.Close(fd)
	return true
}

// parents is directory, which makes what isn't there. Each directory is opened before the next is made in it.
func (p *place) parents(parts []string) (int, error) {
	fd, err := p.directory(parts)
	if !errors.Is(err, unix.ENOENT) {
		return fd, err
	}
	at := p.fd
	for _, part := range parts {
		if err := unix.Mkdirat(at, part, 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
			fault := faultOf(err, at)
			closeUnless(at, p.fd)
			return -1, fault
		}
		next, err := p.step(at, part)
		closeUnless(at, p.fd)
		if err != nil {
			return -1, err
		}
		at = next
	}
	return at, nil
}

func closeUnless(fd, kept int) {
	if fd != kept {
		unix.Close(fd)
	}
}
