package file

import (
	"encoding/binary"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"golang.org/x/sys/unix"
)

// read sends the header and the part that is asked for. What is sent is bounded by the size at the beginning: a file that grows meanwhile doesn't
// make the answer longer, one that shrinks makes it end early, which whoever knows the length sees.
func (p *place) read(o Order, out io.Writer) (Result, error) {
	e, err := p.entry(o, p.directory)
	if err != nil {
		return Result{}, err
	}
	return e.read(o, out)
}

// read is the rest of it, once the file has been found.
func (e *entry) read(o Order, out io.Writer) (Result, error) {
	fd, stat, err := e.regular(unix.O_RDONLY)
	if err != nil {
		return Result{}, err
	}
	info := infoOf(&stat)
	offset, length, part, err := o.Range.resolve(stat.Size)
	if o.Lines.Given {
		offset, length, err = o.Lines.resolve(fd, stat.Size)
	}
	if err != nil {
		return Result{Info: &info}, err
	}
	if length > o.Limit {
		return Result{Info: &info}, tooLarge(o.Limit, stat.Size)
	}
	if err := sendHeader(out, Header{Info: info, Offset: offset, Length: length, Part: part}); err != nil {
		return Result{}, err
	}
	result := Result{Info: &info}
	result.Bytes, err = copyPart(out, fd, offset, length)
	if err != nil {
		return result, err
	}
	if err := unix.Fstat(fd, &stat); err != nil {
		return result, err
	}
	result.Changed = stat.Size != info.Size
	if result.Bytes < length {
		return result, &Fault{Code: Changed, Message: "the file became shorter while it was read", Size: stat.Size}
	}
	return result, nil
}

func tooLarge(limit, size int64) *Fault {
	message := "more than " + strconv.FormatInt(limit, 10) + " bytes"
	if size > 0 {
		message = fmt.Sprintf("the file has %d bytes, and at most %d go in one answer: ask for a range", size, limit)
	}
	return &Fault{Code: TooLarge, Message: message, Size: size}
}

// pieceBytes is how much is copied at once.
const pieceBytes = 64 << 10

// copyPart ends early where the file does.
func copyPart(out io.Writer, fd int, offset, length int64) (done int64, err error) {
	buffer := make([]byte, min(pieceBytes, length))
	for done < length {
		n, err := unix.Pread(fd, buffer[:min(int64(len(buffer)), length-done)], offset+done)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			return done, err
		}
		if _, err := out.Write(buffer[:n]); err != nil {
			return done, err
		}
		done += int64(n)
	}
	return done, nil
}

func sendHeader(out io.Writer, header Header) error {
	text, err := json.Marshal(header)
	if err != nil {
		return err
	}
	_, err = out.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(text))), text...))
	return err
}

// ReadHeader is the daemon's end of it. io.EOF: the child has nothing to send, and says why in its result.
func ReadHeader(in io.Reader) (Header, error) {
	var size [4]byte
	if _, err := io.ReadFull(in, size[:]); err != nil {
		return Header{}, err
	}
	length := binary.LittleEndian.Uint32(size[:])
	if length == 0 || length > largestHeader {
		return Header{}, fmt.Errorf("file: a header of %d bytes", length)
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(in, text); err != nil {
		return Header{}, err
	}
	var header Header
	if err := json.Unmarshal(text, &header, json.RejectUnknownMembers(true)); err != nil {
		return Header{}, fmt.Errorf("file: header: %w", err)
	}
	if header.Offset < 0 || header.Length < 0 || header.Length > math.MaxInt64-header.Offset || header.Offset+header.Length > header.Info.Size {
		return Header{}, fmt.Errorf("file: a header of bytes %d+%d of %d", header.Offset, header.Length, header.Info.Size)
	}
	return header, nil
}
