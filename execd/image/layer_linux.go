package image

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The names of a layer that mean what isn't there (OCI image-spec 1.1, layer.md): ".wh.NAME" takes NAME of the layers below away, ".wh..wh..opq" all that
// they have in its directory.
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

// Dropped counts what layers have and an image doesn't get.
type Dropped struct {
	// Devices are device files, FIFOs and what else is no file, directory or link.
	Devices int `json:"devices,omitzero"`
	// Setuid are files that lost their setuid or setgid bit, Attributes those that lost extended attributes, file capabilities among them.
	Setuid     int `json:"setuid,omitzero"`
	Attributes int `json:"attributes,omitzero"`
}

// unpacking is one image on its way to a root.
type unpacking struct {
	// ctx ends an import that nobody waits for any more.
	ctx     context.Context
	root    *root
	used    spent
	dropped Dropped
	// stream is how many bytes of layers may still be read.
	stream int64
	// files are the bytes of the image's regular files as they were written.
	files int64
	// plain says that all is root's, and that no name means what isn't there.
	plain bool
	// made has the inodes that this layer has made: its whiteouts mean those below only.
	made map[uint64]bool
	// later are directories whose mode and time are set at the end: a mode may close one to ourselves, and each file that comes changes the time.
	later map[string]dirMeta
}

type dirMeta struct {
	mode uint32
	time time.Time
}

func newUnpacking(r *root, limits Limits) *unpacking {
	return &unpacking{ctx: context.Background(), root: r, used: spent{limits: limits}, stream: limits.Bytes + int64(limits.Entries)*2048, later: map[string]dirMeta{}}
}

// layer applies one layer, a tar without compression.
func (u *unpacking) layer(from io.Reader) error {
	u.made = map[uint64]bool{}
	reader := tar.NewReader(from)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) { // names are ours to judge
			return err
		}
		if err := errors.Join(u.ctx.Err(), u.used.entry()); err != nil {
			return err
		}
		if err := u.apply(header, reader); err != nil {
			return fmt.Errorf("%q: %w", cut(header.Name), err)
		}
	}
}

// cut is a name in an error.
func cut(name string) string { return name[:min(len(name), 256)] }

// apply makes one entry.
func (u *unpacking) apply(h *tar.Header, content io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil // says nothing of a file
	}
	name, err := clean(h.Name)
	if err != nil {
		return err
	}
	base := path.Base(name)
	switch {
	case u.plain:
	case base == opaque:
		return u.opaque(path.Dir(name))
	case strings.HasPrefix(base, whiteout):
		return u.whiteout(path.Dir(name), strings.TrimPrefix(base, whiteout))
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeLink, tar.TypeSymlink, tar.TypeDir:
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		u.dropped.Devices++
		return u.gone(name)
	default:
		return fmt.Errorf("an entry of the kind %q, which no layer has", h.Typeflag)
	}
	if hasAttributes(h) {
		u.dropped.Attributes++
	}
	if name == "." {
		if h.Typeflag != tar.TypeDir {
			return errors.New("the root of an image is a directory")
		}
		return nil // ours: it is everybody's to read
	}
	dir, base, err := u.root.parent(name)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	if h.Typeflag == tar.TypeDir {
		return u.directory(dir, base, name, h)
	}
	return u.file(dir, base, h, content)
}

func hasAttributes(h *tar.Header) bool {
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "SCHILY.xattr.") || strings.HasPrefix(key, "LIBARCHIVE.xattr.") || strings.HasPrefix(key, "SCHILY.acl.") {
			return true
		}
	}
	return false
}

// gone takes away what is under a name that this layer has something else for, which isn't made.
func (u *unpacking) gone(name string) error {
	if name == "." {
		return errors.New("the root of an image is a directory")
	}
	dir, base, err := u.root.parent(name)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	return u.replace(dir, base)
}

// directory makes a directory, or keeps one that is there with what is in it.
func (u *unpacking) directory(dir int, base, name string, h *tar.Header) error {
	var stat unix.Stat_t
	err := unix.Fstatat(dir, base, &stat, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil && stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		if err := u.replace(dir, base); err != nil {
			return err
		}
		err = unix.ENOENT
	}
	if errors.Is(err, unix.ENOENT) {
		if err := unix.Mkdirat(dir, base, 0o700); err != nil {
			return fmt.Errorf("mkdirat: %w", err)
		}
	} else if err != nil {
		return fmt.Errorf("fstatat: %w", err)
	}
	if err := u.own(dir, base, h); err != nil {
		return err
	}
	u.later[name] = dirMeta{mode: u.mode(h) | 0o700, time: h.ModTime}
	return u.note(dir, base)
}

