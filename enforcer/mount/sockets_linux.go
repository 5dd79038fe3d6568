package mount

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// To connect to a socket that has a name takes permission to write to its inode and no more: no network namespace is in the way, a read-only mount
// isn't (sb_permission asks for files, directories and links only), and Landlock knows no such right yet. So what has sockets isn't shown.

// engines are where the daemons that run a machine listen: who reaches them has the machine. Sockets there come and go, so that not finding one
// says nothing.
var engines = []string{
	"/run/buildkit", "/run/containerd", "/run/crio", "/run/dbus", "/run/docker", "/run/docker.sock", "/run/incus", "/run/libvirt", "/run/lxd", "/run/podman",
	"/run/sandboxd", "/run/snapd.socket", "/run/systemd", "/run/user", "/var/lib/incus", "/var/lib/lxd", "/var/snap",
}

// withoutSockets refuses a tree that has a socket, or is where an engine's is, may come, or lies in.
func withoutSockets(top string) error {
	for _, engine := range engines {
		if beneath(top, engine) || beneath(engine, top) {
			return fmt.Errorf("%s is a place of sockets, and read-only doesn't keep a program from connecting to one; show directories that have none", engine)
		}
	}
	return filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist): // whoever has our uid or less can't look there either; or it has just gone
			return nil
		case err != nil:
			return err
		case entry.Type()&fs.ModeSocket != 0:
			return fmt.Errorf("%s is a socket, and read-only doesn't keep a program from connecting to it; show directories that have none", path)
		}
		return nil
	})
}
