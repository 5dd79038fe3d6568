package image

import (
	"context"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Order is one import.
type Order struct {
	// Name is what the image will be called; it may have meant another until now. Path is a directory or a tar, absolute.
	Name, Path string
	// Tag chooses one of several images in it; empty where there is one.
	Tag string
	// Source is what is written down of where it came from; empty: Path.
	Source string
}

// Import unpacks an image, unless it is here already, and gives it a name. Until it is whole and checked it has no place, so that one that is broken off,
// or isn't what it says, is never seen. The end of ctx breaks it off.
func (s *Store) Import(ctx context.Context, o Order) (Image, error) {
	return s.bring(ctx, o, func(dir string) (*found, error) { return s.find(o, dir) })
}

// bring imports what find has found.
func (s *Store) bring(ctx context.Context, o Order, find func(dir string) (*found, error)) (_ Image, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("import of %q: %w", o.Path, err)
		}
	}()
	dir, held, err := s.begin()
	if err != nil {
		return Image{}, err
	}
	// The lock is held until what is left of it is gone, or until it has its place.
	defer func() { err = errors.Join(err, os.RemoveAll(dir), held.Close()) }()
	from, err := find(dir)
	if err != nil {
		return Image{}, err
	}
	defer from.close()
	if from.image != nil {
		if here, err := s.Find(from.image.digest); err == nil {
			return here, s.name(o.Name, here.Digest)
		}
	}
	made, err := s.unpack(ctx, from, dir)
	if err != nil {
		return Image{}, err
	}
	made.Source, made.Imported = o.Source, time.Now().UTC().Truncate(time.Second)
	if made.Source == "" {
		made.Source = o.Path
	}
	return s.settle(o.Name, made, dir, held)
}

// begin makes the directory that an image is unpacked into, and locks it.
func (s *Store) begin() (dir string, held *os.File, err error) {
	if dir, err = os.MkdirTemp(s.dir, newPrefix); err != nil {
		return "", nil, err
	}
	if err = os.WriteFile(filepath.Join(dir, lockFile), nil, 0o600); err == nil {
		held, err = lock(dir, unix.LOCK_EX)
	}
	// What others see of an image, in a sandbox, is its root; nobody else gets as far as this.
	for _, name := range []string{rootDir, upperDir} {
		if err == nil {
			err = os.Mkdir(filepath.Join(dir, name), 0o755)
		}
	}
	if err == nil {
		err = os.Chmod(filepath.Join(dir, rootDir), 0o755) // whatever our umask
	}
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return dir, held, nil
}

// found is what is at a path: an image with layers, else a plain root, as a directory or as a tar.
type found struct {
	image  *loaded
	folder string
	tar    *os.File
	closer []io.Closer
}

func (f *found) close() {
	for _, c := range f.closer {
		c.Close()
	}
}

