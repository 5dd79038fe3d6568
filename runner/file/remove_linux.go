package file

import (
	"errors"

	"golang.org/x/sys/unix"
)

// removeTree takes a directory away with all that is in it. No link is followed: what is gone into was opened as a directory, by its own name in the one above.
func (p *place) removeTree(o Order) (Result, error) {
	e, err := p.named(p.fd, o.Path)
	if errors.Is(err, unix.ENOENT) {
		return Result{}, nil
	}
	if err != nil {
		return Result{}, err
	}
	if e.name == "." {
		return Result{}, unix.EBUSY
	}
	if err := clearTree(e.parent, e.name); err != nil && !errors.Is(err, unix.ENOENT) {
		return Result{}, err
	}
	return Result{}, nil
}

// clearTree empties a directory and takes its name away. One that is the root of a mount stays as it is, with all that is in it; one that other programs
// keep filling is given up.
func clearTree(parent int, name string) error {
	top, err := openInside(parent, name)
	if err != nil {
		return err
	}
	defer unix.Close(top)
	here, wrong := mountOf(parent)
	there, err := mountOf(top)
	if err := errors.Join(wrong, err); err != nil {
		return err
	}
	if here != there {
		return unix.EBUSY
	}
	for tries := 0; ; tries++ {
		if err := emptyTree(top, 0); err != nil {
			return err
		}
		err := unix.Unlinkat(parent, name, unix.AT_REMOVEDIR)
		if !errors.Is(err, unix.ENOTEMPTY) || tries == mostTries {
			return err
		}
	}
}

// openInside opens a directory by its own name.
func openInside(at int, name string) (int, error) {
	fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ELOOP) {
		err = unix.ENOTDIR // a link isn't one
	}
	return fd, err
}

// mostOpen is how many directories are open at once. Below that they are emptied by the way back up.
const mostOpen = 128

// emptyTree takes away what is in a directory.
func emptyTree(fd, depth int) error {
	if depth == mostOpen {
		return emptyDeep(fd)
	}
	for {
		names, err := namesFromStart(fd)
		if err != nil || len(names) == 0 {
			return err
		}
		for _, name := range names {
			directory, err := unlinkAny(fd, name)
			if !directory {
				if err != nil {
					return err
				}
				continue
			}
			below, err := openInside(fd, name)
			if err != nil {
				return err
			}
			err = emptyTree(below, depth+1)
			unix.Close(below)
			if err == nil {
				err = unix.Unlinkat(fd, name, unix.AT_REMOVEDIR)
			}
			// Filled again meanwhile: the names are read once more.
			if err != nil && !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.ENOENT) {
				return err
			}
		}
	}
}

// unlinkAny takes a name away, unless it is a directory's. One that is gone is fine.
func unlinkAny(at int, name string) (directory bool, err error) {
	err = unix.Unlinkat(at, name, 0)
	if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EPERM) { // as Linux says it, and as POSIX does
		var stat unix.Stat_t
		directory = unix.Fstatat(at, name, &stat, unix.AT_SYMLINK_NOFOLLOW) == nil && kind(stat.Mode) == KindDirectory
	}
	if errors.Is(err, unix.ENOENT) {
		err = nil
	}
	return directory, err
}

func namesFromStart(fd int) ([]string, error) {
	if _, err := unix.Seek(fd, 0, 0); err != nil {
		return nil, err
	}
	names, _, err := readNames(fd)
	return names, err
}

// step is a directory that was gone into, and by which name.
type step struct {
	id   fileID
	name string
}

type fileID struct{ device, inode uint64 }

func idOfFile(fd int) (fileID, error) {
	var stat unix.Stat_t
	err := unix.Fstat(fd, &stat)
	return fileID{stat.Dev, stat.Ino}, err
}

// emptyDeep is emptyTree with one directory open at a time. The way up is "..", which must lead to where it came from: who moves a directory away while it
// is emptied ends this.
func emptyDeep(top int) error {
	at, err := unix.FcntlInt(uintptr(top), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { unix.Close(at) }()
	var way []step
	for {
		name, err := firstDirectory(at)
		if err != nil {
			return err
		}
		id, err := idOfFile(at)
		if err != nil {
			return err
		}
		var next int
		switch {
		case name != "":
			way = append(way, step{id, name})
			next, err = openInside(at, name)
		case len(way) == 0:
			return nil
		default:
			next, err = up(at, way[len(way)-1])
			way = way[:len(way)-1]
		}
		if err != nil {
			return err
		}
		unix.Close(at)
		at = next
	}
}

// up goes back, and takes away what it came from.
func up(at int, from step) (int, error) {
	fd, err := unix.Openat(at, "..", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	id, err := idOfFile(fd)
	if err == nil && id != from.id {
		err = &Fault{Code: Changed, Message: "a directory was moved away while it was emptied"}
	}
	if err == nil {
		err = unix.Unlinkat(fd, from.name, unix.AT_REMOVEDIR)
		if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.ENOENT) {
			err = nil // filled again: it is met once more
		}
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// firstDirectory takes away what is no directory, and names one that is; "": there is nothing left.
func firstDirectory(fd int) (string, error) {
	for {
		names, err := namesFromStart(fd)
		if err != nil || len(names) == 0 {
			return "", err
		}
		for _, name := range names {
			directory, err := unlinkAny(fd, name)
			if directory {
				return name, nil
			}
			if err != nil {
				return "", err
			}
		}
	}
}
