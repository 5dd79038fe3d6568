package file

import (
	"encoding/json/v2"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// mostEntries bounds a list, whatever its limit in bytes.
const mostEntries = 10_000

// list is what a directory has, by the order of the names. Links are told as links. Of a directory with more than fits, it is the part that the
// kernel named first.
func (p *place) list(o Order) (Result, error) {
	parts, err := o.parts()
	if err != nil {
		return Result{}, err
	}
	at, err := p.directory(parts)
	if err != nil {
		return Result{}, err
	}
	p.keep(at)
	fd, err := unix.Openat(at, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return Result{}, err
	}
	p.keep(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return Result{}, err
	}
	info := infoOf(&stat)
	result := Result{Info: &info, Entries: []Info{}}
	names, more, err := readNames(fd)
	if err != nil {
		return result, err
	}
	result.Truncated = more
	room := o.Limit - answerBytes
	slices.Sort(names)
	for _, name := range names {
		if err := unix.Fstatat(fd, name, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			continue // gone since
		}
		entry := infoOf(&stat)
		if entry.Name = name; !utf8.ValidString(name) {
			entry.Name, entry.NameBase64 = "", []byte(name)
		}
		text, err := json.Marshal(entry)
		if err != nil {
			return result, err
		}
		if room -= int64(len(text)) + 1; room < 0 {
			result.Truncated = true
			break
		}
		result.Entries = append(result.Entries, entry)
	}
	return result, nil
}

// answerBytes is room for what stands around the entries.
const answerBytes = 1 << 10

// readNames reads at most mostEntries names, and says whether there are more.
func readNames(fd int) (names []string, more bool, err error) { return readSome(fd, mostEntries) }

func readSome(fd, most int) (names []string, more bool, err error) {
	buffer := make([]byte, pieceBytes)
	for {
		n, err := unix.Getdents(fd, buffer)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n <= 0 {
			return names, false, err
		}
		_, _, found := unix.ParseDirent(buffer[:n], -1, nil)
		for _, name := range found {
			if len(names) == most {
				return names, true, nil
			}
			names = append(names, strings.Clone(name))
		}
	}
}
