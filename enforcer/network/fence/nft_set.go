package fence

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

// The sets of a fence of [AnyIP]: the addresses whose connections come to the relay at all. What isn't in them is refused by the kernel, before anybody
// accepts. Those of datagrams are empty where none are let out.
const (
	reach4     = "reach4"
	reach6     = "reach6"
	datagrams4 = "datagrams4"
	datagrams6 = "datagrams6"
)

// setNames are all of them.
var setNames = []string{reach4, reach6, datagrams4, datagrams6}

// Numbers of nft's own types of values, which the kernel keeps for whoever lists the set (libnftables, datatype.h).
const (
	typeIPv4 = 7
	typeIPv6 = 8
)

// newSet makes an empty set of intervals of addresses. number is its name within the transaction.
func newSet(name string, kind, length, number uint32) []byte {
	return nfMessage(nfTables|unix.NFT_MSG_NEWSET, unix.NLM_F_CREATE, unix.NFPROTO_INET, 0,
		text(unix.NFTA_SET_TABLE, tableName), text(unix.NFTA_SET_NAME, name), big32(unix.NFTA_SET_FLAGS, unix.NFT_SET_INTERVAL),
		big32(unix.NFTA_SET_KEY_TYPE, kind), big32(unix.NFTA_SET_KEY_LEN, length), attribute(unix.NFTA_SET_DESC), big32(unix.NFTA_SET_ID, number))
}

// toReached is a destination that is in the set of its family.
func toReached(set string) [][]byte {
	family, offset, length := ipv4(), uint32(16), uint32(4)
	if set == reach6 || set == datagrams6 {
		family, offset, length = ipv6(), 24, 16
	}
	return slices.Concat(family, [][]byte{
		expression("payload", big32(unix.NFTA_PAYLOAD_DREG, unix.NFT_REG_1), big32(unix.NFTA_PAYLOAD_BASE, unix.NFT_PAYLOAD_NETWORK_HEADER),
			big32(unix.NFTA_PAYLOAD_OFFSET, offset), big32(unix.NFTA_PAYLOAD_LEN, length)),
		expression("lookup", text(unix.NFTA_LOOKUP_SET, set), big32(unix.NFTA_LOOKUP_SREG, unix.NFT_REG_1), big32(unix.NFTA_LOOKUP_FLAGS, 0)),
	})
}

// flushSet takes all elements out.
func flushSet(name string) []byte {
	return nfMessage(nfTables|unix.NFT_MSG_DELSETELEM, 0, unix.NFPROTO_INET, 0, text(unix.NFTA_SET_ELEM_LIST_TABLE, tableName), text(unix.NFTA_SET_ELEM_LIST_SET, name))
}

// addElements adds elements to a set; there is an interval from one that isn't an end to the one behind it.
func addElements(set string, elements []element) []byte {
	var list [][]byte
	for _, e := range elements {
		parts := [][]byte{attribute(unix.NFTA_SET_ELEM_KEY, attribute(unix.NFTA_DATA_VALUE, e.address.AsSlice()))}
		if e.end {
			parts = append(parts, big32(unix.NFTA_SET_ELEM_FLAGS, unix.NFT_SET_ELEM_INTERVAL_END))
		}
		list = append(list, attribute(unix.NFTA_LIST_ELEM, parts...))
	}
	return nfMessage(nfTables|unix.NFT_MSG_NEWSETELEM, unix.NLM_F_CREATE, unix.NFPROTO_INET, 0,
		text(unix.NFTA_SET_ELEM_LIST_TABLE, tableName), text(unix.NFTA_SET_ELEM_LIST_SET, set), attribute(unix.NFTA_SET_ELEM_LIST_ELEMENTS, list...))
}

// getElements asks for all elements of a set.
func getElements(set string) []byte {
	return nfMessage(nfTables|unix.NFT_MSG_GETSETELEM, unix.NLM_F_DUMP, unix.NFPROTO_INET, 0, text(unix.NFTA_SET_ELEM_LIST_TABLE, tableName), text(unix.NFTA_SET_ELEM_LIST_SET, set))
}

// element is where an interval begins, or the first address behind it.
type element struct {
	address netip.Addr
	end     bool
}

func (e element) text() string {
	if e.end {
		return "before " + e.address.String()
	}
	return "from " + e.address.String()
}

// elementTexts are the elements of one answer, by lines as [State.Reach] has them.
func elementTexts(body []byte) (lines []string) {
	if len(body) < 4 {
		return []string{"too short"}
	}
	whole := attributes(body[4:], func(kind uint16, list, _ []byte) {
		if kind != unix.NFTA_SET_ELEM_LIST_ELEMENTS {
			return
		}
		if !attributes(list, func(_ uint16, one, _ []byte) { lines = append(lines, elementText(one)) }) {
			lines = append(lines, "odd attributes")
		}
	})
	if !whole {
		lines = append(lines, "odd attributes")
	}
	return lines
}

// elementText is one element. What it has besides its address and its being an end, such as a time at which it goes, is named by its number.
func elementText(data []byte) string {
	var e element
	more := ""
	attributes(data, func(kind uint16, payload, whole []byte) {
		switch {
		case kind == unix.NFTA_SET_ELEM_KEY && len(payload) >= 4:
			e.address, _ = netip.AddrFromSlice(payload[4:])
		case kind == unix.NFTA_SET_ELEM_FLAGS && len(payload) == 4 && binary.BigEndian.Uint32(payload)&^unix.NFT_SET_ELEM_INTERVAL_END == 0:
			e.end = binary.BigEndian.Uint32(payload) == unix.NFT_SET_ELEM_INTERVAL_END
		default:
			more += attributeText(kind, payload)
		}
	})
	return e.text() + more
}
