package file

import (
	"errors"

	"golang.org/x/sys/unix"
)

// move gives a file, a link or a directory another name, that nothing has: the kernel itself refuses to replace. Directories above the new name are made.
func (p *place) move(o Order) (Result, error) {
	from, err := p.named(p.fd, o.Path)
	if err != nil {
		return Result{}, err
	}
	stat, err := from.stat()
	if err != nil {
		return Result{}, err
	}
	if err := p.directories(above(o.To)); err != nil {
		return Result{}, err
	}
	to, err := p.named(p.fd, o.To)
	if err != nil {
		return Result{}, err
	}
	if from.name == "." || to.name == "." {
		return Result{}, unix.EBUSY
	}
	err = unix.Renameat2(from.parent, from.name, to.parent, to.name, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) && kind(stat.Mode) == KindDirectory {
		return Result{}, &Fault{Code: BadName, Message: "a directory can't be moved into itself", Kind: KindDirectory}
	}
	if !errors.Is(err, unix.EXDEV) {
		return Result{}, err
	}
	return Result{}, moveAcross(from, to, &stat)
}

// moveAcross moves to another file system: it copies, and then takes the old name away. Of a file that another program writes to meanwhile, what it writes
// after the copy is lost, as with mv(1).
func moveAcross(from, to *entry, stat *unix.Stat_t) error {
	if _, err := to.stat(); !errors.Is(err, unix.ENOENT) {
		return errors.Join(err, unix.EEXIST)
	}
	between, err := randomName()
	if err != nil {
		return err
	}
	if err := copyEntry(from.parent, from.name, to.parent, between, stat, 0); err != nil {
		return errors.Join(err, discard(to.parent, between))
	}
	if err := unix.Renameat2(to.parent, between, to.parent, to.name, unix.RENAME_NOREPLACE); err != nil {
		return errors.Join(err, discard(to.parent, between))
	}
	err = discard(from.parent, from.name)
	if err != nil && kind(stat.Mode) != KindDirectory { // it is there as a whole, and so it stays; of a directory some may be gone, and then the copy is what there is
		err = errors.Join(err, discard(to.parent, to.name))
	}
	return err
}

// discard takes anything away; what isn't there is fine.
func discard(at int, name string) error {
	err := unix.Unlinkat(at, name, 0)
	if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EPERM) {
		err = clearTree(at, name)
	}
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// copyEntry copies a file, a link or a directory with all that is in it, with modes and times, into a name that nothing has.
func copyEntry(from int, name string, to int, as string, stat *unix.Stat_t, depth int) error {
	switch found := kind(stat.Mode); found {
	case KindFile:
		return copyFile(from, name, to, as)
	case KindLink:
		link := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(from, name, link)
		if err != nil {
			return err
		}
		return unix.Symlinkat(string(link[:n]), to, as)
	case KindDirectory:
		return copyDirectory(from, name, to, as, stat, depth)
	default:
		return &Fault{Code: NotFile, Message: "a " + found + " can't be moved to another file system", Kind: found}
	}
}

func copyFile(from int, name string, to int, as string) error {
	in, err := unix.Openat(from, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(in)
	var stat unix.Stat_t
	if err := unix.Fstat(in, &stat); err != nil {
		return err
	}
	if err := wantFile(&stat); err != nil {
		return err
	}
	out, err := unix.Openat(to, as, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return faultOf(err, to)
	}
	defer unix.Close(out)
	if err := copyAll(out, in); err != nil {
		return faultOf(err, to)
	}
	if err := unix.Fchmod(out, stat.Mode&0o777); err != nil {
		return err
	}
	return unix.UtimesNanoAt(to, as, []unix.Timespec{stat.Atim, stat.Mtim}, unix.AT_SYMLINK_NOFOLLOW)
}

func copyAll(out, in int) error {
	buffer := make([]byte, pieceBytes)
	for {
		n, err := unix.Read(in, buffer)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			return err
		}
		if err := writeAll(out, buffer[:n]); err != nil {
			return err
		}
	}
}

// deepestCopy bounds how many directories are open at once.
const deepestCopy = 128

func copyDirectory(from int, name string, to int, as string, stat *unix.Stat_t, depth int) error {
	if depth == deepestCopy {
		return &Fault{Code: TooLarge, Message: "the directories are too deep to be moved to another file system"}
	}
	in, err := unix.Openat(from, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(in)
	if err := unix.Mkdirat(to, as, 0o700); err != nil {
		return faultOf(err, to)
	}
	out, err := unix.Openat(to, as, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(out)
	names, more, err := readSome(in, mostFollowed)
	if err == nil && more {
		err = &Fault{Code: TooLarge, Message: "a directory has too many entries to be moved to another file system"}
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		var inner unix.Stat_t
		if err := unix.Fstatat(in, name, &inner, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			if errors.Is(err, unix.ENOENT) {
				continue // gone since
			}
			return err
		}
		if err := copyEntry(in, name, out, name, &inner, depth+1); err != nil {
			return err
		}
	}
	if err := unix.Fchmod(out, stat.Mode&0o777); err != nil {
		return err
	}
	return unix.UtimesNanoAt(to, as, []unix.Timespec{stat.Atim, stat.Mtim}, unix.AT_SYMLINK_NOFOLLOW)
}
