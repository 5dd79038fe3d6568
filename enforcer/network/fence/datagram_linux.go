package fence

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// DatagramDestination is where a datagram was for, of the control messages that came with it (IP_RECVORIGDSTADDR).
func DatagramDestination(control []byte) (netip.AddrPort, error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("fence: a datagram's destination: %w", err)
	}
	for _, m := range messages {
		switch {
		case m.Header.Level == unix.SOL_IP && m.Header.Type == unix.IP_RECVORIGDSTADDR && len(m.Data) >= 8: // struct sockaddr_in
			return netip.AddrPortFrom(netip.AddrFrom4([4]byte(m.Data[4:8])), binary.BigEndian.Uint16(m.Data[2:])), nil
		case m.Header.Level == unix.SOL_IPV6 && m.Header.Type == unix.IPV6_RECVORIGDSTADDR && len(m.Data) >= 24: // struct sockaddr_in6
			return netip.AddrPortFrom(netip.AddrFrom16([16]byte(m.Data[8:24])), binary.BigEndian.Uint16(m.Data[2:])), nil
		}
	}
	return netip.AddrPort{}, errors.New("fence: a datagram that doesn't say where it was for")
}

// Answer sends a datagram to a program inside as if it came from where its own was for. Nobody outside can be told of an error.
func (f *Fence) Answer(from, to netip.AddrPort, data []byte) error {
	name, address := socketAnswer4, unix.Sockaddr(nil)
	if from.Addr().Is6() {
		name = socketAnswer6
		address = &unix.SockaddrInet6{Addr: to.Addr().As16()}
	} else {
		address = &unix.SockaddrInet4{Addr: to.Addr().As4()}
	}
	at := f.plan.socket(name)
	if at < 0 || from.Addr().Is4() != to.Addr().Is4() {
		return fmt.Errorf("fence: %s can't be answered from %s", to, from)
	}
	packet, err := datagram(from, to, data)
	if err != nil {
		return err
	}
	outer := control(f.files[at], func(fd int) { err = os.NewSyscallError("sendto", unix.Sendto(fd, packet, unix.MSG_DONTWAIT, address)) })
	return errors.Join(outer, err)
}

// mostDatagram is what fits behind both headers in a packet of IPv4.
const mostDatagram = 1<<16 - 1 - 20 - 8

// datagram is a whole packet: the header of IP, that of UDP, and the data.
func datagram(from, to netip.AddrPort, data []byte) ([]byte, error) {
	if len(data) > mostDatagram {
		return nil, fmt.Errorf("fence: a datagram of %d bytes", len(data))
	}
	length := uint16(8 + len(data))
	udp := binary.BigEndian.AppendUint16(nil, from.Port())
	udp = binary.BigEndian.AppendUint16(udp, to.Port())
	udp = binary.BigEndian.AppendUint16(udp, length)
	udp = append(append(udp, 0, 0), data...)
	pseudo := append(from.Addr().AsSlice(), to.Addr().AsSlice()...)
	pseudo = binary.BigEndian.AppendUint16(append(pseudo, 0, unix.IPPROTO_UDP), length)
	sum := ^onesSum(onesSum(0, pseudo), udp)
	if sum == 0 {
		sum = 0xffff // 0 says that there is none
	}
	binary.BigEndian.PutUint16(udp[6:], sum)
	var header []byte
	if from.Addr().Is4() { // the kernel fills in the header's sum
		header = binary.BigEndian.AppendUint16([]byte{0x45, 0}, 20+length)
		header = append(header, 0, 0, 0, 0, 64, unix.IPPROTO_UDP, 0, 0)
	} else {
		header = binary.BigEndian.AppendUint16([]byte{0x60, 0, 0, 0}, length)
		header = append(header, unix.IPPROTO_UDP, 64)
	}
	header = append(append(header, from.Addr().AsSlice()...), to.Addr().AsSlice()...)
	return append(header, udp...), nil
}

// onesSum adds to a sum in one's complement (RFC 1071).
func onesSum(sum uint16, data []byte) uint16 {
	total := uint64(sum)
	for ; len(data) > 1; data = data[2:] {
		total += uint64(binary.BigEndian.Uint16(data))
	}
	if len(data) > 0 {
		total += uint64(data[0]) << 8
	}
	for total>>16 != 0 {
		total = total&0xffff + total>>16
	}
	return uint16(total)
}
