// Package spool keeps texts that are too long for memory: the inputs of a run on their way in, its value on its way out. Each is in a file without a name, so
// that nothing of it is left whatever ends the daemon, and all of them together have a budget.
package spool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// ErrFull says that all texts together take as much as they may: others end, and give theirs back.
var ErrFull = errors.New("the inputs and values that are here take as much disk as this daemon allows (serve --spool-bytes)")

// ErrNoSpace says that the file system of the directory is full, or its quota.
var ErrNoSpace = errors.New("the disk of the state directory is full")

// mostReserve and reservePart are what is left free of the file system, whichever is less: the audit log may be on it, and without it nothing runs.
const (
	mostReserve = 64 << 20
	reservePart = 8 // of the whole
)

// Store is a directory with a budget. Its methods may be called at the same time.
type Store struct {
	dir  string
	most int64
	held atomic.Int64
}

// New is a store in a directory that is nobody else's, with so many bytes for all files together.
func New(dir string, most int64) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	s := &Store{dir: dir, most: most}
	if err := s.clean(); err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	file, err := s.file() // here, and not in the first request that needs it
	if err != nil {
		return nil, err
	}
	return s, file.Close()
}

// Held is how many bytes the files have.
func (s *Store) Held() int64 { return s.held.Load() }

// unnamed is a variable for a test: not every file system can make such files.
var unnamed = unix.O_TMPFILE

// file makes a file without a name.
func (s *Store) file() (*os.File, error) {
	file, err := os.OpenFile(s.dir, os.O_RDWR|unnamed, 0o600)
	switch {
	case err == nil:
		return file, nil
	case errors.Is(err, unix.EISDIR), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOENT): // overlayfs before 6.3, NFS, old kernels
	default:
		return nil, fault(err)
	}
	if file, err = os.CreateTemp(s.dir, ".spool-*"); err != nil {
		return nil, fault(err)
	}
	if err := os.Remove(file.Name()); err != nil && !errors.Is(err, os.ErrNotExist) { // another service's start may have been first
		file.Close()
		return nil, fault(err)
	}
	return file, nil
}

// clean takes away what a daemon left that died between making a file and taking its name away.
func (s *Store) clean() error {
	names, err := filepath.Glob(filepath.Join(s.dir, ".spool-*"))
	for _, name := range names {
		if gone := os.Remove(name); gone != nil && !errors.Is(gone, os.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	return err
}

// take reserves bytes for a file.
func (s *Store) take(file *os.File, bytes int64) error {
	var disk unix.Statfs_t
	if err := unix.Fstatfs(int(file.Fd()), &disk); err != nil {
		return fault(err)
	}
	if free := int64(disk.Bavail) * disk.Bsize; free-bytes < min(mostReserve, int64(disk.Blocks)*disk.Bsize/reservePart) {
		return fault(unix.ENOSPC)
	}
	if s.held.Add(bytes) > s.most {
		s.held.Add(-bytes)
		return ErrFull
	}
	return nil
}

func (s *Store) give(bytes int64) { s.held.Add(-bytes) }

// fault names what a full disk says.
func fault(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	return fmt.Errorf("spool: %w", err)
}
