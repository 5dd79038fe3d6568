package image

import (
	"encoding/json/v2"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// What is in the directory of a store, and of an image.
const (
	namesFile = "names.json"
	lockFile  = "lock"
	metaFile  = "image.json"
	rootDir   = "root"
	upperDir  = "upper"
	newPrefix = "new-"
)

// Store is the images of one state directory. Several processes may have it open: what is whole has its name, by a rename, and a lock that lasts as
// long as the process says who uses what.
type Store struct {
	dir    string
	limits Limits

	mu sync.Mutex // guards used
	// used are the images that sandboxes of this process are made of, each with its lock and how many there are.
	used map[string]*use
}

type use struct {
	lock  *os.File
	count int
}

// Open opens the store in a directory, makes it if it isn't there, and takes away what an import that was broken off has left. A directory that others
// may write to is refused: what they put there would be the root of a sandbox.
func Open(dir string, limits Limits) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("images: %w", err)
	}
	var stat unix.Stat_t
	if err := unix.Lstat(dir, &stat); err != nil {
		return nil, fmt.Errorf("images: %w", &os.PathError{Op: "lstat", Path: dir, Err: err})
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR || int(stat.Uid) != os.Geteuid() || stat.Mode&0o022 != 0 {
		return nil, fmt.Errorf("images: %s: mode %o, owner %d: want a directory of ours, %d, that nobody else may write to", dir, stat.Mode&0o7777, stat.Uid, os.Geteuid())
	}
	// The kernel is told where an image is, and follows no link on the way.
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, fmt.Errorf("images: %w", err)
	}
	s := &Store{dir: dir, limits: limits, used: map[string]*use{}}
	if err := s.sweep(); err != nil {
		return nil, fmt.Errorf("images: %w", err)
	}
	return s, nil
}

// sweep takes away what is only half there: unpacked and never renamed, or renamed and never taken away. What another process works on is locked.
func (s *Store) sweep() error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		path := filepath.Join(s.dir, entry.Name())
		_, named := digestOfFolder(entry.Name())
		switch {
		case strings.HasPrefix(entry.Name(), newPrefix):
		case named && entry.IsDir() && !isWhole(path):
		default:
			continue
		}
		lock, err := lock(path, unix.LOCK_EX)
		if errors.Is(err, unix.EWOULDBLOCK) {
			continue
		}
		if err == nil {
			defer lock.Close()
		}
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}

// isWhole says whether a directory has all that an image has.
func isWhole(dir string) bool {
	for _, name := range []string{metaFile, rootDir, upperDir, lockFile} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

// lock takes the lock of an image or of one that is being unpacked, or says EWOULDBLOCK.
func lock(dir string, how int) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), how|unix.LOCK_NB); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// names reads which name means which digest. exclusive keeps others from changing it until release is called.
func (s *Store) names(exclusive bool) (names map[string]string, release func(), err error) {
	release = func() {}
	if exclusive {
		file, err := os.OpenFile(filepath.Join(s.dir, lockFile), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, release, err
		}
		release = func() { file.Close() }
		if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
			return nil, release, err
		}
	}
	data, err := os.ReadFile(filepath.Join(s.dir, namesFile))
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]string{}, release, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &names)
	}
	if err != nil {
		return nil, release, fmt.Errorf("%s: %w", namesFile, err)
	}
	return names, release, nil
}

// setNames writes them, whole or not at all.
func (s *Store) setNames(names map[string]string) error {
	data, err := json.Marshal(names, json.Deterministic(true))
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(s.dir, namesFile), data)
}

// writeFile puts a file in place of another, durably.
func writeFile(path string, data []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".write-*")
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	file, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

// List has all images, by name and digest.
func (s *Store) List() ([]Image, error) {
	names, _, err := s.names(false)
	if err != nil {
		return nil, fmt.Errorf("images: %w", err)
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("images: %w", err)
	}
	var all []Image
	for _, entry := range entries {
		digest, named := digestOfFolder(entry.Name())
		if !named {
			continue
		}
		found, err := s.read(digest, names)
		if errors.Is(err, ErrUnknown) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, found)
	}
	return all, nil
}

