package audit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrLocked says that another daemon writes this log.
var ErrLocked = errors.New("audit: another process writes this log")

// lock takes the log for one writer. The lock goes with the open file, so it is gone when the process is, however it ends.
func lock(dir string) (*os.File, error) {
	path := filepath.Join(dir, "lock")
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err != nil {
		file.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s", ErrLocked, dir)
		}
		return nil, fmt.Errorf("audit: flock %s: %w", path, err)
	}
	return file, nil
}

// privateDir makes the log's directory, or takes one that is there if it is ours and nobody else can write in it.
func privateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	var stat unix.Stat_t
	if err := unix.Lstat(dir, &stat); err != nil {
		return fmt.Errorf("audit: lstat %s: %w", dir, err)
	}
	switch {
	case stat.Mode&unix.S_IFMT != unix.S_IFDIR:
		return fmt.Errorf("audit: %s: not a directory", dir)
	case int(stat.Uid) != os.Geteuid():
		return fmt.Errorf("audit: %s: belongs to uid %d, not to us (%d)", dir, stat.Uid, os.Geteuid())
	case stat.Mode&0o022 != 0:
		return fmt.Errorf("audit: %s: mode %04o lets others write in it; want 0700", dir, stat.Mode&0o7777)
	}
	return nil
}

// datasync is fdatasync(2): the data and the size, not the times.
func datasync(file *os.File) error {
	for {
		if err := unix.Fdatasync(int(file.Fd())); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