// file makes what isn't a directory, in place of whatever is there.
func (u *unpacking) file(dir int, base string, h *tar.Header, content io.Reader) error {
	if h.Typeflag == tar.TypeReg {
		if err := u.used.content(h.Size); err != nil { // before a byte of it is written
			return err
		}
	}
	if h.Typeflag == tar.TypeLink {
		return u.hardLink(dir, base, h.Linkname)
	}
	if err := u.replace(dir, base); err != nil {
		return err
	}
	if h.Typeflag == tar.TypeSymlink {
		// Where it leads is for who follows it: we do within the root only, and a sandbox has no other.
		if h.Linkname == "" || len(h.Linkname) > longestName || strings.ContainsAny(h.Linkname, "\x00") {
			return fmt.Errorf("a link to a name of %d bytes, or with a NUL byte", len(h.Linkname))
		}
		if err := unix.Symlinkat(h.Linkname, dir, base); err != nil {
			return fmt.Errorf("symlinkat: %w", err)
		}
		return errors.Join(u.own(dir, base, h), u.note(dir, base))
	}
	if err := write(dir, base, content, h.Size); err != nil {
		return err
	}
	u.files += h.Size
	if err := u.own(dir, base, h); err != nil {
		return err
	}
	// After the owner, since a change of that may take bits away. There is no AT_SYMLINK_NOFOLLOW here, and no need: it was made exclusively, by us.
	if err := unix.Fchmodat(dir, base, u.mode(h)|0o400, 0); err != nil {
		return fmt.Errorf("fchmodat: %w", err)
	}
	if err := setTime(dir, base, h.ModTime); err != nil {
		return err
	}
	return u.note(dir, base)
}

// hardLink gives a file that this image has a second name. A link may not be linked to: what it leads to might be meant.
func (u *unpacking) hardLink(dir int, base, target string) error {
	name, err := clean(target)
	if err != nil {
		return fmt.Errorf("a hard link to %q: %w", cut(target), err)
	}
	from, last, err := u.root.existing(name)
	if err != nil {
		return fmt.Errorf("a hard link to %q: %w", cut(target), err)
	}
	defer unix.Close(from)
	var stat, here unix.Stat_t
	if err := unix.Fstatat(from, last, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("a hard link to %q: %w", cut(target), err)
	}
	if kind := stat.Mode & unix.S_IFMT; kind != unix.S_IFREG && kind != unix.S_IFLNK {
		return fmt.Errorf("a hard link to %q, which is no file", cut(target))
	}
	if err := unix.Fstatat(dir, base, &here, unix.AT_SYMLINK_NOFOLLOW); err == nil && here.Ino == stat.Ino {
		return nil // to itself: it would be taken away first
	}
	if err := u.replace(dir, base); err != nil {
		return err
	}
	if err := unix.Linkat(from, last, dir, base, 0); err != nil {
		return fmt.Errorf("a hard link to %q: %w", cut(target), err)
	}
	return u.note(dir, base)
}

// replace takes away what is under a name.
func (u *unpacking) replace(dir int, base string) error {
	u.forget(dir, base)
	return remove(dir, base)
}

// note remembers that this layer made what is under a name, forget that it is about to go: its inode will be another's.
func (u *unpacking) note(dir int, base string) error {
	var stat unix.Stat_t
	if err := unix.Fstatat(dir, base, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("fstatat: %w", err)
	}
	u.made[stat.Ino] = true
	return nil
}

func (u *unpacking) forget(dir int, base string) {
	var stat unix.Stat_t
	if unix.Fstatat(dir, base, &stat, unix.AT_SYMLINK_NOFOLLOW) == nil && (stat.Mode&unix.S_IFMT == unix.S_IFDIR || stat.Nlink == 1) {
		delete(u.made, stat.Ino)
	}
}

