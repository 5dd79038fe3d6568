package relay

import (
	"io"
	"net"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// The kernel holds little of a stream, whatever it would like: it says double of what was asked for, or less.
func TestBuffersAreBounded(t *testing.T) {
	const many = 4 << 20
	w := newWorld(t, allow("a.example"), nil)
	w.host("8.0.0.1:9000", func(c *net.TCPConn) {
		_, _ = io.CopyN(io.Discard, c, many)
		_, _ = c.Write([]byte{1})
		_, _ = c.Read(make([]byte, 1))
	})
	c := w.dial(at(w.name("a.example", "8.0.0.1"), 9000))
	send(t, c, string(make([]byte, many)))
	wantRead(t, c, "\x01")
	for _, live := range w.server.snapshot() {
		for _, option := range []struct {
			of                   syscall.Conn
			level, option, least int
			most                 int
		}{
			{live.client, unix.SOL_SOCKET, unix.SO_RCVBUF, 1, 2 * clientBuffer},
			{live.client, unix.SOL_SOCKET, unix.SO_SNDBUF, 1, 2 * clientBuffer},
			{live.remote, unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsent, unsent},
		} {
			raw, err := option.of.SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			if err := raw.Control(func(fd uintptr) {
				if got, err := unix.GetsockoptInt(int(fd), option.level, option.option); err != nil || got < option.least || got > option.most {
					t.Errorf("option %d is %d, %v; want %d to %d", option.option, got, err, option.least, option.most)
				}
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
}
