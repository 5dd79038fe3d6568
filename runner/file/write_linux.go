package file

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"

	"golang.org/x/sys/unix"
)

// write replaces a file as a whole: the content goes into a file without a name, which takes the name when it is complete. Whatever goes wrong
// before, a kill included, leaves the old file as it was and nothing beside it.
func (p *place) write(o Order, in io.Reader) (Result, error) {
	e, err := p.entry(o, func(parts []string) (int, error) {
		if o.Parents {
			return p.parents(parts)
		}
		return p.directory(parts)
	})
	if err != nil {
		return Result{}, err
	}
	if err := p.here(e.parent); err != nil {
		return Result{}, err
	}
	return e.write(o, in)
}

// write is the rest of it, once the directory has been found.
func (e *entry) write(o Order, in io.Reader) (Result, error) {
	uid, gid, err := e.place.ids(o)
	if err != nil {
		return Result{}, err
	}
	mode, created, err := e.modeOf(o.Mode)
	if err != nil {
		return Result{}, err
	}
	t, err := e.temporary()
	if err != nil {
		return Result{}, faultOf(err, e.parent)
	}
	defer t.remove()
	written, err := receive(t.fd, in, o.Limit)
	if err != nil {
		return Result{Bytes: written}, faultOf(err, e.parent)
	}
	if err := t.finish(mode, uid, gid); err != nil {
		return Result{}, faultOf(err, e.parent)
	}
	if err := t.become(e.name); err != nil {
		return Result{}, faultOf(err, e.parent)
	}
	info, err := e.confirm(t.fd)
	return Result{Info: info, Created: created, Bytes: written}, err
}

// modeOf is the mode that the file gets, and whether there was none before. A name that isn't a regular file's isn't taken away from what has it.
// What takes the name after this is replaced, not followed: that is what rename(2) does.
func (e *entry) modeOf(asked int) (mode uint32, created bool, err error) {
	mode = defaultMode
	stat, err := e.stat()
	switch {
	case errors.Is(err, unix.ENOENT):
		created = true
	case err != nil:
		return 0, false, err
	default:
		if err := wantFile(&stat); err != nil {
			return 0, false, err
		}
		mode = stat.Mode & 0o777
	}
	if asked >= 0 {
		mode = uint32(asked) & 0o777
	}
	return mode, created, nil
}

// temporary is a new file that hasn't got its name yet.
type temporary struct {
	parent int
	fd     int
	name   string // what is to be removed, "" for nothing
}

// temporary makes a file without any name, or under a random one where the file system can't.
func (e *entry) temporary() (*temporary, error) {
	fd, err := unix.Openat(e.parent, ".", unnamed|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err == nil {
		e.place.keep(fd)
		return &temporary{parent: e.parent, fd: fd}, nil
	}
	if !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.EISDIR) {
		return nil, err
	}
	t := &temporary{parent: e.parent}
	if t.name, err = randomName(); err != nil {
		return nil, err
	}
	t.fd, err = unix.Openat(e.parent, t.name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err == nil {
		e.place.keep(t.fd)
	}
	return t, err
}

// unnamed is a variable for tests of file systems that can't.
var unnamed = unix.O_TMPFILE

// randomName is one that nobody can make first. (crypto/rand would make the launcher half a megabyte larger.)
func randomName() (string, error) {
	var random [16]byte
	n, err := unix.Getrandom(random[:], 0)
	if err == nil && n < len(random) {
		err = unix.EIO
	}
	return fmt.Sprintf(".sandboxd-%x", random), err
}

// finish gives it owner and mode, in this order: a change of owner takes bits of the mode away.
func (t *temporary) finish(mode uint32, uid, gid int) error {
	if uid >= 0 || gid >= 0 {
		if err := unix.Fchown(t.fd, uid, gid); err != nil {
			return err
		}
	}
	return errors.Join(unix.Fchmod(t.fd, mode), unix.Fsync(t.fd))
}

// become gives the file a name in the place of whatever has it. link(2) doesn't replace, so that a file without a name gets a random one first.
func (t *temporary) become(name string) error {
	if t.name == "" {
		between, err := randomName()
		if err != nil {
			return err
		}
		// The magic link is our own, of a descriptor that we hold; AT_EMPTY_PATH would need a capability before 6.10.
		if err := unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(t.fd), t.parent, between, unix.AT_SYMLINK_FOLLOW); err != nil {
			return err
		}
		t.name = between
	}
	err := unix.Renameat(t.parent, t.name, t.parent, name)
	if err == nil {
		t.name = ""
	}
	return err
}

func (t *temporary) remove() {
	if t.name != "" {
		_ = unix.Unlinkat(t.parent, t.name, 0) // the fault that came before is the one to tell
	}
}

// confirm says what has the name now: another program may have put its own in the place of ours.
func (e *entry) confirm(fd int) (*Info, error) {
	var ours unix.Stat_t
	if err := unix.Fstat(fd, &ours); err != nil {
		return nil, err
	}
	info := infoOf(&ours)
	if e.place.follow { // a command that has written a file doesn't ask either who came after it
		return &info, nil
	}
	now, err := e.stat()
	if err != nil || now.Ino != ours.Ino || now.Dev != ours.Dev {
		return &info, &Fault{Code: Changed, Message: "the file was written, and another program has replaced or removed it since"}
	}
	return &info, nil
}

// receive takes frames until the one without bytes.
func receive(fd int, in io.Reader, limit int64) (written int64, err error) {
	buffer := make([]byte, pieceBytes)
	for {
		var size [4]byte
		if _, err := io.ReadFull(in, size[:]); err != nil {
			return written, incomplete(err)
		}
		length := int64(binary.LittleEndian.Uint32(size[:]))
		switch {
		case length == 0:
			return written, nil
		case length > LargestFrame:
			return written, fmt.Errorf("file: a frame of %d bytes", length)
		case written+length > limit:
			return written, tooLarge(limit, 0)
		}
		for length > 0 {
			piece := buffer[:min(int64(len(buffer)), length)]
			if _, err := io.ReadFull(in, piece); err != nil {
				return written, incomplete(err)
			}
			if err := writeAll(fd, piece); err != nil {
				return written, err
			}
			written, length = written+int64(len(piece)), length-int64(len(piece))
		}
	}
}

func incomplete(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &Fault{Code: Incomplete, Message: "the content ended before its end"}
	}
	return err
}

func writeAll(fd int, data []byte) error {
	for len(data) > 0 {
		n, err := unix.Write(fd, data)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		data = data[max(n, 0):]
	}
	return nil
}

// SendFrames is the daemon's end of a write: everything that in has, at most limit bytes and one more, which is for the child to refuse. When in
// fails there is no end, and so no file.
func SendFrames(out io.Writer, in io.Reader, limit int64) (sent int64, err error) {
	frame := make([]byte, 4+pieceBytes)
	in = io.LimitReader(in, limit+1)
	for {
		n, err := in.Read(frame[4:])
		if n > 0 {
			binary.LittleEndian.PutUint32(frame, uint32(n))
			if _, err := out.Write(frame[:4+n]); err != nil {
				return sent, err
			}
			sent += int64(n)
		}
		if errors.Is(err, io.EOF) {
			_, err = out.Write(make([]byte, 4))
			return sent, err
		}
		if err != nil {
			return sent, err
		}
	}
}
