package fence

import (
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

// Requests of rtnetlink(7).

// loopbackIndex is the index of "lo" in every network namespace: it is made with it.
const loopbackIndex = 1

// anew makes what is there already again, so that a request can be sent twice.
const anew = unix.NLM_F_ACK | unix.NLM_F_CREATE | unix.NLM_F_REPLACE

func linkUp(index uint32) []byte {
	body := []byte{unix.AF_UNSPEC, 0, 0, 0}
	body = native.AppendUint32(body, index)
	body = native.AppendUint32(body, unix.IFF_UP) // flags
	body = native.AppendUint32(body, unix.IFF_UP) // which of them change
	return message(unix.RTM_NEWLINK, unix.NLM_F_ACK, body)
}

// newAddress gives the loopback one more address, without looking for a duplicate of it first.
func newAddress(a netip.Addr) []byte {
	family, flags := byte(unix.AF_INET), byte(0)
	if a.Is6() {
		family, flags = unix.AF_INET6, unix.IFA_F_NODAD
	}
	body := []byte{family, byte(a.BitLen()), flags, unix.RT_SCOPE_UNIVERSE}
	body = native.AppendUint32(body, loopbackIndex)
	return message(unix.RTM_NEWADDR, anew, body, attribute(unix.IFA_LOCAL, a.AsSlice()), attribute(unix.IFA_ADDRESS, a.AsSlice()))
}

// localDefault makes every address of a family the namespace's own.
func localDefault(source netip.Addr) []byte {
	family, scope := byte(unix.AF_INET), byte(unix.RT_SCOPE_HOST)
	if source.Is6() {
		family, scope = unix.AF_INET6, unix.RT_SCOPE_UNIVERSE
	}
	body := []byte{family, 0, 0, 0, unix.RT_TABLE_LOCAL, unix.RTPROT_STATIC, scope, unix.RTN_LOCAL, 0, 0, 0, 0}
	return message(unix.RTM_NEWROUTE, anew, body, native32(unix.RTA_OIF, loopbackIndex), attribute(unix.RTA_PREFSRC, source.AsSlice()))
}

// noMulticast leaves the addresses of multicast without a route: whoever sends there is told so at once, where the local route would take what he sends and
// nobody would hear of it.
func noMulticast(family byte) []byte {
	group, bits := []byte{224, 0, 0, 0}, byte(4)
	if family == unix.AF_INET6 {
		group, bits = append([]byte{0xff}, make([]byte, 15)...), 8
	}
	body := []byte{family, bits, 0, 0, unix.RT_TABLE_LOCAL, unix.RTPROT_STATIC, unix.RT_SCOPE_UNIVERSE, unix.RTN_THROW, 0, 0, 0, 0}
	return message(unix.RTM_NEWROUTE, anew, body, attribute(unix.RTA_DST, group))
}

// dumpRequest asks for all of a kind, of one family or all.
func dumpRequest(kind uint16, family byte) []byte {
	size := map[uint16]int{unix.RTM_GETLINK: unix.SizeofIfInfomsg, unix.RTM_GETADDR: unix.SizeofIfAddrmsg, unix.RTM_GETROUTE: unix.SizeofRtMsg,
		unix.RTM_GETRULE: unix.SizeofRtMsg, unix.RTM_GETQDISC: sizeofTcMsg}[kind]
	return message(kind, unix.NLM_F_DUMP, append([]byte{family}, slices.Repeat([]byte{0}, size-1)...))
}

// sizeofTcMsg is that of struct tcmsg.
const sizeofTcMsg = 20
