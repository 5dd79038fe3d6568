package file

import (
	"errors"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// openRoot is the place of orders that follow links: the root of whoever is confined here.
func openRoot(string) (*place, error) {
	fd, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	p := &place{fd: fd, follow: true}
	p.keep(fd)
	return p, nil
}

func (p *place) doFollowed(o Order, content *os.File) (Result, error) {
	if !absolute(o.Path) || o.Operation == Move && !absolute(o.To) {
		return Result{}, &Fault{Code: Outside, Message: "want an absolute path"}
	}
	switch o.Operation {
	case Read:
		e, err := p.target(o.Path)
		if err != nil {
			return Result{}, err
		}
		return e.read(o, content)
	case Write:
		return p.writeFollowed(o, content)
	case Stat:
		return p.inform(o)
	case Delete:
		return p.unlink(o)
	case Make:
		return p.make(o)
	case Remove:
		return p.removeTree(o)
	case Move:
		return p.move(o)
	case Own:
		return p.own(o)
	case Tree, Search:
		return p.tree(o)
	case Replace:
		return p.replace(o, content)
	}
	return p.unknown(o)
}

func absolute(path string) bool {
	return strings.HasPrefix(path, "/") && !strings.ContainsRune(path, 0)
}

// openDirectory opens a directory for as long as the operation lasts.
func (p *place) openDirectory(at int, path string) (int, error) {
	fd, err := openFollowing(at, path)
	if err == nil {
		p.keep(fd)
	}
	return fd, err
}

// openFollowing opens a directory as a command would, but through no magic link: those of /proc lead out of names.
func openFollowing(at int, path string) (int, error) {
	if path == "" {
		path = "."
	}
	if haveOpenat2() {
		return openat2(at, path, &unix.OpenHow{Flags: pathDirectory, Resolve: unix.RESOLVE_NO_MAGICLINKS})
	}
	return unix.Openat(at, path, pathDirectory, 0)
}

// named is the entry of a path's last name; links before that are followed. The name of what has none, such as "/", is ".".
func (p *place) named(at int, path string) (*entry, error) {
	trimmed := strings.TrimRight(path, "/")
	before, name := "", trimmed
	if cut := strings.LastIndexByte(trimmed, '/'); cut >= 0 {
		before, name = trimmed[:cut+1], trimmed[cut+1:]
	}
	if name == "" || name == "." || name == ".." {
		before, name = path, "."
	}
	parent, err := p.openDirectory(at, before)
	if err != nil {
		return nil, err
	}
	e := &entry{p, parent, name}
	if len(trimmed) < len(path) && name != "." { // as for a command, a slash at the end is a directory's
		stat, err := e.stat()
		if err == nil && kind(stat.Mode) != KindDirectory && kind(stat.Mode) != KindLink {
			return nil, unix.ENOTDIR
		}
	}
	return e, nil
}

// mostLinks is the kernel's own bound (path_resolution(7)).
const mostLinks = 40

// target is named with the last link followed as well. What it leads to may not be there.
func (p *place) target(path string) (*entry, error) {
	at := p.fd
	for range mostLinks {
		e, err := p.named(at, path)
		if err != nil {
			return nil, err
		}
		link := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(e.parent, e.name, link)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			return e, nil
		}
		if err == nil {
			err = e.mayFollow()
		}
		if err != nil {
			return nil, err
		}
		at, path = e.parent, string(link[:n])
	}
	return nil, unix.ELOOP
}

// mayFollow is the kernel's rule for a last link (fs.protected_symlinks, proc_sys_fs(5)), which reading a link gets round: in a directory where everybody may
// put things, only a link of one's own counts, or of the directory's owner. Whoever else in the sandbox put it there would say what is written, and where.
func (e *entry) mayFollow() error {
	link, err := e.stat()
	if err != nil {
		return err
	}
	var directory unix.Stat_t
	if err := unix.Fstat(e.parent, &directory); err != nil {
		return err
	}
	shared := directory.Mode&(unix.S_ISVTX|unix.S_IWOTH) == unix.S_ISVTX|unix.S_IWOTH
	if shared && int(link.Uid) != os.Geteuid() && link.Uid != directory.Uid {
		return unix.EACCES
	}
	return nil
}

