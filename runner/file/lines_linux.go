package file

import (
	"bytes"
	"errors"

	"golang.org/x/sys/unix"
)

// resolve finds the bytes of some lines in a file of that size. A line ends behind its newline, the last one where the file does; what begins behind the
// last is empty. The file is read once for that, and its part again to be sent: memory doesn't depend on either.
func (l Lines) resolve(fd int, size int64) (offset, length int64, err error) {
	scan := lineScan{fd: fd, size: size, buffer: make([]byte, pieceBytes)}
	begin, err := scan.skip(max(l.First, 1) - 1)
	if err != nil || l.Count < 0 {
		return begin, size - begin, err
	}
	end, err := scan.skip(l.Count)
	return begin, end - begin, err
}

// lineScan goes through a file line by line.
type lineScan struct {
	fd     int
	size   int64
	at     int64
	buffer []byte
}

// skip goes that many lines on, at most to the end, and says where it is then.
func (s *lineScan) skip(lines int64) (int64, error) {
	for lines > 0 && s.at < s.size {
		n, err := unix.Pread(s.fd, s.buffer[:min(int64(len(s.buffer)), s.size-s.at)], s.at)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return s.at, err
		}
		if n == 0 { // it has become shorter: what is sent will say so
			s.at = s.size
			break
		}
		piece := s.buffer[:n]
		for lines > 0 && len(piece) > 0 {
			newline := bytes.IndexByte(piece, '\n')
			if newline < 0 {
				s.at += int64(len(piece))
				break
			}
			s.at += int64(newline) + 1
			piece = piece[newline+1:]
			lines--
		}
	}
	return s.at, nil
}
