package image

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// root is a directory that an image is unpacked into. Every path is one of the image's own, and is resolved with this directory as "/" by the kernel: what
// a link of the image names is looked for inside, "/.." is "/", and no name can lead out, whatever the layers before have made.
type root struct {
	fd int
	// owners says that files get the owners that layers say. Only root can give files away.
	owners bool
}

func openRoot(dir string, owners bool) (*root, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	return &root{fd, owners}, nil
}

func (r *root) close() { unix.Close(r.fd) }

// clean is a name of a layer as a path below the root, without a slash at either end; "." is the root itself.
func clean(name string) (string, error) {
	switch {
	case name == "" || len(name) > longestName:
		return "", fmt.Errorf("a name of %d bytes", len(name))
	case strings.ContainsAny(name, "\x00"):
		return "", errors.New("a name with a NUL byte")
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", errors.New("a name with \"..\"")
		}
		if len(part) > 255 {
			return "", fmt.Errorf("a part of %d bytes", len(part))
		}
	}
	clean := strings.TrimPrefix(path.Clean("/"+name), "/")
	if strings.Count(clean, "/") >= deepest {
		return "", fmt.Errorf("a name of more than %d directories", deepest)
	}
	if clean == "" {
		return ".", nil
	}
	return clean, nil
}

// open opens a path beneath the root. Links on the way are followed within the root, one at its end isn't.
func (r *root) open(name string, flags int) (int, error) {
	const beneath = unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV
	fd, err := r.resolve(name, flags, beneath|unix.RESOLVE_NO_SYMLINKS)
	if !errors.Is(err, unix.ELOOP) {
		return fd, err
	}
	if fd, err = r.resolve(name, flags, beneath); err != nil {
		return -1, err
	}
	// Links can make a tree deeper than any name of a layer says.
	where, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err == nil && strings.Count(where, "/") > 2*deepest {
		err = &os.PathError{Op: "openat2", Path: name, Err: unix.ENAMETOOLONG}
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func (r *root) resolve(name string, flags int, resolve uint64) (int, error) {
	how := &unix.OpenHow{Flags: uint64(flags | unix.O_NOFOLLOW | unix.O_CLOEXEC), Resolve: resolve}
	for range 16 { // EAGAIN: something was renamed anywhere on the system while a ".." was resolved
		fd, err := unix.Openat2(r.fd, name, how)
		if err == nil {
			return fd, nil
		}
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			return -1, &os.PathError{Op: "openat2", Path: name, Err: err}
		}
	}
	return -1, &os.PathError{Op: "openat2", Path: name, Err: unix.EAGAIN}
}

// parent opens the directory that holds a name, making it and those above as need be, and follows links of the image within the root.
func (r *root) parent(name string) (dir int, base string, err error) {
	above, base := path.Split(name)
	above = strings.TrimSuffix(above, "/")
	if above == "" {
		above = "."
	}
	dir, err = r.directory(above)
	return dir, base, err
}

// existing is parent for a name that may not be there any more: nothing is made.
func (r *root) existing(name string) (dir int, base string, err error) {
	above, base := path.Split(name)
	dir, err = r.open(path.Join(above, ".")+"/.", unix.O_PATH|unix.O_DIRECTORY)
	return dir, base, err
}

// directory opens a directory, making it as need be. The last part may be a link: to a directory within the root.
func (r *root) directory(name string) (int, error) {
	fd, err := r.open(name+"/.", unix.O_PATH|unix.O_DIRECTORY)
	if !errors.Is(err, unix.ENOENT) || name == "." {
		return fd, err
	}
	above, base, err := r.parent(name)
	if err != nil {
		return -1, err
	}
	defer unix.Close(above)
	if err := unix.Mkdirat(above, base, 0o755); err != nil {
		return -1, &os.PathError{Op: "mkdirat", Path: name, Err: err}
	}
	if r.owners {
		if err := unix.Fchownat(above, base, 0, 0, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return -1, &os.PathError{Op: "fchownat", Path: name, Err: err}
		}
	}
	return unix.Openat(above, base, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// remove takes what a directory has under a name away, with all below it. That it isn't there is no error.
func remove(dir int, name string) error {
	err := unix.Unlinkat(dir, name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	if !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) {
		return &os.PathError{Op: "unlinkat", Path: name, Err: err}
	}
	names, err := list(dir, name)
	if err != nil {
		return err
	}
	below, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "openat", Path: name, Err: err}
	}
	defer unix.Close(below)
	for _, child := range names {
		if err := remove(below, child); err != nil {
			return err
		}
	}
	if err := unix.Unlinkat(dir, name, unix.AT_REMOVEDIR); err != nil {
		return &os.PathError{Op: "rmdir", Path: name, Err: err}
	}
	return nil
}

// list has the names in a directory.
func list(dir int, name string) ([]string, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "openat", Path: name, Err: err}
	}
	file := os.NewFile(uintptr(fd), name)
	defer file.Close()
	return file.Readdirnames(-1)
}

// write makes a regular file that isn't there yet.
func write(dir int, name string, content io.Reader, size int64) (err error) {
	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return &os.PathError{Op: "openat", Path: name, Err: err}
	}
	file := os.NewFile(uintptr(fd), name)
	defer func() { err = errors.Join(err, file.Close()) }()
	n, err := io.Copy(file, io.LimitReader(content, size))
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	return err
}
