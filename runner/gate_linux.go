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

// gate is the daemon's end of one child's gate.
type gate struct {
	file *os.File
	raw  syscall.RawConn
	// child is the other end until it is sent; inode names it in the child's descriptors.
	child int
	inode uint64
	// pidfds says that each message comes with a pidfd of its sender (SO_PASSPIDFD, 6.5); else it comes with the sender's pid.
	pidfds  bool
	control [128]byte
}

// said is a message with its sender, both from the kernel.
type said struct {
	gateMessage
	// pidfd is the receiver's to close, -1 without; pid is 0 when the sender is gone.
	pidfd int
	pid   int
}

// passPidfd is switched off in tests of kernels before 6.5.
var passPidfd = true

// newGate makes a gate. The child's end goes nowhere but to the worker: a second copy of ours would keep the child waiting after our end.
func newGate() (*gate, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	g := &gate{child: pair[1]}
	if passPidfd {
		g.pidfds = unix.SetsockoptInt(pair[0], unix.SOL_SOCKET, unix.SO_PASSPIDFD, 1) == nil
	}
	if !g.pidfds {
		err = unix.SetsockoptInt(pair[0], unix.SOL_SOCKET, unix.SO_PASSCRED, 1)
	}
	if err == nil {
		err = unix.SetNonblock(pair[0], true)
	}
	if err == nil {
		g.inode, err = inodeOf(pair[1])
	}
	g.file = os.NewFile(uintptr(pair[0]), "gate")
	if err == nil {
		g.raw, err = g.file.SyscallConn()
	}
	if err != nil {
		g.close()
		return nil, fmt.Errorf("gate: %w", err)
	}
	return g, nil
}

// sent closes our copy of the child's end.
func (g *gate) sent() {
	if g.child >= 0 {
		unix.Close(g.child)
		g.child = -1
	}
}

func (g *gate) close() {
	g.sent()
	g.file.Close()
}

// bound is until when the next message must be there.
func (g *gate) bound(t time.Time) { g.file.SetReadDeadline(t) }

// receive waits for a message; io.EOF says that nobody holds the other end any more.
func (g *gate) receive() (said, error) {
	var buffer [2 * gateSize]byte
	var n, controlled, flags int
	var failed error
	err := g.raw.Read(func(fd uintptr) bool {
		for {
			n, controlled, flags, _, failed = unix.Recvmsg(int(fd), buffer[:], g.control[:], unix.MSG_CMSG_CLOEXEC)
			if !errors.Is(failed, unix.EINTR) {
				return !errors.Is(failed, unix.EAGAIN)
			}
		}
	})
	if err = errors.Join(err, failed); err != nil {
		if errors.Is(err, unix.ECONNRESET) {
			err = io.EOF // it went without reading all that was sent
		}
		return said{pidfd: -1}, err
	}
	s := g.sender(g.control[:controlled])
	if n == 0 {
		closeFD(s.pidfd)
		return said{pidfd: -1}, io.EOF
	}
	if flags&unix.MSG_CTRUNC != 0 {
		err = fmt.Errorf("%w: control data cut", ErrProtocol)
	} else {
		s.gateMessage, err = parseGate(buffer[:n])
	}
	if err != nil {
		closeFD(s.pidfd)
		return said{pidfd: -1}, err
	}
	return s, nil
}

// sender reads who sent the message.
func (g *gate) sender(control []byte) said {
	s := said{pidfd: -1}
	messages, _ := unix.ParseSocketControlMessage(control)
	for _, m := range messages {
		if m.Header.Level != unix.SOL_SOCKET {
			continue
		}
		switch {
		case m.Header.Type == unix.SCM_PIDFD && len(m.Data) >= 4:
			s.pidfd = int(int32(order.Uint32(m.Data))) // negative when the sender is reaped already
			s.pid = pidOf(s.pidfd)
		case m.Header.Type == unix.SCM_CREDENTIALS && len(m.Data) >= 4:
			s.pid = int(int32(order.Uint32(m.Data)))
		}
	}
	return s
}

// born waits for BORN and gives the child's pidfd; it is -1 when the child has been reaped already.
func (g *gate) born() (said, error) {
	s, err := g.receive()
	if err != nil || s.kind != kindBorn || g.pidfds {
		return s, err
	}
	// The number is the kernel's, but a number can be given anew: READY is compared with it, and a child blocked at its gate can't have been
	// replaced.
	s.pidfd, err = unix.PidfdOpen(s.pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return s, nil
	}
	return s, os.NewSyscallError("pidfd_open", err)
}

// spoke says whether there is a message, or the end, on a gate that must be silent: after READY a child says nothing until it is released.
func (g *gate) spoke() (bool, error) {
	var peeked error
	var one [1]byte
	err := g.raw.Control(func(fd uintptr) {
		_, _, peeked = unix.Recvfrom(int(fd), one[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	})
	if err != nil {
		return false, err
	}
	return !errors.Is(peeked, unix.EAGAIN), nil
}

// open writes the one byte.
func (g *gate) open() error {
	n, err := g.file.Write([]byte{1})
	if err == nil && n != 1 {
		err = io.ErrShortWrite
	}
	return err
}

func closeFD(fd int) {
	if fd >= 0 {
		unix.Close(fd)
	}
}

func inodeOf(fd int) (uint64, error) {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return 0, os.NewSyscallError("fstat", err)
	}
	return stat.Ino, nil
}
