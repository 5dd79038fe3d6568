package fence

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

// What the kernel tells of connections that it refuses by itself: nfnetlink_log (linux/netfilter/nfnetlink_log.h). A rule hands a copy of the packet to
// a group, and the group's packets go to the one socket of the namespace that has bound it. Where nobody has, they go nowhere.

// refusedGroup is the group of refused connections. The namespace is ours, so any number does.
const refusedGroup = 1

// Messages, commands and attributes of nfnetlink_log.
const (
	nfLog         = unix.NFNL_SUBSYS_ULOG << 8
	logPacket     = 0 // NFULNL_MSG_PACKET
	logConfig     = 1 // NFULNL_MSG_CONFIG
	logCommand    = 1 // NFULA_CFG_CMD, and NFULNL_CFG_CMD_BIND of it
	logBind       = 1
	logMode       = 2 // NFULA_CFG_MODE, and NFULNL_COPY_PACKET of it
	logCopy       = 2
	logThreshold  = 5 // NFULA_CFG_QTHRESH: how many wait before they are sent
	logFlags      = 6 // NFULA_CFG_FLAGS, and NFULNL_CFG_F_SEQ of it
	logNumbered   = 1
	logPayload    = 9  // NFULA_PAYLOAD
	logNumber     = 12 // NFULA_SEQ
	logCopyLength = 128
)

// logRefused copies a packet to the group, and goes on.
func logRefused() [][]byte {
	return [][]byte{expression("log", attribute(unix.NFTA_LOG_GROUP, binary.BigEndian.AppendUint16(nil, refusedGroup)))}
}

// opening is a packet that begins a connection: of the flags of TCP, SYN and none of ACK, RST and FIN.
func opening() [][]byte {
	load := payload(unix.NFT_PAYLOAD_TRANSPORT_HEADER, 13, []byte{0x02})
	return slices.Concat(load[:1], [][]byte{masked([]byte{0x17})}, load[1:])
}

// bindRefused has the group's packets come to the socket that sends this: their headers, each at once, and numbered, so that who reads knows how many are lost.
func bindRefused() []byte {
	mode := append(binary.BigEndian.AppendUint32(nil, logCopyLength), logCopy, 0)
	return nfMessage(nfLog|logConfig, unix.NLM_F_ACK, unix.NFPROTO_UNSPEC, refusedGroup, attribute(logCommand, []byte{logBind}), attribute(logMode, mode),
		big32(logThreshold, 1), attribute(logFlags, binary.BigEndian.AppendUint16(nil, logNumbered)))
}

// Refusal is a connection that the kernel has refused by itself.
type Refusal struct {
	Source, Destination netip.AddrPort
	// Lost is how many before it nobody was told of, since the last one.
	Lost int
}

// refusalOf reads a packet of the group, and its number.
func refusalOf(m nlMessage) (r Refusal, number uint32, ok bool) {
	if m.kind != nfLog|logPacket || len(m.body) < 4 {
		return r, 0, false
	}
	numbered := false
	attributes(m.body[4:], func(kind uint16, payload, _ []byte) {
		switch {
		case kind == logPayload:
			r.Source, r.Destination = headers(payload)
		case kind == logNumber && len(payload) == 4:
			number, numbered = binary.BigEndian.Uint32(payload), true
		}
	})
	return r, number, numbered && r.Destination.IsValid()
}

// headers are where a packet of TCP comes from and goes to. One of IPv6 may have headers between the two.
func headers(packet []byte) (from, to netip.AddrPort) {
	if len(packet) < 20 {
		return from, to
	}
	var source, destination netip.Addr
	switch packet[0] >> 4 {
	case 4:
		source, destination = netip.AddrFrom4([4]byte(packet[12:16])), netip.AddrFrom4([4]byte(packet[16:20]))
		packet = packet[min(len(packet), 4*int(packet[0]&15)):]
	case 6:
		if len(packet) < 40 {
			return from, to
		}
		source, destination = netip.AddrFrom16([16]byte(packet[8:24])), netip.AddrFrom16([16]byte(packet[24:40]))
		next := packet[6]
		for packet = packet[40:]; next != unix.IPPROTO_TCP; {
			if len(packet) < 8 {
				return netip.AddrPortFrom(source, 0), netip.AddrPortFrom(destination, 0)
			}
			next, packet = packet[0], packet[min(len(packet), 8+8*int(packet[1])):]
		}
	default:
		return from, to
	}
	if len(packet) < 4 {
		return netip.AddrPortFrom(source, 0), netip.AddrPortFrom(destination, 0)
	}
	return netip.AddrPortFrom(source, binary.BigEndian.Uint16(packet)), netip.AddrPortFrom(destination, binary.BigEndian.Uint16(packet[2:]))
}
