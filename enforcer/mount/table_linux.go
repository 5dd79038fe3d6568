package mount

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// row is a mount of the host, as far as a bind of it inherits: proc_pid_mountinfo(5).
type row struct {
	id, parent   int
	dev          string
	root, target string
	options      []string
}

// table is the mount table of this process by mount ID.
type table map[int]row

func readTable() (table, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	return parseTable(data)
}

func parseTable(data []byte) (table, error) {
	t := table{}
	for line := range bytes.Lines(data) {
		fields := strings.Fields(string(line))
		if len(fields) < 10 {
			return nil, fmt.Errorf("mountinfo: line %q", line)
		}
		id, err := strconv.Atoi(fields[0])
		if err != nil {
			return nil, fmt.Errorf("mountinfo: line %q: %w", line, err)
		}
		parent, err := strconv.Atoi(fields[1])
		if err != nil {
			return nil, fmt.Errorf("mountinfo: line %q: %w", line, err)
		}
		t[id] = row{id: id, parent: parent, dev: fields[2], root: unescape.Replace(fields[3]), target: unescape.Replace(fields[4]),
			options: inherited(fields[5])}
	}
	return t, nil
}

// unescape undoes the octal forms that the kernel writes for what separates fields.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// inherited are the options that a bind of a mount has too. A user namespace can't take them off.
func inherited(options string) []string {
	var kept []string
	for option := range strings.SplitSeq(options, ",") {
		if slices.Contains([]string{"ro", "nosuid", "nodev", "noexec", "nosymfollow"}, option) {
			kept = append(kept, option)
		}
	}
	slices.Sort(kept)
	return kept
}

// tree is what a recursive bind of a path brings: the path, and all that is mounted beneath it.
func (t table) tree(target string) ([]Source, error) {
	top, id, err := t.find(target, Show)
	if err != nil {
		return nil, err
	}
	sources := []Source{top}
	if !top.Dir {
		return sources, nil
	}
	for _, mounted := range t {
		if mounted.target != target && beneath(mounted.target, target) && t.descends(mounted, id) {
			sources = append(sources, Source{Path: mounted.target, Use: Sub, Dev: mounted.dev, Root: mounted.root, Dir: true,
				Options: mounted.options})
		}
	}
	slices.SortStableFunc(sources, func(a, b Source) int { return strings.Compare(a.Path, b.Path) })
	return sources, nil
}

// descends says that a mount hangs below the mount id, however deep.
func (t table) descends(m row, id int) bool {
	for range len(t) {
		if m.parent == id {
			return true
		}
		parent, ok := t[m.parent]
		if !ok {
			return false
		}
		m = parent
	}
	return false
}

func (t table) source(target, use string) (Source, error) {
	s, _, err := t.find(target, use)
	return s, err
}

// find asks the kernel which mount holds a path, by opening it: several may lie on top of each other, and only one is seen.
func (t table) find(target, use string) (Source, int, error) {
	fd, err := openNoLinks(unix.AT_FDCWD, target)
	if err != nil {
		return Source{}, 0, err
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return Source{}, 0, fmt.Errorf("%s: %w", target, err)
	}
	id, err := mountID(fd)
	if err != nil {
		return Source{}, 0, fmt.Errorf("%s: %w", target, err)
	}
	holder, ok := t[id]
	if !ok || !beneath(target, holder.target) {
		return Source{}, 0, fmt.Errorf("%s: its mount %d isn't in mountinfo", target, id)
	}
	root := path.Join(holder.root, strings.TrimPrefix(target, holder.target))
	return Source{Path: target, Use: use, Dev: holder.dev, Root: root, Dir: stat.Mode&unix.S_IFMT == unix.S_IFDIR, Options: holder.options}, id, nil
}

// openNoLinks opens a path that has no symlink in it.
func openNoLinks(dir int, target string) (int, error) {
	fd, err := unix.Openat2(dir, target, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		return -1, &os.PathError{Op: "openat2", Path: target, Err: err}
	}
	return fd, nil
}

// mountID is the ID of the mount that an open descriptor was reached through.
func mountID(fd int) (int, error) {
	data, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(fd))
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(data) {
		if value, ok := bytes.CutPrefix(line, []byte("mnt_id:")); ok {
			return strconv.Atoi(string(bytes.TrimSpace(value)))
		}
	}
	return 0, fmt.Errorf("fdinfo has no mnt_id")
}