// whiteout takes a name of the layers below away. What this layer itself has there stays.
func (u *unpacking) whiteout(dir, name string) error {
	if name == "" || name == "." || name == ".." {
		return errors.New("a whiteout of no name")
	}
	if strings.HasPrefix(name, whiteout) {
		return errors.New("a whiteout of a kind that no standard has") // .wh..wh.plnk and .wh..wh.aufs are aufs's own
	}
	fd, err := u.root.open(path.Join(dir, ".")+"/.", unix.O_PATH|unix.O_DIRECTORY)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return u.clear(fd, name)
}

// opaque takes all away that the layers below have in a directory.
func (u *unpacking) opaque(dir string) error {
	fd, err := u.root.open(path.Join(dir, ".")+"/.", unix.O_RDONLY|unix.O_DIRECTORY)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	names, err := list(fd, ".")
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := u.clear(fd, name); err != nil {
			return err
		}
	}
	return nil
}

// clear takes a name away unless this layer made it; of a directory that it made, what is below from others.
func (u *unpacking) clear(dir int, name string) error {
	var stat unix.Stat_t
	if err := unix.Fstatat(dir, name, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		if errors.Is(err, unix.ENOENT) {
			return nil
		}
		return fmt.Errorf("fstatat: %w", err)
	}
	if !u.made[stat.Ino] {
		if stat.Mode&unix.S_IFMT != unix.S_IFDIR || !u.has(dir, name) {
			return remove(dir, name)
		}
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil
	}
	names, err := list(dir, name)
	if err != nil {
		return err
	}
	below, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("openat: %w", err)
	}
	defer unix.Close(below)
	for _, child := range names {
		if err := u.clear(below, child); err != nil {
			return err
		}
	}
	return nil
}

// has says whether this layer made anything below a directory.
func (u *unpacking) has(dir int, name string) bool {
	names, err := list(dir, name)
	if err != nil {
		return false
	}
	below, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(below)
	return slices.ContainsFunc(names, func(child string) bool {
		var stat unix.Stat_t
		if unix.Fstatat(below, child, &stat, unix.AT_SYMLINK_NOFOLLOW) != nil {
			return false
		}
		return u.made[stat.Ino] || stat.Mode&unix.S_IFMT == unix.S_IFDIR && u.has(below, child)
	})
}

// mode is the permission bits that a file gets: setuid and setgid would be a gift to whoever meets the file on the host, and mean nothing in a sandbox.
func (u *unpacking) mode(h *tar.Header) uint32 {
	if h.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 {
		u.dropped.Setuid++
	}
	return uint32(h.Mode) & (0o777 | unix.S_ISVTX)
}

// own gives a file away as its layer says, where we can.
func (u *unpacking) own(dir int, base string, h *tar.Header) error {
	if !u.root.owners {
		return nil
	}
	const most = 1<<31 - 1
	if u.plain {
		h.Uid, h.Gid = 0, 0
	}
	if h.Uid < 0 || h.Gid < 0 || h.Uid > most || h.Gid > most {
		return fmt.Errorf("the owner %d:%d", h.Uid, h.Gid)
	}
	if err := unix.Fchownat(dir, base, h.Uid, h.Gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("fchownat: %w", err)
	}
	return nil
}

func setTime(dir int, base string, at time.Time) error {
	stamp, err := unix.TimeToTimespec(at)
	if err != nil {
		return fmt.Errorf("the time %v: %w", at, err)
	}
	if err := unix.UtimesNanoAt(dir, base, []unix.Timespec{stamp, stamp}, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("utimensat: %w", err)
	}
	return nil
}

// finish sets modes and times of the directories that are left, the deepest first.
func (u *unpacking) finish() error {
	for _, name := range slices.SortedFunc(maps.Keys(u.later), func(a, b string) int { return strings.Compare(b, a) }) {
		meta := u.later[name]
		dir, base, err := u.root.existing(name)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
			continue // a later layer took it away
		}
		if err != nil {
			return fmt.Errorf("%q: %w", cut(name), err)
		}
		err = finishOne(dir, base, meta)
		unix.Close(dir)
		if err != nil {
			return fmt.Errorf("%q: %w", cut(name), err)
		}
	}
	return nil
}

func finishOne(dir int, base string, meta dirMeta) error {
	var stat unix.Stat_t
	if err := unix.Fstatat(dir, base, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil || stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil // something else has its name
	}
	if err := unix.Fchmodat(dir, base, meta.mode, 0); err != nil {
		return fmt.Errorf("fchmodat: %w", err)
	}
	return setTime(dir, base, meta.time)
}
