package execd

import (
	"encoding/json/v2"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/policy/engine"
)

// seal is a directory that holds what was bound: the files in "bundle", and who bound them in "binding.json". It comes to be by a rename that fails where
// there is one, so that there is one binding whatever crashes when.
type seal struct{ parent, dir string }

func sealIn(stateDir string) seal {
	return seal{stateDir, filepath.Join(stateDir, "bound-policy")}
}

// exists says that something was bound here.
func (s seal) exists() bool {
	_, err := os.Lstat(s.dir)
	return !errors.Is(err, fs.ErrNotExist)
}

// read gives what was bound, if it is still that; fs.ErrNotExist: nothing was.
func (s seal) read() (Binding, engine.Bundle, error) {
	var binding Binding
	if !s.exists() {
		return binding, engine.Bundle{}, fs.ErrNotExist
	}
	broken := func(err error) (Binding, engine.Bundle, error) {
		// %v: what is missing inside of a seal isn't a seal that is missing.
		return binding, engine.Bundle{}, fmt.Errorf("%s: what was bound isn't there as it was: %v; a pod with a new state directory starts anew", s.dir, err)
	}
	if err := s.ours(); err != nil {
		return broken(err)
	}
	data, err := os.ReadFile(filepath.Join(s.dir, "binding.json"))
	if err != nil {
		return broken(err)
	}
	if err := json.Unmarshal(data, &binding, json.RejectUnknownMembers(true)); err != nil {
		return broken(err)
	}
	files := filepath.Join(s.dir, "bundle")
	bundle, err := engine.ReadBundle(os.DirFS(files))
	if err != nil {
		return broken(err)
	}
	if bundle.Revision != binding.Revision {
		return broken(fmt.Errorf("its files are %s, bound was %s", bundle.Revision, binding.Revision))
	}
	return binding, bundle, nil
}

// ours says of a seal that nobody but us can have written it: what is above it is the state directory, in which all of ours is.
func (s seal) ours() error {
	info, err := os.Lstat(s.dir)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || int(stat.Uid) != os.Geteuid() || info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s: not a directory that is ours alone", info.Mode())
	}
	return nil
}

// sweep takes away what a daemon that died has left of a binding that came to nothing.
func (s seal) sweep() error {
	left, err := filepath.Glob(s.dir + "-*")
	for _, dir := range left {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

// write seals; fs.ErrExist: there is one.
func (s seal) write(binding Binding, bundle engine.Bundle) (err error) {
	made, err := os.MkdirTemp(s.parent, "bound-policy-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(made))
		}
	}()
	folders := map[string]bool{".": true, "bundle": true}
	if err := os.Mkdir(filepath.Join(made, "bundle"), 0o700); err != nil {
		return err
	}
	for name, content := range bundle.Files {
		folder := path.Join("bundle", path.Dir(name))
		if err := os.MkdirAll(filepath.Join(made, folder), 0o700); err != nil {
			return err
		}
		for ; folder != "."; folder = path.Dir(folder) {
			folders[folder] = true
		}
		if err := writeDurably(filepath.Join(made, "bundle", name), content); err != nil {
			return err
		}
	}
	data, err := json.Marshal(binding)
	if err != nil {
		return err
	}
	if err := writeDurably(filepath.Join(made, "binding.json"), data); err != nil {
		return err
	}
	for folder := range folders {
		if err := syncDirectory(filepath.Join(made, folder)); err != nil {
			return err
		}
	}
	if err := unix.Renameat2(unix.AT_FDCWD, made, unix.AT_FDCWD, s.dir, unix.RENAME_NOREPLACE); err != nil {
		return &os.LinkError{Op: "renameat2", Old: made, New: s.dir, Err: err}
	}
	return syncDirectory(s.parent)
}

// remove takes a seal away that was never in force.
func (s seal) remove() error { return errors.Join(os.RemoveAll(s.dir), syncDirectory(s.parent)) }

func writeDurably(name string, content []byte) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Sync(), file.Close())
}

func syncDirectory(name string) error {
	directory, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(directory.Sync(), directory.Close())
}
