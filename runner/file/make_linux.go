package file

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

// make makes a directory, and those above it with the usual mode. One that is there keeps its mode and owner.
func (p *place) make(o Order) (Result, error) {
	uid, gid, err := p.ids(o)
	if err != nil {
		return Result{}, err
	}
	_, err = p.openDirectory(p.fd, o.Path)
	if !errors.Is(err, unix.ENOENT) {
		return Result{}, err
	}
	if err := p.directories(above(o.Path)); err != nil {
		return Result{}, err
	}
	e, err := p.named(p.fd, strings.TrimRight(o.Path, "/"))
	if err != nil {
		return Result{}, err
	}
	if err := unix.Mkdirat(e.parent, e.name, 0o700); err != nil {
		if errors.Is(err, unix.EEXIST) { // another was first; or it is a link that leads nowhere
			_, err = p.openDirectory(e.parent, e.name)
			return Result{}, err
		}
		return Result{}, faultOf(err, e.parent)
	}
	// What is opened now may be another's that took the place: then its mode is that program's own affair, which could change it as well as we.
	fd, err := unix.Openat(e.parent, e.name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return Result{}, err
	}
	p.keep(fd)
	mode := uint32(0o755)
	if o.Mode >= 0 {
		mode = uint32(o.Mode) & 0o777
	}
	if uid >= 0 || gid >= 0 {
		if err := unix.Fchown(fd, uid, gid); err != nil {
			return Result{}, errors.Join(err, unix.Unlinkat(e.parent, e.name, unix.AT_REMOVEDIR))
		}
	}
	return Result{Created: true}, unix.Fchmod(fd, mode)
}