// Find is the image that a name means, or that has a digest. The error wraps [ErrUnknown].
func (s *Store) Find(name string) (Image, error) {
	names, _, err := s.names(false)
	if err != nil {
		return Image{}, fmt.Errorf("images: %w", err)
	}
	digest, known := names[name]
	if !known && checkDigest(name) == nil {
		digest, known = name, true
	}
	if !known {
		return Image{}, fmt.Errorf("image %q: %w", name, ErrUnknown)
	}
	return s.read(digest, names)
}

// read reads what is known of an image.
func (s *Store) read(digest string, names map[string]string) (Image, error) {
	found := Image{Directory: filepath.Join(s.dir, folderOf(digest))}
	data, err := os.ReadFile(filepath.Join(found.Directory, metaFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Image{}, fmt.Errorf("image %s: %w", digest, ErrUnknown)
	}
	if err == nil {
		err = json.Unmarshal(data, &found)
	}
	if err == nil && found.Digest != digest {
		err = fmt.Errorf("it says that it is %q", found.Digest)
	}
	if err != nil {
		return Image{}, fmt.Errorf("image %s: %w", digest, err)
	}
	for name, means := range names {
		if means == digest {
			found.Names = append(found.Names, name)
		}
	}
	slices.Sort(found.Names)
	return found, nil
}

// Use keeps an image from being removed until release is called, once for each time.
func (s *Store) Use(digest string) (release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used[digest] == nil {
		dir := filepath.Join(s.dir, folderOf(digest))
		file, err := lock(dir, unix.LOCK_SH)
		if err != nil {
			return nil, fmt.Errorf("image %s: %w: %w", digest, ErrUnknown, err)
		}
		// Whoever removed it in between has taken the name away before the lock was ours.
		var held, here unix.Stat_t
		if err := errors.Join(unix.Fstat(int(file.Fd()), &held), unix.Stat(filepath.Join(dir, lockFile), &here)); err != nil || held.Ino != here.Ino {
			file.Close()
			return nil, fmt.Errorf("image %s: %w", digest, ErrUnknown)
		}
		s.used[digest] = &use{lock: file}
	}
	s.used[digest].count++
	return sync.OnceFunc(func() { s.unuse(digest) }), nil
}

func (s *Store) unuse(digest string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.used[digest]
	if one.count--; one.count == 0 {
		one.lock.Close() // and with it the lock
		delete(s.used, digest)
	}
}

// Remove takes a name away, and the image with it when no other name means it; a digest takes the image and all of its names. An image that sandboxes
// are made of stays, with its names: [ErrInUse].
func (s *Store) Remove(name string) (Image, error) {
	names, release, err := s.names(true)
	defer release()
	if err != nil {
		return Image{}, fmt.Errorf("images: %w", err)
	}
	digest, known := names[name]
	if !known {
		digest = name
	}
	if checkDigest(digest) != nil {
		return Image{}, fmt.Errorf("image %q: %w", name, ErrUnknown)
	}
	found, err := s.read(digest, names)
	if err != nil {
		return Image{}, err
	}
	if known && len(found.Names) > 1 {
		delete(names, name)
		return found, s.setNames(names)
	}
	held, err := lock(found.Directory, unix.LOCK_EX)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return found, fmt.Errorf("image %q: %w", name, ErrInUse)
	}
	if err != nil {
		return found, fmt.Errorf("image %q: %w", name, err)
	}
	defer held.Close()
	for _, other := range found.Names {
		delete(names, other)
	}
	if err := s.setNames(names); err != nil {
		return found, err
	}
	// From here on nobody finds it; what is left when we end before it is gone, the next sweep takes.
	gone := filepath.Join(s.dir, newPrefix+"gone-"+filepath.Base(found.Directory))
	if err := os.Rename(found.Directory, gone); err != nil {
		return found, err
	}
	return found, os.RemoveAll(gone)
}

// Verify hashes the files of an image and says whether they are what was unpacked.
func (s *Store) Verify(i Image) error {
	tree, err := TreeDigest(filepath.Join(i.Directory, rootDir))
	if err == nil && tree != i.Tree {
		err = fmt.Errorf("its files have the digest %s, and had %s when they were unpacked; remove it and import it again", tree, i.Tree)
	}
	if err != nil {
		return fmt.Errorf("image %s: %w", i.Digest, err)
	}
	return nil
}
