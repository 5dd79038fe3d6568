package image

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// account reads one of the files that say who is who in an image. One that isn't there, or isn't a file, is empty: nobody is known by name then.
func (r *root) account(name string) (string, error) {
	fd, err := r.open(name, unix.O_RDONLY|unix.O_NONBLOCK)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	file := os.NewFile(uintptr(fd), name)
	defer file.Close()
	if stat, err := file.Stat(); err != nil || !stat.Mode().IsRegular() {
		return "", err
	}
	data, err := io.ReadAll(io.LimitReader(file, mostAccounts+1))
	if err != nil {
		return "", err
	}
	if len(data) > mostAccounts {
		return "", fmt.Errorf("/%s: more than %d bytes", name, mostAccounts)
	}
	// It becomes a file of each sandbox by way of JSON.
	return strings.ToValidUTF8(strings.ReplaceAll(string(data), "\x00", ""), "?"), nil
}

// findUser makes ids of what an image says of its user: "1000", "1000:1000", "app", "app:staff". nil is nobody said, and root: nothing runs as root here.
func findUser(said, passwd, group string) (uid, gid *int64, err error) {
	user, named, hasGroup := strings.Cut(said, ":")
	if user == "" || user == "root" || user == "0" {
		return nil, nil, nil
	}
	id, primary, known := lookUp(passwd, user)
	if !known {
		if id, err = numeric(user); err != nil {
			return nil, nil, fmt.Errorf("the user %q: neither a number nor in the image's /etc/passwd", cut(user))
		}
		if _, ofID, known := lookUp(passwd, user); known {
			primary = ofID
		}
	}
	if hasGroup {
		if primary, _, known = lookUp(group, named); !known {
			if primary, err = numeric(named); err != nil {
				return nil, nil, fmt.Errorf("the group %q: neither a number nor in the image's /etc/group", cut(named))
			}
		}
	}
	if id == 0 {
		return nil, nil, nil
	}
	uid = &id
	if primary > 0 {
		gid = &primary
	}
	return uid, gid, nil
}

func numeric(text string) (int64, error) {
	id, err := strconv.ParseInt(text, 10, 32)
	if err == nil && id < 0 {
		err = strconv.ErrRange
	}
	return id, err
}

// lookUp finds the line of a name, or of an id, and gives its id and the field after it, where that is a number.
func lookUp(file, name string) (id, next int64, known bool) {
	for line := range strings.Lines(file) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) < 3 || fields[0] != name && fields[2] != name {
			continue
		}
		id, err := numeric(fields[2])
		if err != nil {
			continue
		}
		if len(fields) > 3 {
			next, _ = numeric(fields[3])
		}
		return id, next, true
	}
	return 0, 0, false
}