// find says what is at a path by what is in it.
func (s *Store) find(o Order, dir string) (*found, error) {
	stat, err := os.Stat(o.Path)
	if err != nil {
		return nil, err
	}
	if stat.IsDir() {
		return findFolder(o)
	}
	if !stat.Mode().IsRegular() {
		return nil, errors.New("neither a directory nor a file")
	}
	file, err := s.plainFile(o.Path, dir)
	if err != nil {
		return nil, err
	}
	f := &found{closer: []io.Closer{file}}
	parts, err := openArchive(file)
	if err == nil {
		f.image, err = load(parts, o.Tag)
	}
	if err == nil && f.image == nil {
		f.tar = file
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

func findFolder(o Order) (*found, error) {
	root, err := os.OpenRoot(o.Path)
	if err != nil {
		return nil, err
	}
	f := &found{folder: o.Path, closer: []io.Closer{root}}
	if f.image, err = load(folder{root}, o.Tag); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

// load reads an image of either format; nil is neither, a plain root.
func load(from files, tag string) (*loaded, error) {
	switch {
	case from.has("oci-layout") && from.has("index.json"):
		return loadLayout(from, tag)
	case from.has("manifest.json"):
		return loadSaved(from, tag)
	case tag != "":
		return nil, errors.New("it is a plain root, which has no tags")
	}
	return nil, nil
}

// plainFile opens a tar to read anywhere in it: a compressed one is written out, within what an image may have.
func (s *Store) plainFile(path, dir string) (*os.File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	plain, err := decompress(file)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	defer plain.Close()
	if _, raw := plain.(uncompressed); raw {
		_, err := file.Seek(0, io.SeekStart)
		return file, err
	}
	defer file.Close()
	out, err := os.OpenFile(filepath.Join(dir, "plain.tar"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	left := s.limits.Bytes + int64(s.limits.Entries)*2048
	if _, err = io.Copy(out, &bounded{plain, &left}); err == nil {
		_, err = out.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, out.Close())
	}
	return out, os.Remove(out.Name())
}

// unpack makes the files of an image in dir and says what they are.
func (s *Store) unpack(ctx context.Context, from *found, dir string) (Image, error) {
	root, err := openRoot(filepath.Join(dir, rootDir), os.Geteuid() == 0)
	if err != nil {
		return Image{}, err
	}
	defer root.close()
	u := newUnpacking(root, s.limits)
	u.ctx = ctx
	switch {
	case from.image != nil:
		for i, layer := range from.image.layers {
			if err := layer.apply(u); err != nil {
				return Image{}, fmt.Errorf("layer %d of %d: %w", i+1, len(from.image.layers), err)
			}
		}
	case from.tar != nil:
		err = u.plainTar(from.tar)
	default:
		err = u.plainFolder(from.folder)
	}
	if err == nil {
		err = u.finish()
	}
	if err != nil {
		return Image{}, err
	}
	made := Image{Bytes: u.files, Entries: u.used.entries, Dropped: u.dropped, Owners: root.owners, Directory: dir}
	return made, s.describe(&made, from.image, root)
}

// describe fills in what an image says of itself and what was found in it.
func (s *Store) describe(made *Image, image *loaded, root *root) (err error) {
	if made.Tree, err = TreeDigest(filepath.Join(made.Directory, rootDir)); err != nil {
		return err
	}
	made.Digest = made.Tree
	if image != nil {
		made.Digest, made.Invocation = image.digest, image.config.Config
	}
	if made.Passwd, err = root.account("etc/passwd"); err != nil {
		return err
	}
	if made.Group, err = root.account("etc/group"); err != nil {
		return err
	}
	if made.UID, made.GID, err = findUser(made.Invocation.User, made.Passwd, made.Group); err != nil {
		return err
	}
	if made.Invocation.WorkingDir != "" && !filepath.IsAbs(made.Invocation.WorkingDir) {
		return fmt.Errorf("the working directory %q isn't absolute", cut(made.Invocation.WorkingDir))
	}
	made.Top, err = root.top()
	return err
}

// top are the directories right below the root, which aren't links.
func (r *root) top() ([]string, error) {
	names, err := list(r.fd, ".")
	if err != nil {
		return nil, err
	}
	var top []string
	for _, name := range names {
		var stat unix.Stat_t
		if err := unix.Fstatat(r.fd, name, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return nil, err
		}
		if stat.Mode&unix.S_IFMT == unix.S_IFDIR {
			top = append(top, name)
		}
	}
	if len(top) > mostTop {
		return nil, fmt.Errorf("%d directories right below the root, at most %d", len(top), mostTop)
	}
	slices.Sort(top)
	return top, nil
}

// settle gives an image that is whole its place, and its name.
func (s *Store) settle(name string, made Image, dir string, held *os.File) (Image, error) {
	data, err := json.Marshal(made, json.Deterministic(true))
	if err != nil {
		return Image{}, err
	}
	if err := writeFile(filepath.Join(dir, metaFile), data); err != nil {
		return Image{}, err
	}
	if err := syncTree(dir); err != nil { // before it has its name: a power cut leaves it whole or not at all
		return Image{}, err
	}
	// From its rename on others may use it: the lock is shared then, and never given back in between, when a sweep would take what it finds.
	if err := unix.Flock(int(held.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
		return Image{}, err
	}
	made.Directory = filepath.Join(s.dir, folderOf(made.Digest))
	err = os.Rename(dir, made.Directory)
	if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
		err = nil // somebody was faster, with the same
	}
	if err == nil {
		err = syncDir(s.dir)
	}
	if err == nil {
		err = s.name(name, made.Digest)
	}
	if err != nil {
		return Image{}, err
	}
	return s.Find(made.Digest)
}

// syncTree has the kernel write the file system that holds a directory.
func syncTree(dir string) error {
	file, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(os.NewSyscallError("syncfs", unix.Syncfs(int(file.Fd()))), file.Close())
}

// name has a name mean a digest.
func (s *Store) name(name, digest string) error {
	names, release, err := s.names(true)
	defer release()
	if err != nil {
		return err
	}
	if names[name] == digest {
		return nil
	}
	names[name] = digest
	return s.setNames(names)
}
