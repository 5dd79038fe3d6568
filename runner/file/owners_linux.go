package file

import (
	"errors"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// owners are the names of users and groups, as the sandbox's own files have them. (os/user would make the launcher larger.)
type owners struct {
	users, groups map[int]string
}

// mostNames bounds what is read of such a file: a program of the sandbox may have written it.
const mostNames = 1 << 20

// The files of the names.
var passwdFile, groupFile = "/etc/passwd", "/etc/group"

// readOwners reads NAME:…:ID:… lines. Of two names with one number the first counts, as in getpwuid(3). A file that can't be read has no names.
func readOwners(path string) map[int]string {
	names := map[int]string{}
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return names
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return names
	}
	text, _ := io.ReadAll(io.LimitReader(file, mostNames)) // what came is what there is
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) < 3 || fields[0] == "" {
			continue
		}
		id, err := strconv.ParseUint(fields[2], 10, 31)
		if err != nil {
			continue
		}
		if _, taken := names[int(id)]; !taken {
			names[int(id)] = strings.ToValidUTF8(fields[0], "\uFFFD")
		}
	}
	return names
}

func (o *owners) load() {
	if o.users == nil {
		o.users, o.groups = readOwners(passwdFile), readOwners(groupFile)
	}
}

func nameOf(id uint32, names map[int]string) string {
	if name := names[int(id)]; name != "" {
		return name
	}
	return strconv.FormatUint(uint64(id), 10)
}

// ids are the numbers of an order's owner and group, -1 of one that isn't given.
func (p *place) ids(o Order) (uid, gid int, err error) {
	if o.Owner == "" && o.Group == "" {
		return -1, -1, nil
	}
	p.owners.load()
	uid, wrong := idOf(o.Owner, "user", p.owners.users)
	gid, more := idOf(o.Group, "group", p.owners.groups)
	return uid, gid, errors.Join(wrong, more)
}

func idOf(name, what string, names map[int]string) (int, error) {
	if name == "" {
		return -1, nil
	}
	found := -1
	for id, known := range names {
		if known == name && (found < 0 || id < found) {
			found = id
		}
	}
	if found >= 0 {
		return found, nil
	}
	if id, err := strconv.ParseUint(name, 10, 31); err == nil {
		return int(id), nil
	}
	return -1, &Fault{Code: BadOwner, Message: "the sandbox has no " + what + " " + strconv.Quote(name[:min(len(name), 100)])}
}
