package runner

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxPacket is the longest message between daemon and launcher; what may be longer travels in a memfd.
const maxPacket = 4096

// socketpair is two connected SOCK_SEQPACKET sockets, close-on-exec. Packets keep their bounds and their descriptors; the end of one socket
// shows at the other.
func socketpair() (ours, theirs *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	// Only our end waits in the runtime's poller; the other program's reads block.
	if err := unix.SetNonblock(pair[0], true); err != nil {
		unix.Close(pair[0])
		unix.Close(pair[1])
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	return os.NewFile(uintptr(pair[0]), "socket"), os.NewFile(uintptr(pair[1]), "socket"), nil
}

// link is the daemon's end of a launcher's socket.
type link struct {
	file *os.File
	raw  syscall.RawConn
}

func newLink(file *os.File) (*link, error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, err
	}
	return &link{file: file, raw: raw}, nil
}

// send sends one message, with descriptors beside it, which stay the caller's.
func (l *link) send(message any, fds ...int) error {
	var err error
	data, rights := encode(message), []byte(nil)
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	waitErr := l.raw.Write(func(fd uintptr) bool {
		err = unix.Sendmsg(int(fd), data, rights, nil, unix.MSG_NOSIGNAL)
		return !errors.Is(err, unix.EAGAIN)
	})
	return errors.Join(waitErr, err)
}

// receive reads one message and the descriptors beside it, at most so many. The end of the socket is [io.EOF].
func (l *link) receive(most int) ([]byte, []int, error) {
	var data []byte
	var fds []int
	var err error
	waitErr := l.raw.Read(func(fd uintptr) bool {
		data, fds, err = receivePacket(int(fd), most)
		return !errors.Is(err, unix.EAGAIN)
	})
	if waitErr != nil {
		return nil, nil, waitErr
	}
	return data, fds, err
}

func (l *link) deadline(t time.Time) error { return l.file.SetDeadline(t) }

// receivePacket reads one packet of at most maxPacket bytes, and at most so many descriptors.
func receivePacket(fd, most int) ([]byte, []int, error) {
	data, control := make([]byte, maxPacket), make([]byte, unix.CmsgSpace(4*most))
	for {
		n, controlLength, flags, _, err := unix.Recvmsg(fd, data, control, unix.MSG_CMSG_CLOEXEC)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		fds, err := rights(control[:controlLength])
		if err != nil {
			return nil, nil, err
		}
		if flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
			closeAll(fds)
			return nil, nil, fmt.Errorf("%w: a packet of more than %d bytes or %d descriptors", ErrProtocol, maxPacket, most)
		}
		if n == 0 {
			closeAll(fds)
			return nil, nil, io.EOF
		}
		return data[:n], fds, nil
	}
}

func rights(control []byte) ([]int, error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil, err
	}
	var fds []int
	for _, message := range messages {
		some, err := unix.ParseUnixRights(&message)
		if err != nil {
			closeAll(fds)
			return nil, err
		}
		fds = append(fds, some...)
	}
	return fds, nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}
