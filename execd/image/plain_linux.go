package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// A plain root is a directory or a tar of files, with nothing that says what it is: its digest is that of what was unpacked. All is root's in it, since
// owners in a directory are this machine's accounts.

// plainTar applies a tar as the only layer.
func (u *unpacking) plainTar(file io.Reader) error {
	u.plain = true
	return layer{open: func() (io.ReadCloser, error) { return io.NopCloser(file), nil }}.apply(u)
}

// plainFolder copies a directory, as if it were a layer. What another file system has beneath it isn't taken: that is /proc, where somebody names the
// root of a machine.
func (u *unpacking) plainFolder(dir string) error {
	u.plain, u.made = true, map[uint64]bool{}
	var top syscall.Stat_t
	if err := syscall.Stat(dir, &top); err != nil {
		return &os.PathError{Op: "stat", Path: dir, Err: err}
	}
	first := map[uint64]string{} // names of files that have several
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		stat := info.Sys().(*syscall.Stat_t)
		if stat.Dev != top.Dev && !entry.IsDir() {
			return nil
		}
		if err := errors.Join(u.ctx.Err(), u.used.entry()); err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		header := &tar.Header{Name: name, Mode: int64(stat.Mode), ModTime: info.ModTime(), Typeflag: tar.TypeReg, Size: info.Size()}
		if n, err := unix.Llistxattr(path, nil); err == nil && n > 0 {
			header.PAXRecords = map[string]string{"SCHILY.xattr.": ""}
		}
		if err := u.plainEntry(header, path, info.Mode(), stat, first); err != nil {
			return fmt.Errorf("%q: %w", cut(name), err)
		}
		if entry.IsDir() && stat.Dev != top.Dev {
			return filepath.SkipDir
		}
		return nil
	})
}

// plainEntry is one entry of a directory as one of a layer.
func (u *unpacking) plainEntry(h *tar.Header, path string, mode fs.FileMode, stat *syscall.Stat_t, first map[uint64]string) error {
	switch {
	case mode.IsDir():
		h.Typeflag, h.Size = tar.TypeDir, 0
	case mode&fs.ModeSymlink != 0:
		target, err := os.Readlink(path)
		if err != nil {
			return err
		}
		h.Typeflag, h.Size, h.Linkname = tar.TypeSymlink, 0, target
	case !mode.IsRegular():
		h.Typeflag = tar.TypeChar
	case stat.Nlink > 1 && first[stat.Ino] != "":
		h.Typeflag, h.Size, h.Linkname = tar.TypeLink, 0, first[stat.Ino]
	default:
		if stat.Nlink > 1 {
			first[stat.Ino] = h.Name
		}
		return u.plainFile(h, path)
	}
	return u.apply(h, nil)
}

func (u *unpacking) plainFile(h *tar.Header, path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close()
	if stat, err := file.Stat(); err != nil || !stat.Mode().IsRegular() {
		return errors.Join(err, errors.New("it has become something else while it was read"))
	}
	return u.apply(h, file)
}
