package engine

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// trust is who may have written a policy: root, and the user that this daemon runs as. Whoever can write one decides what is allowed.
type trust struct{ uid int }

// look refuses a file or directory that somebody else may write. Whose the root directory is isn't asked: he could put another program in the place of
// this one as well, and in a user namespace he may have no number. The mode of a symbolic link says nothing: what it leads to is looked at.
func (t trust) look(path string, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("%s: its owner isn't known", path)
	}
	if uid := int(stat.Uid); uid != 0 && uid != t.uid && path != "/" {
		return fmt.Errorf("%s belongs to uid %d, who may change what is allowed; want root or uid %d, which this daemon runs as: chown it", path, uid, t.uid)
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 && !t.readOnly(path) {
		return fmt.Errorf("%s has mode %04o, which lets others write it and change what is allowed: chmod go-w it, or mount it read-only", path, mode)
	}
	return nil
}

// readOnly says whether nobody can write there by this mount, whatever a mode says: the directory of a ConfigMap has mode 0777.
func (trust) readOnly(path string) bool {
	var stat syscall.Statfs_t
	const readOnly = 1 // ST_RDONLY, statfs(2)
	return syscall.Statfs(path, &stat) == nil && stat.Flags&readOnly != 0
}

// way refuses a path somebody else may put another file in: one of the directories above is theirs. In a sticky one, such as /tmp, nobody can take away what
// isn't his.
func (t trust) way(path string) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	if path, err = filepath.Abs(path); err != nil {
		return err
	}
	for path != "/" {
		path = filepath.Dir(path)
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSticky != 0 {
			continue
		}
		if err := t.look(path, info); err != nil {
			return fmt.Errorf("above it, %w", err)
		}
	}
	return nil
}

// bundle looks at all that a bundle is made of, and at what is above it.
func (t trust) bundle(dir, root string) error {
	for _, path := range []string{dir, root} {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if err := t.look(path, info); err != nil {
			return err
		}
		if err := t.way(path); err != nil {
			return err
		}
	}
	return t.folder(root, 0)
}

func (t trust) folder(folder string, depth int) error {
	if depth > deepestFolder {
		return nil // reading it says so
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if ignored(entry.Name()) {
			continue
		}
		path := filepath.Join(folder, entry.Name())
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if !info.IsDir() && !info.Mode().IsRegular() {
			continue // reading refuses it
		}
		if err := t.look(path, info); err != nil {
			return err
		}
		if entry.Type()&fs.ModeSymlink != 0 {
			if err := t.way(path); err != nil {
				return err
			}
		}
		if info.IsDir() {
			if err := t.folder(path, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}
