package file

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// entry is a name in a directory that is open. Everything done to it goes by that descriptor and never follows a link.
type entry struct {
	place  *place
	parent int
	name   string
}

// entry resolves all but the last part of an order's path.
func (p *place) entry(o Order, open func([]string) (int, error)) (*entry, error) {
	parts, err := o.parts()
	if err != nil {
		return nil, err
	}
	if len(parts) == 0 {
		return nil, &Fault{Code: NotFile, Message: "it is a directory", Kind: KindDirectory}
	}
	last := len(parts) - 1
	parent, err := open(parts[:last])
	if err != nil {
		return nil, err
	}
	p.keep(parent)
	return &entry{p, parent, parts[last]}, nil
}

func (e *entry) stat() (unix.Stat_t, error) {
	var stat unix.Stat_t
	err := unix.Fstatat(e.parent, e.name, &stat, unix.AT_SYMLINK_NOFOLLOW)
	return stat, err
}

// regular opens a regular file and nothing else, and says what it is. It is looked at before, since opening alone may act on a device, and after,
// since only what is open stays what it is. O_NONBLOCK is for the FIFO that takes the file's place in between.
func (e *entry) regular(flags int) (int, unix.Stat_t, error) {
	stat, err := e.stat()
	if err != nil {
		return -1, stat, err
	}
	if err := wantFile(&stat); err != nil {
		return -1, stat, err
	}
	fd, err := unix.Openat(e.parent, e.name, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, stat, err
	}
	e.place.keep(fd)
	if err = unix.Fstat(fd, &stat); err == nil {
		err = wantFile(&stat)
	}
	if err == nil {
		err = e.place.here(fd)
	}
	// A hard link to another's file would be a second name for what its owner keeps elsewhere. The sandbox's own it could read anyway.
	if err == nil && !e.place.follow && stat.Nlink > 1 && int(stat.Uid) != os.Geteuid() {
		err = hardLink(&stat)
	}
	return fd, stat, err
}

func hardLink(stat *unix.Stat_t) error {
	return &Fault{Code: HardLink, Message: fmt.Sprintf("the file has %d names", stat.Nlink), Kind: KindFile}
}

// wantFile refuses what isn't a regular file, by its kind.
func wantFile(stat *unix.Stat_t) error {
	switch found := kind(stat.Mode); found {
	case KindFile:
		return nil
	case KindLink:
		return &Fault{Code: Link, Message: "it is a symbolic link; none is followed", Kind: found}
	default:
		return &Fault{Code: NotFile, Message: "it is a " + found, Kind: found}
	}
}

func kind(mode uint32) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return KindFile
	case unix.S_IFDIR:
		return KindDirectory
	case unix.S_IFLNK:
		return KindLink
	case unix.S_IFIFO:
		return KindFIFO
	case unix.S_IFSOCK:
		return KindSocket
	case unix.S_IFCHR:
		return KindCharacter
	case unix.S_IFBLK:
		return KindBlock
	}
	return KindUnknown
}

func infoOf(stat *unix.Stat_t) Info {
	return Info{
		Kind: kind(stat.Mode), Size: stat.Size, Mode: fmt.Sprintf("%04o", stat.Mode&0o7777),
		ModifiedAt: time.Unix(stat.Mtim.Unix()).UTC(),
	}
}
