package mount

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// fill makes the files, links and FIFOs of a root.
func (b *builder) fill(r Root) error {
	for _, f := range r.Files {
		if err := b.file(f); err != nil {
			return fmt.Errorf("file %s: %w", f.Path, err)
		}
	}
	for _, link := range r.Symlinks {
		err := b.in(link.Path, func(dir int, name string) error { return unix.Symlinkat(link.Target, dir, name) })
		if err != nil {
			return fmt.Errorf("symlink %s: %w", link.Path, err)
		}
	}
	for _, fifo := range r.FIFOs {
		err := b.in(fifo, func(dir int, name string) error { return unix.Mknodat(dir, name, unix.S_IFIFO|0o222, 0) })
		if err != nil {
			return fmt.Errorf("FIFO %s: %w", fifo, err)
		}
	}
	return nil
}

func (b *builder) file(f File) error {
	return b.in(f.Path, func(dir int, name string) error {
		fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, f.Mode)
		if err != nil {
			return err
		}
		file := os.NewFile(uintptr(fd), f.Path)
		_, err = file.WriteString(f.Content)
		return errors.Join(err, file.Close())
	})
}

// makeTarget makes what a mount goes onto, unless it is there: on a bind that shows it already.
func (b *builder) makeTarget(target string, dir bool) error {
	return b.in(target, func(parent int, name string) error {
		var err error
		if dir {
			err = unix.Mkdirat(parent, name, 0o755)
		} else {
			err = unix.Mknodat(parent, name, unix.S_IFREG|0o444, 0)
		}
		if errors.Is(err, fs.ErrExist) || errors.Is(err, unix.EROFS) {
			return nil // EROFS: below a bind; that it is there is seen when it is opened
		}
		return err
	})
}

// in calls make with the directory that is to hold path, making that and those above it as need be.
func (b *builder) in(target string, make func(dir int, name string) error) error {
	dir, name := path.Split(target)
	dir = strings.TrimSuffix(dir, "/")
	if dir != "" {
		fd, err := b.open(dir, unix.O_PATH|unix.O_DIRECTORY)
		if errors.Is(err, fs.ErrNotExist) {
			err = b.in(dir, func(parent int, name string) error { return unix.Mkdirat(parent, name, 0o755) })
			if err != nil {
				return err
			}
			fd, err = b.open(dir, unix.O_PATH|unix.O_DIRECTORY)
		}
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return b.there(make(fd, name))
	}
	return b.there(make(b.root, name))
}

// there forgives that something is there already where it was made before.
func (b *builder) there(err error) error {
	if b.layered && errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}
