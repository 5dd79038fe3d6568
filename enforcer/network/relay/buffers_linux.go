package relay

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// What the kernel may hold of a connection on its way. It would hold many megabytes where there is a bottleneck, and the relay is one on a machine whose
// processors client and relay share: with many streams everything has then left the processor's caches when it is copied, which costs more than all that
// the relay does.
const (
	// clientBuffer is for what the client's side holds either way. The client is on this machine, so that a small window doesn't slow it down.
	clientBuffer = 256 << 10
	// unsent is how much the server's side may hold that wasn't sent yet. What was sent and not acknowledged, which a far server needs, isn't bounded by it.
	unsent = 128 << 10
	// nearBuffer is for what came from a server that is near: one that has answered within nearTrip, in µs, needs no more for 8 Gbit/s. What a far one needs
	// the kernel finds out by itself.
	nearBuffer = 512 << 10
	nearTrip   = 500
)

// bound bounds the buffers of a connection, once it has shown to be a stream: the others never have much on its way, and are set up sooner without.
func (c *conn) bound() {
	if c.bounded.Swap(true) {
		return
	}
	options(c.client, func(fd int) {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, clientBuffer)
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, clientBuffer)
	})
	options(c.remote, func(fd int) {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsent)
		if info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO); err == nil && info.Min_rtt <= nearTrip {
			_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, nearBuffer)
		}
	})
}

// options sets options of a socket, without which a connection is only slower.
func options(c syscall.Conn, set func(fd int)) {
	if raw, err := c.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { set(int(fd)) })
	}
}
