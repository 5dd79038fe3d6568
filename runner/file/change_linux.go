package file

import (
	"errors"
	"strconv"

	"golang.org/x/sys/unix"
)

func (p *place) stat(o Order) (Result, error) {
	e, err := p.entry(o, p.directory)
	if err != nil {
		return Result{}, err
	}
	stat, err := e.stat()
	if err != nil {
		return Result{}, err
	}
	info := infoOf(&stat)
	return Result{Info: &info}, wantFile(&stat)
}

// remove takes a name away. unlink(2) follows nothing, so that the name of a link, a FIFO or a socket can be taken away as well: a program that
// leaves one where a file is wanted could otherwise never be cleaned up after. A directory stays.
func (p *place) remove(o Order) (Result, error) {
	e, err := p.entry(o, p.directory)
	if err != nil {
		return Result{}, err
	}
	stat, err := e.stat()
	if err != nil {
		return Result{}, err
	}
	info := infoOf(&stat)
	if info.Kind == KindDirectory {
		return Result{Info: &info}, unix.EISDIR
	}
	return Result{Info: &info}, unix.Unlinkat(e.parent, e.name, 0)
}

// mode changes the permissions of a file or directory. It is opened as O_PATH, which acts on nothing and needs no permission, and then changed by
// that descriptor: what was looked at is what is changed (CVE-2024-28185 is what comes of a name).
func (p *place) mode(o Order) (Result, error) {
	e, err := p.entry(o, p.directory)
	if err != nil {
		return Result{}, err
	}
	fd, err := unix.Openat(e.parent, e.name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return Result{}, err
	}
	e.place.keep(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return Result{}, err
	}
	if kind(stat.Mode) != KindDirectory {
		if err := wantFile(&stat); err != nil {
			return Result{}, err
		}
		if stat.Nlink > 1 { // the other name may be what somebody relies on
			return Result{}, hardLink(&stat)
		}
	}
	if err := p.here(fd); err != nil {
		return Result{}, err
	}
	if err := changeMode(fd, uint32(o.Mode)&0o777); err != nil {
		return Result{}, err
	}
	if err := unix.Fstat(fd, &stat); err != nil {
		return Result{}, err
	}
	info := infoOf(&stat)
	return Result{Info: &info}, nil
}

// changeMode is fchmodat2(2), of 6.6. Before, and where a profile refuses it, the descriptor's own magic link leads to the very file.
func changeMode(fd int, mode uint32) error {
	err := unix.Fchmodat(fd, "", mode, unix.AT_EMPTY_PATH)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPERM) {
		return unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), mode)
	}
	return err
}
