package file

import (
	"encoding/json/v2"
	"io"
	"slices"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// What a gather gives at most. A program decides what lies there: neither the answer nor the time is its to choose.
const (
	mostGathered = 1000
	mostLooked   = 10_000
	deepest      = 16
	gatherBytes  = 512 << 10 // of JSON
)

// gathering is what has been found so far.
type gathering struct {
	*place
	Result
	out    io.Writer
	room   int64 // for JSON
	bytes  int64 // for content
	looked int
}

// gather lists every regular file beneath a directory, in the order of its names, and sends those that fit, each behind a header. Nothing else is
// told: a link, a FIFO or a device in there is of no use to who wants files. Truncated says that there is more than was looked at, or told.
func (p *place) gather(o Order, out io.Writer) (Result, error) {
	parts, err := o.parts()
	if err != nil {
		return Result{}, err
	}
	at, err := p.directory(parts)
	if err != nil {
		return Result{}, err
	}
	p.keep(at)
	g := gathering{place: p, out: out, room: gatherBytes, bytes: o.Limit}
	err = g.walk(at, ".", "", 0)
	return g.Result, err
}

// walk looks through the directory of that name.
func (g *gathering) walk(at int, name, prefix string, depth int) error {
	fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == nil {
		defer unix.Close(fd)
		err = g.here(fd)
	}
	if err != nil {
		return err
	}
	names, more, err := readNames(fd)
	if err != nil {
		return err
	}
	g.Truncated = g.Truncated || more
	slices.Sort(names)
	for _, name := range names {
		if g.looked++; g.looked > mostLooked {
			g.Truncated = true
			return nil
		}
		var stat unix.Stat_t
		if unix.Fstatat(fd, name, &stat, unix.AT_SYMLINK_NOFOLLOW) != nil {
			continue // gone since
		}
		switch stat.Mode & unix.S_IFMT {
		case unix.S_IFDIR:
			// What can't be looked into is as if it were cut.
			if depth == deepest || g.walk(fd, name, prefix+name+"/", depth+1) != nil {
				g.Truncated = true
			}
		case unix.S_IFREG:
			if !g.add(fd, name, prefix+name, &stat) {
				return nil
			}
		}
	}
	return nil
}

// add tells of a file, and sends it if it fits. It says whether there was room.
func (g *gathering) add(fd int, name, path string, stat *unix.Stat_t) bool {
	info := infoOf(stat)
	if info.Name = path; !utf8.ValidString(path) {
		info.Name, info.NameBase64 = "", []byte(path)
	}
	text, err := json.Marshal(info)
	if g.room -= int64(len(text)) + 1; err != nil || g.room < 0 || len(g.Entries) == mostGathered {
		g.Truncated = true
		return false
	}
	g.Entries = append(g.Entries, info)
	if stat.Size > g.bytes {
		return true
	}
	opened := len(g.opened)
	e := entry{g.place, fd, name}
	if file, now, err := e.regular(unix.O_RDONLY); err == nil && now.Size <= g.bytes && g.bytes > 0 {
		g.send(file, &now)
	}
	for _, file := range g.opened[opened:] {
		unix.Close(file)
	}
	g.opened = g.opened[:opened]
	return true
}

// send is the content of the last entry. One that becomes shorter meanwhile is the last that is sent: what follows couldn't be told from it.
func (g *gathering) send(fd int, stat *unix.Stat_t) {
	g.Entries[len(g.Entries)-1].Size = stat.Size
	err := sendHeader(g.out, Header{Info: infoOf(stat), Length: stat.Size})
	if err == nil {
		var done int64
		if done, err = copyPart(g.out, fd, 0, stat.Size); err == nil && done == stat.Size {
			g.bytes -= done
			g.Sent = append(g.Sent, len(g.Entries)-1)
			return
		}
	}
	g.bytes = 0
}
