package names

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// mostReadErrors in a row end a socket that isn't closed: it would be a busy loop.
const mostReadErrors = 100

// serveUDP answers from the address that was asked. In a sandbox every address is local, so that whatever name server a program knows is this one, and it
// takes an answer from no other.
func (s *Server) serveUDP(conn *net.UDPConn) error {
	switch err := wantDestination(conn); {
	case errors.Is(err, net.ErrClosed):
		return nil
	case err != nil:
		return fmt.Errorf("names: UDP: IP_PKTINFO: %w", err)
	}
	packet, control := make([]byte, mostQuery+1), make([]byte, 128)
	for errorsInARow := 0; ; {
		n, controlled, _, from, err := conn.ReadMsgUDPAddrPort(packet, control)
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			if errorsInARow++; errorsInARow == mostReadErrors {
				return fmt.Errorf("names: UDP: %w", err)
			}
			continue
		}
		errorsInARow = 0
		reply, q := s.begin(packet[:n])
		waits := false
		if q != nil {
			reply, waits = s.claim(q)
		}
		if !waits {
			send(conn, reply, control[:controlled], from)
			continue
		}
		control := append([]byte(nil), control[:controlled]...)
		s.wg.Go(func() { send(conn, s.finish(q), control, from) })
	}
}

// send can't tell anybody of an error: who asked may be gone.
func send(conn *net.UDPConn, reply, control []byte, to netip.AddrPort) {
	if reply != nil {
		_, _, _ = conn.WriteMsgUDPAddrPort(reply, source(control), to)
	}
}

func wantDestination(conn *net.UDPConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var err4, err6 error
	if err := raw.Control(func(fd uintptr) {
		err4 = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_PKTINFO, 1)
		err6 = unix.SetsockoptInt(int(fd), unix.SOL_IPV6, unix.IPV6_RECVPKTINFO, 1)
		if err6 == nil {
			// IPv6 lets a packet come from an address only if an interface has it, and a route that makes it local isn't enough as it is for IPv4
			// (ip6_datagram_send_ctl): an answer from any other would be EINVAL, and the program would wait in vain.
			err6 = unix.SetsockoptInt(int(fd), unix.SOL_IPV6, unix.IPV6_FREEBIND, 1)
		}
	}); err != nil {
		return err
	}
	if err4 != nil && err6 != nil {
		return err4
	}
	return nil
}

// source turns the control message that says where a packet went to into the one that says where its answer comes from. The device isn't kept:
// routes know it.
func source(control []byte) []byte {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil
	}
	for _, message := range messages {
		switch {
		case message.Header.Level == unix.SOL_IPV6 && message.Header.Type == unix.IPV6_PKTINFO && len(message.Data) >= 16:
			return unix.PktInfo6(&unix.Inet6Pktinfo{Addr: [16]byte(message.Data)})
		case message.Header.Level == unix.SOL_IP && message.Header.Type == unix.IP_PKTINFO && len(message.Data) >= 12:
			// struct in_pktinfo: device, the socket's own address, the header's destination.
			return unix.PktInfo4(&unix.Inet4Pktinfo{Spec_dst: [4]byte(message.Data[8:12])})
		}
	}
	return nil
}
