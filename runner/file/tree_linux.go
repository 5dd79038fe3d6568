package file

import (
	"encoding/json/v2"
	"errors"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// looking is a walk through a tree. Each directory is opened by its path beneath the top, no link in it followed, so that no more than a few are open
// at once, however deep it is.
type looking struct {
	*place
	Result
	top  int
	room int64
	// depth is how many levels are looked at, pattern what a file's name must match; "" is every entry.
	depth   int
	pattern string
}

// mostFollowed bounds what a tree or a search tells, whatever its limit in bytes.
const mostFollowed = 250_000

// tree lists what lies beneath a directory; a link is neither followed nor taken for one. Truncated says that there is more than there was room for.
func (p *place) tree(o Order) (Result, error) {
	e, err := p.named(p.fd, o.Path)
	if err != nil {
		return Result{}, err
	}
	top, err := unix.Openat(e.parent, e.name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return Result{}, notDirectory(e)
	}
	if err != nil {
		return Result{}, err
	}
	p.keep(top)
	l := looking{place: p, top: top, room: o.Limit - answerBytes, depth: o.Depth}
	if o.Operation == Search {
		l.depth, l.pattern = -1, o.Pattern
		if _, err := path.Match(o.Pattern, ""); err != nil || o.Pattern == "" || strings.Contains(o.Pattern, "/") {
			return Result{}, &Fault{Code: BadPattern, Message: "the pattern is one of names, such as *.txt: *, ?, [a-z], and \\ before what is to be itself"}
		}
	}
	err = l.walk()
	return l.Result, err
}

func notDirectory(e *entry) error {
	fault := &Fault{Code: NotDirectory, Message: "it isn't a directory"}
	if stat, err := e.stat(); err == nil {
		fault.Kind = kind(stat.Mode)
		fault.Message = "it is a " + fault.Kind + ", not a directory"
	}
	return fault
}

// level is a directory that is still to be looked at.
type level struct {
	path  string
	depth int
}

// walk looks at the directories one after the other, in the order of a tree that is written down.
func (l *looking) walk() error {
	for left := []level{{"", 1}}; len(left) > 0 && !l.Truncated; {
		at := left[len(left)-1]
		left = left[:len(left)-1]
		if l.depth >= 0 && at.depth > l.depth {
			continue
		}
		fd, err := l.open(at.path)
		if err != nil {
			if at.path == "" {
				return err
			}
			continue // gone since, or closed to who looks: its own entry is told
		}
		below, err := l.look(fd, at)
		unix.Close(fd)
		if err != nil {
			return err
		}
		left = append(left, below...)
	}
	return nil
}

// open opens a directory beneath the top for reading.
func (l *looking) open(path string) (int, error) {
	if path == "" {
		return unix.Openat(l.top, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	}
	if haveOpenat2() {
		how := unix.OpenHow{
			Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
			Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_SYMLINKS,
		}
		fd, err := openat2(l.top, path, &how)
		for tries := 0; errors.Is(err, unix.EAGAIN) && tries < mostTries; tries++ {
			fd, err = openat2(l.top, path, &how)
		}
		return fd, err
	}
	beneath := place{fd: l.top, follow: true}
	at, err := beneath.walk(strings.Split(strings.TrimSuffix(path, "/"), "/"))
	if err != nil {
		return -1, err
	}
	defer closeUnless(at, l.top)
	return unix.Openat(at, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

// look tells of a directory's entries, and gives its directories, the first of them last.
func (l *looking) look(fd int, at level) ([]level, error) {
	names, more, err := readSome(fd, mostFollowed)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var below []level
	for _, name := range names {
		var stat unix.Stat_t
		if unix.Fstatat(fd, name, &stat, unix.AT_SYMLINK_NOFOLLOW) != nil {
			continue // gone since
		}
		found := kind(stat.Mode)
		if found == KindDirectory {
			below = append(below, level{at.path + name + "/", at.depth + 1})
		}
		if l.pattern != "" {
			if matches, _ := path.Match(l.pattern, name); !matches || found != KindFile { // it has been looked at
				continue
			}
		}
		if info, err := l.informOf(fd, name); err == nil && !l.add(info, at.path+name) {
			return nil, nil
		}
	}
	l.Truncated = l.Truncated || more
	slices.Reverse(below)
	return below, nil
}

// add tells of one, if there is room.
func (l *looking) add(info Found, path string) bool {
	if info.Name = path; !utf8.ValidString(path) {
		info.Name, info.NameBase64 = "", []byte(path)
	}
	text, err := json.Marshal(info)
	if l.room -= int64(len(text)) + 1; err != nil || l.room < 0 || len(l.Found) == mostFollowed {
		l.Truncated = true
		return false
	}
	l.Found = append(l.Found, info)
	return true
}
