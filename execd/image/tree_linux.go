package image

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// TreeDigest is the digest of all names, kinds, permission bits, contents and targets of links below a directory. Owners, times, and which files are one
// file under two names are not in it, since they differ from one machine's import to the next.
func TreeDigest(dir string) (string, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", &os.PathError{Op: "open", Path: dir, Err: err}
	}
	defer unix.Close(fd)
	sum := sha256.New()
	if err := hashTree(sum, fd, ""); err != nil {
		return "", err
	}
	return digestPrefix + hex.EncodeToString(sum.Sum(nil)), nil
}

// hashTree writes a directory's entries in the order of their names. Lengths stand before names and targets, so that none can be taken for another.
func hashTree(sum hash.Hash, dir int, at string) error {
	names, err := list(dir, ".")
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		var stat unix.Stat_t
		if err := unix.Fstatat(dir, name, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return &fs.PathError{Op: "fstatat", Path: at + "/" + name, Err: err}
		}
		kind := stat.Mode & unix.S_IFMT
		fmt.Fprintf(sum, "%d %s %o ", len(name), name, stat.Mode)
		switch kind {
		case unix.S_IFDIR:
			err = hashBelow(sum, dir, name, at)
		case unix.S_IFLNK:
			err = hashLink(sum, dir, name)
		case unix.S_IFREG:
			err = hashFile(sum, dir, name, stat.Size)
		}
		if err != nil {
			return err
		}
	}
	fmt.Fprint(sum, "end ")
	return nil
}

func hashBelow(sum hash.Hash, dir int, name, at string) error {
	below, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "openat", Path: at + "/" + name, Err: err}
	}
	defer unix.Close(below)
	return hashTree(sum, below, at+"/"+name)
}

func hashLink(sum hash.Hash, dir int, name string) error {
	target := make([]byte, longestName+1)
	n, err := unix.Readlinkat(dir, name, target)
	if err != nil {
		return &fs.PathError{Op: "readlinkat", Path: name, Err: err}
	}
	fmt.Fprintf(sum, "%d %s ", n, target[:n])
	return nil
}

func hashFile(sum hash.Hash, dir int, name string, size int64) error {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "openat", Path: name, Err: err}
	}
	file := os.NewFile(uintptr(fd), name)
	defer file.Close()
	fmt.Fprintf(sum, "%d ", size)
	_, err = io.Copy(sum, file)
	return err
}
