package relay

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// lingerReset has the end of a socket be a reset: SO_LINGER {1,0}. It is set before a socket has a peer: on the listener, whose connections inherit it,
// and before connect(2). So there is no moment at which the end of this process is an orderly end of file.
func lingerReset(raw syscall.RawConn) error {
	var inner error
	err := raw.Control(func(fd uintptr) {
		inner = unix.SetsockoptLinger(int(fd), unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: 0})
	})
	if err = errors.Join(err, inner); err != nil {
		return fmt.Errorf("relay: SO_LINGER: %w", err)
	}
	return nil
}

var dialer = net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error { return lingerReset(raw) }}

// dial is Config.Dial by default. Dialer.DialTCP would bind(2) before it connects, and so take a port that no other connection can have, whereas
// connect(2) takes one that no other connection to the same address has.
func dial(ctx context.Context, address netip.AddrPort) (*net.TCPConn, error) {
	conn, err := dialer.DialContext(ctx, "tcp", address.String())
	if err != nil {
		return nil, err
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		conn.Close()
		return nil, fmt.Errorf("relay: %s: not TCP", address)
	}
	return tcp, nil
}

// dialDatagrams has a socket that sends to one address only, and hears only that.
func dialDatagrams(ctx context.Context, address netip.AddrPort) (*net.UDPConn, error) {
	conn, err := dialer.DialContext(ctx, "udp", address.String())
	if err != nil {
		return nil, err
	}
	udp, ok := conn.(*net.UDPConn)
	if !ok {
		conn.Close()
		return nil, fmt.Errorf("relay: %s: not UDP", address)
	}
	return udp, nil
}

func listenerLingers(l *net.TCPListener) error {
	raw, err := l.SyscallConn()
	if err != nil {
		return fmt.Errorf("relay: the listener: %w", err)
	}
	return lingerReset(raw)
}