// directories is openDirectory, which makes what isn't there.
func (p *place) directories(path string) error {
	if _, err := p.openDirectory(p.fd, path); !errors.Is(err, unix.ENOENT) {
		return err
	}
	at := p.fd
	for part := range strings.SplitSeq(path, "/") {
		if part == "" {
			continue
		}
		next, err := openFollowing(at, part)
		if errors.Is(err, unix.ENOENT) {
			if err = unix.Mkdirat(at, part, 0o755); err == nil || errors.Is(err, unix.EEXIST) {
				next, err = openFollowing(at, part)
			}
		}
		if err != nil {
			err = faultOf(err, at)
		}
		closeUnless(at, p.fd)
		if err != nil {
			return err
		}
		at = next
	}
	closeUnless(at, p.fd)
	return nil
}

// above is the directory that a path's last name is in.
func above(path string) string {
	trimmed := strings.TrimRight(path, "/")
	return trimmed[:strings.LastIndexByte(trimmed, '/')+1]
}

// writeFollowed replaces the file that a path leads to.
func (p *place) writeFollowed(o Order, in *os.File) (Result, error) {
	if strings.HasSuffix(o.Path, "/") {
		return Result{}, unix.EISDIR
	}
	if o.Parents {
		if err := p.directories(above(o.Path)); err != nil {
			return Result{}, err
		}
	}
	e, err := p.target(o.Path)
	if err != nil {
		return Result{}, err
	}
	if e.name == "." {
		return Result{}, unix.EISDIR
	}
	return e.write(o, in)
}

// inform says all about what has a name; a link isn't followed.
func (p *place) inform(o Order) (Result, error) {
	e, err := p.named(p.fd, o.Path)
	if err != nil {
		return Result{}, err
	}
	found, err := p.informOf(e.parent, e.name)
	if err != nil {
		return Result{}, err
	}
	return Result{Found: []Found{found}}, nil
}

// informOf is everything about a name in a directory.
func (p *place) informOf(parent int, name string) (Found, error) {
	var stat unix.Stat_t
	if err := unix.Fstatat(parent, name, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return Found{}, err
	}
	p.owners.load()
	info := Found{Info: infoOf(&stat)}
	info.Owner, info.Group = nameOf(stat.Uid, p.owners.users), nameOf(stat.Gid, p.owners.groups)
	info.CreatedAt = time.Unix(min(stat.Mtim.Sec, stat.Ctim.Sec), 0).UTC() // the best that is known where the file system doesn't say
	var more unix.Statx_t
	if unix.Statx(parent, name, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME, &more) == nil && more.Mask&unix.STATX_BTIME != 0 {
		info.CreatedAt = time.Unix(more.Btime.Sec, int64(more.Btime.Nsec)).UTC()
	}
	return info, nil
}

// unlink takes the name of anything but a directory away.
func (p *place) unlink(o Order) (Result, error) {
	e, err := p.named(p.fd, o.Path)
	if err != nil {
		return Result{}, err
	}
	stat, err := e.stat()
	switch {
	case err != nil:
		return Result{}, err
	case kind(stat.Mode) == KindDirectory:
		return Result{}, unix.EISDIR
	}
	return Result{}, unix.Unlinkat(e.parent, e.name, 0)
}

// own changes what a path leads to, through a descriptor that acts on nothing by being opened.
func (p *place) own(o Order) (Result, error) {
	uid, gid, err := p.ids(o)
	if err != nil {
		return Result{}, err
	}
	e, err := p.target(o.Path)
	if err != nil {
		return Result{}, err
	}
	fd, err := unix.Openat(e.parent, e.name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return Result{}, err
	}
	p.keep(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return Result{}, err
	}
	if kind(stat.Mode) == KindLink { // it has just taken the place of what was there
		return Result{}, unix.ELOOP
	}
	if uid >= 0 || gid >= 0 {
		if err := unix.Fchownat(fd, "", uid, gid, unix.AT_EMPTY_PATH); err != nil {
			return Result{}, err
		}
	}
	if o.Mode >= 0 {
		return Result{}, changeMode(fd, uint32(o.Mode)&0o777)
	}
	return Result{}, nil
}
