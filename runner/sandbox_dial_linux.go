package runner

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNoEntry says that this process can't open a socket in the sandbox's network: that takes CAP_SYS_ADMIN.
var ErrNoEntry = errors.New("a connection into a sandbox takes CAP_SYS_ADMIN, which this process doesn't have")

// dialBound is how long a connection to the sandbox's own loopback may take.
const dialBound = 5 * time.Second

// Dial connects to a TCP port of the sandbox's loopback: as a program of the sandbox would, with a socket that is made in its network by a thread that goes
// there for that and comes back.
func (s *Sandbox) Dial(port uint16) (net.Conn, error) {
	if s.peer != nil { // its network is others' too: what answers on a port there may be anybody
		return nil, ErrNoEntry
	}
	network, err := os.Open("/proc/" + strconv.Itoa(s.PID()) + "/ns/net")
	if err != nil {
		return nil, err
	}
	defer network.Close()
	// Opened by number, so look again by pidfd: if the launcher lives now, the number was its own all along.
	if err := s.process.Signal(syscall.Signal(0)); err != nil {
		return nil, fmt.Errorf("launcher %d: %w", s.PID(), err)
	}
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		var fd int
		if fd, err = socketIn(network, family); err != nil {
			return nil, err
		}
		var conn net.Conn
		if conn, err = connect(fd, family, port); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

// socketIn makes a TCP socket in a network namespace.
func socketIn(network *os.File, family int) (int, error) {
	runtime.LockOSThread()
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return -1, err
	}
	defer own.Close()
	if err := unix.Setns(int(network.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		if errors.Is(err, unix.EPERM) {
			return -1, ErrNoEntry
		}
		return -1, os.NewSyscallError("setns", err)
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if back := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET); back != nil {
		// The thread stays where it is, and ends with this goroutine: nothing else must ever run on it.
		if err == nil {
			unix.Close(fd)
		}
		return -1, os.NewSyscallError("setns back", back)
	}
	runtime.UnlockOSThread()
	return fd, os.NewSyscallError("socket", err)
}

// connect connects a socket, which it closes when it can't.
func connect(fd, family int, port uint16) (net.Conn, error) {
	file := os.NewFile(uintptr(fd), "sandbox")
	defer file.Close() // FileConn has a copy
	var to unix.Sockaddr = &unix.SockaddrInet4{Port: int(port), Addr: [4]byte{127, 0, 0, 1}}
	if family == unix.AF_INET6 {
		to = &unix.SockaddrInet6{Port: int(port), Addr: [16]byte{15: 1}}
	}
	bound := unix.NsecToTimeval(dialBound.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &bound); err != nil {
		return nil, os.NewSyscallError("setsockopt", err)
	}
	for {
		err := unix.Connect(fd, to)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, os.NewSyscallError("connect", err)
		}
		break
	}
	return net.FileConn(file)
}
