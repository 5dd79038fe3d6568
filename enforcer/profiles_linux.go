package enforcer

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Profiles is where Localhost seccomp profiles are.
type Profiles struct {
	// Dir holds them: regular files beneath it, with no symlink on the way. Empty: there are none.
	Dir string
}

// maxProfile is the largest profile that is read; the largest in common use has 15 KiB.
const maxProfile = 1 << 20

// read reads a profile. The kernel refuses to leave the directory, by a link or otherwise (openat2(2)).
func (p Profiles) read(name string) ([]byte, error) {
	if p.Dir == "" {
		return nil, fmt.Errorf("profile %q: this daemon has no profile directory", name)
	}
	dir, err := unix.Open(p.Dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: p.Dir, Err: err}
	}
	defer unix.Close(dir)
	// O_NONBLOCK: a FIFO in the directory must not hold the daemon up.
	fd, err := unix.Openat2(dir, name, &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		return nil, fmt.Errorf("profile %q: %w", name, err)
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return nil, fmt.Errorf("profile %q: %w", name, err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, fmt.Errorf("profile %q is not a regular file", name)
	}
	if stat.Size > maxProfile {
		return nil, fmt.Errorf("profile %q has %d bytes; at most %d", name, stat.Size, maxProfile)
	}
	data := make([]byte, stat.Size)
	for read := 0; read < len(data); {
		n, err := unix.Read(fd, data[read:])
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return nil, fmt.Errorf("profile %q: %w", name, err)
		case n == 0:
			return nil, fmt.Errorf("profile %q became shorter while it was read", name)
		default:
			read += n
		}
	}
	return data, nil
}
