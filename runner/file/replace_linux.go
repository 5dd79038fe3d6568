package file

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"

	"golang.org/x/sys/unix"
)

// mostTexts bounds the two texts of a replace together: they are in memory, and the file isn't.
const mostTexts = 16 << 20

// replace replaces every occurrence of a text. The file becomes another with the same mode as a whole, or, where nothing is found, stays as it is.
func (p *place) replace(o Order, in io.Reader) (Result, error) {
	texts, err := receiveTexts(in, min(o.Limit, mostTexts))
	if err != nil {
		return Result{}, err
	}
	if o.OldBytes <= 0 || o.OldBytes > int64(len(texts)) {
		return Result{}, &Fault{Code: Incomplete, Message: "the text to be replaced is empty"}
	}
	e, err := p.target(o.Path)
	if err != nil {
		return Result{}, err
	}
	fd, stat, err := e.regular(unix.O_RDONLY)
	if err != nil {
		return Result{}, err
	}
	t, err := e.temporary()
	if err != nil {
		return Result{}, faultOf(err, e.parent)
	}
	defer t.remove()
	found, err := replaceAll(t.fd, fd, texts[:o.OldBytes], texts[o.OldBytes:])
	if err != nil {
		return Result{}, faultOf(err, e.parent)
	}
	result := Result{Replaced: found}
	if found == 0 {
		return result, nil
	}
	var now unix.Stat_t
	if err := unix.Fstat(fd, &now); err != nil {
		return result, err
	}
	if now.Size != stat.Size || now.Mtim != stat.Mtim {
		return result, &Fault{Code: Changed, Message: "another program wrote to the file meanwhile"}
	}
	if err := t.keepOwner(&stat); err != nil {
		return result, faultOf(err, e.parent)
	}
	if err := t.become(e.name); err != nil {
		return result, faultOf(err, e.parent)
	}
	result.Info, err = e.confirm(t.fd)
	return result, err
}

// keepOwner gives a file the owner and mode of the one whose place it takes. Who may not give it away is its owner then, and no bit that acts for an
// owner is kept.
func (t *temporary) keepOwner(stat *unix.Stat_t) error {
	uid, gid := -1, -1
	var ours unix.Stat_t
	if err := unix.Fstat(t.fd, &ours); err != nil {
		return err
	}
	if ours.Uid != stat.Uid {
		uid = int(stat.Uid)
	}
	if ours.Gid != stat.Gid {
		gid = int(stat.Gid)
	}
	err := t.finish(stat.Mode&0o777, uid, gid)
	if errors.Is(err, unix.EPERM) {
		return t.finish(stat.Mode&0o777, -1, -1)
	}
	return err
}

// receiveTexts takes frames into memory.
func receiveTexts(in io.Reader, limit int64) ([]byte, error) {
	var texts []byte
	for {
		var size [4]byte
		if _, err := io.ReadFull(in, size[:]); err != nil {
			return nil, incomplete(err)
		}
		length := int64(binary.LittleEndian.Uint32(size[:]))
		switch {
		case length == 0:
			return texts, nil
		case length > LargestFrame || int64(len(texts))+length > limit:
			return nil, tooLarge(limit, 0)
		}
		from := len(texts)
		texts = append(texts, make([]byte, length)...)
		if _, err := io.ReadFull(in, texts[from:]); err != nil {
			return nil, incomplete(err)
		}
	}
}

// replaceAll copies a file with every occurrence of old replaced, from the left, none overlapping another. What may be the beginning of one waits for
// the next piece.
func replaceAll(to, from int, old, with []byte) (found int64, err error) {
	var held []byte
	piece := make([]byte, pieceBytes)
	for {
		n, err := unix.Read(from, piece)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return found, err
		}
		held = append(held, piece[:max(n, 0)]...)
		rest := held
		for {
			at := bytes.Index(rest, old)
			if at < 0 {
				break
			}
			found++
			if err := errors.Join(writeAll(to, rest[:at]), writeAll(to, with)); err != nil {
				return found, err
			}
			rest = rest[at+len(old):]
		}
		keep := min(len(rest), len(old)-1)
		if n <= 0 {
			keep = 0
		}
		if err := writeAll(to, rest[:len(rest)-keep]); err != nil {
			return found, err
		}
		if n <= 0 {
			return found, nil
		}
		held = append(held[:0], rest[len(rest)-keep:]...)
	}
}
