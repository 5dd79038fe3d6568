package runner

import (
	"fmt"
	"io"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// inbox receives the daemon's messages into memory that is used again for the next one.
type inbox struct {
	buffer  []byte
	control [512]byte // more than SCM_RIGHTS needs for maxDescriptors
	header  unix.Msghdr
	vector  unix.Iovec
	fds     []int
	mapped  []byte
}

// maxDescriptors: stdio, gate, cgroup, extras, body.
const maxDescriptors = 6 + maxExtra

// The worker has the null device on 0 to 2; from 3 there are the runtime's own two, and what is just being received. What a child gets is put
// above 100, what lasts above 200. So a child whose table moved one descriptor too few has nothing of the worker's there.
const (
	firstReceived = 3
	firstLasting  = 200
	workerSocket  = 250
)

// message is what came: its texts and plan are in the inbox until the next one.
type message struct {
	execHeader
	texts []byte
	plan  []byte
}

// receive waits for a message. Of an exec, the descriptors are where the table wants them.
func (in *inbox) receive(socket int) (message, error) {
	n, flags, err := in.packet(socket, 0)
	if err != nil {
		return message{}, err
	}
	if flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 || n < 4 {
		return message{}, fmt.Errorf("%w: %d bytes, flags %#x", ErrProtocol, n, flags)
	}
	m := message{}
	if m.kind = order.Uint32(in.buffer); m.kind != kindExec {
		var kill killMessage
		if m.kind == kindKill {
			if _, err := readMessage(&kill, in.buffer[:n]); err != nil {
				return message{}, err
			}
		}
		m.sequence = kill.sequence
		return m, nil
	}
	body, err := readMessage(&m.execHeader, in.buffer[:n])
	if err != nil {
		return message{}, err
	}
	size := int(m.execHeader.texts) + int(m.execHeader.plan)
	if m.flags&flagMemfd != 0 {
		if body, err = in.mapBody(size); err != nil {
			return message{}, err
		}
	}
	if len(body) != size {
		return message{}, fmt.Errorf("%w: a body of %d bytes, want %d", ErrProtocol, len(body), size)
	}
	m.texts, m.plan = body[:m.execHeader.texts], body[m.execHeader.texts:]
	return m, in.place(m.execHeader)
}

// packet is one recvmsg.
func (in *inbox) packet(socket, flags int) (n, gotFlags int, err error) {
	in.vector.Base = &in.buffer[0]
	in.vector.SetLen(len(in.buffer))
	in.header = unix.Msghdr{Iov: &in.vector, Control: &in.control[0]}
	in.header.SetIovlen(1)
	in.header.SetControllen(len(in.control))
	for {
		r, _, errno := syscall.Syscall(unix.SYS_RECVMSG, uintptr(socket), uintptr(unsafe.Pointer(&in.header)), uintptr(flags|unix.MSG_CMSG_CLOEXEC))
		switch {
		case errno == unix.EINTR:
			continue
		case errno != 0:
			return 0, 0, fmt.Errorf("recvmsg: %w", errno)
		case r == 0:
			return 0, 0, io.EOF
		}
		in.descriptors(in.control[:in.header.Controllen])
		return int(r), int(in.header.Flags), nil
	}
}

// descriptors takes the numbers out of the control data.
func (in *inbox) descriptors(control []byte) {
	in.fds = in.fds[:0]
	for len(control) >= unix.SizeofCmsghdr {
		length := int(order.Uint64(control))
		level, kind := order.Uint32(control[8:]), order.Uint32(control[12:])
		if length < unix.SizeofCmsghdr || length > len(control) {
			return
		}
		if level == unix.SOL_SOCKET && kind == unix.SCM_RIGHTS {
			for data := control[unix.SizeofCmsghdr:length]; len(data) >= 4; data = data[4:] {
				in.fds = append(in.fds, int(order.Uint32(data)))
			}
		}
		control = control[min(len(control), unix.CmsgSpace(length-unix.SizeofCmsghdr)):]
	}
}

// mapBody maps the body that came in a memfd, outside of the heap: it may be large, and it is gone after the exec.
func (in *inbox) mapBody(size int) ([]byte, error) {
	if len(in.fds) == 0 || size == 0 {
		return nil, fmt.Errorf("%w: no body", ErrProtocol)
	}
	fd := in.fds[len(in.fds)-1]
	in.fds = in.fds[:len(in.fds)-1]
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil || stat.Size != int64(size) {
		return nil, fmt.Errorf("%w: a body of %d bytes, want %d (%v)", ErrProtocol, stat.Size, size, err)
	}
	mapped, err := unix.Mmap(fd, 0, size, unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("body: %w", err)
	}
	in.mapped = mapped
	return mapped, unix.Close(fd)
}

// release gives a mapped body back.
func (in *inbox) release() {
	if in.mapped != nil {
		_ = unix.Munmap(in.mapped)
		in.mapped = nil
	}
}

// place puts the descriptors where the table takes them from.
func (in *inbox) place(header execHeader) error {
	numbers := [maxDescriptors]int{sourceStdin, sourceStdout, sourceStderr, sourceGate}
	count := 4
	if header.flags&flagCgroup != 0 {
		numbers[count] = sourceCgroup
		count++
	}
	if header.extra > maxExtra {
		return fmt.Errorf("%w: %d extra descriptors", ErrProtocol, header.extra)
	}
	for i := range int(header.extra) {
		numbers[count] = sourceExtra + i
		count++
	}
	if len(in.fds) != count {
		return fmt.Errorf("%w: %d descriptors, want %d", ErrProtocol, len(in.fds), count)
	}
	for i, fd := range in.fds {
		if err := unix.Dup3(fd, numbers[i], unix.O_CLOEXEC); err != nil {
			return fmt.Errorf("descriptor %d: %w", i, err)
		}
		unix.Close(fd)
	}
	return nil
}

// closeSources closes what was for the child. A worker that can't would hold its gate, so that nobody sees it end.
func closeSources() {
	if unix.CloseRange(sourceStdin, firstLasting-1, 0) != nil {
		unix.Exit(1)
	}
}
