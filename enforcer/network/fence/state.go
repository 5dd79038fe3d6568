package fence

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"

	"golang.org/x/sys/unix"
)

// State is what the kernel says about a fence, one line of text for each thing there is.
type State struct {
	// Namespaces are the inode numbers of the network namespaces that the sockets live in, in the plan's order.
	Namespaces []uint64 `json:"namespaces"`
	// Sockets say for each what it is, what it is bound to and which options it has.
	Sockets []string `json:"sockets"`
	// Links, Addresses, Routes of all tables, Rules of policy routing and Qdiscs are in the kernel's order.
	Links     []string `json:"links"`
	Addresses []string `json:"addresses"`
	Routes    []string `json:"routes"`
	Rules     []string `json:"rules"`
	Qdiscs    []string `json:"qdiscs"`
	// Ruleset is everything in nf_tables, of all families: kind, family, table, name, and the hash of the kernel's own bytes.
	Ruleset []string `json:"ruleset"`
	// Reach are the elements of our sets, "reach4 from 10.0.0.0" and "reach4 before 11.0.0.0", sorted. Admitted is what they were to be when that was read, by
	// [Fence.Admit].
	Reach    []string `json:"reach,omitempty"`
	Admitted []string `json:"admitted,omitempty"`
	// Legacy are tables of the iptables before nf_tables, which that doesn't show. Only for a fence in the daemon's own namespace.
	Legacy []string `json:"legacy,omitempty"`
}

// objectText is a line of a ruleset. The bytes are the message's, without what the kernel numbers or counts by itself.
func objectText(kind string, body []byte) string {
	if len(body) < 4 {
		return kind + " too short"
	}
	hash := sha256.New()
	hash.Write(body[:1]) // the family; version and generation aren't the object's
	var names []string
	whole := attributes(body[4:], func(attribute uint16, payload, bytes []byte) {
		if counted[kind][attribute] {
			return
		}
		if attribute == 1 || attribute == named[kind] {
			names = append(names, strings.TrimRight(string(payload), "\x00"))
		}
		hash.Write(bytes)
	})
	if !whole {
		return kind + " with odd attributes"
	}
	return fmt.Sprintf("%s %s %s %s", kind, familyName(body[0]), strings.Join(names, " "), hex.EncodeToString(hash.Sum(nil)[:16]))
}

// counted are the attributes of each kind that the kernel numbers or counts by itself: handles, uses, positions, and the bytes that align 64 bits.
var counted = map[string]map[uint16]bool{
	"table": {unix.NFTA_TABLE_USE: true, 4 /* NFTA_TABLE_HANDLE */ : true, 5 /* NFTA_TABLE_PAD */ : true, tableOwnerAttribute: true},
	"chain": {unix.NFTA_CHAIN_USE: true, unix.NFTA_CHAIN_HANDLE: true, unix.NFTA_CHAIN_PAD: true},
	"rule":  {unix.NFTA_RULE_HANDLE: true, unix.NFTA_RULE_POSITION: true, unix.NFTA_RULE_PAD: true},
	// Of a set also its name within a transaction, which only who makes it says, and what Linux 6.16 added: how it is kept, and how many elements it has.
	"set": {unix.NFTA_SET_ID: true, unix.NFTA_SET_PAD: true, 16 /* NFTA_SET_HANDLE */ : true, 19 /* NFTA_SET_TYPE */ : true, 20 /* NFTA_SET_COUNT */ : true},
}

// tableOwnerAttribute is NFTA_TABLE_OWNER, the port of the owner's socket.
const tableOwnerAttribute = 7

// named is the attribute of each kind that says what it is called, or, for a rule, whose it is. Attribute 1 is the table of all.
var named = map[string]uint16{
	"chain": unix.NFTA_CHAIN_NAME, "rule": unix.NFTA_RULE_CHAIN, "set": unix.NFTA_SET_NAME, "object": unix.NFTA_OBJ_NAME, "flowtable": 2, /* NFTA_FLOWTABLE_NAME */
}

func familyName(family byte) string {
	if name := map[byte]string{unix.NFPROTO_INET: "inet", unix.NFPROTO_IPV4: "ip", unix.NFPROTO_IPV6: "ip6", unix.NFPROTO_ARP: "arp",
		unix.NFPROTO_NETDEV: "netdev", unix.NFPROTO_BRIDGE: "bridge"}[family]; name != "" {
		return name
	}
	return fmt.Sprint("family", family)
}

// ruleset is what a plan's transaction makes, as [State.Ruleset] has it.
func (p Plan) ruleset() []string {
	var lines []string
	all := messages(p.Netfilter)
	for _, kind := range rulesetKinds {
		for _, m := range all {
			if m.kind == nfTables|kind.answer {
				lines = append(lines, objectText(kind.name, m.body))
			}
		}
	}
	return lines
}

// linkText is a line of RTM_NEWLINK, and notes the link's name.
func linkText(body []byte, names map[uint32]string) string {
	if len(body) < unix.SizeofIfInfomsg {
		return "too short"
	}
	index, state := native.Uint32(body[4:]), " down"
	if native.Uint32(body[8:])&unix.IFF_UP != 0 {
		state = " up"
	}
	whole := attributes(body[unix.SizeofIfInfomsg:], func(kind uint16, payload, _ []byte) {
		switch kind {
		case unix.IFLA_IFNAME:
			names[index] = strings.TrimRight(string(payload), "\x00")
		case unix.IFLA_XDP:
			attributes(payload, func(kind uint16, payload, _ []byte) {
				if kind == unix.IFLA_XDP_ATTACHED && len(payload) > 0 && payload[0] != 0 {
					state += " xdp"
				}
			})
		}
	})
	if !whole {
		state += " with odd attributes"
	}
	return device(index, names) + state
}

func device(index uint32, names map[uint32]string) string {
	if name := names[index]; name != "" {
		return name
	}
	return fmt.Sprint("link", index)
}

// addressText is a line of RTM_NEWADDR.
func addressText(body []byte, names map[uint32]string) string {
	if len(body) < unix.SizeofIfAddrmsg {
		return "too short"
	}
	address := "?"
	attributes(body[unix.SizeofIfAddrmsg:], func(kind uint16, payload, _ []byte) {
		// The local one comes after the peer's where there are both.
		if kind == unix.IFA_LOCAL || kind == unix.IFA_ADDRESS {
			address = addressOf(payload)
		}
	})
	return fmt.Sprintf("%s %s/%d", device(native.Uint32(body[4:]), names), address, body[1])
}

func addressOf(data []byte) string {
	if a, ok := netip.AddrFromSlice(data); ok {
		return a.String()
	}
	return fmt.Sprintf("%x", data)
}

// routeTypes are rtnetlink(7)'s.
var routeTypes = map[byte]string{unix.RTN_UNICAST: "unicast", unix.RTN_LOCAL: "local", unix.RTN_BROADCAST: "broadcast", unix.RTN_ANYCAST: "anycast",
	unix.RTN_MULTICAST: "multicast", unix.RTN_BLACKHOLE: "blackhole", unix.RTN_UNREACHABLE: "unreachable", unix.RTN_PROHIBIT: "prohibit", unix.RTN_THROW: "throw"}

// routeText is a line of RTM_NEWROUTE: "local default dev lo src 198.19.255.1 table 255 proto 4". What it doesn't know it names by its number.
func routeText(body []byte, names map[uint32]string) string {
	if len(body) < unix.SizeofRtMsg {
		return "too short"
	}
	kind := routeTypes[body[7]]
	if kind == "" {
		kind = fmt.Sprint("type", body[7])
	}
	family, bits, table, protocol := body[0], body[1], uint32(body[4]), body[5]
	target, by, source, more := "default", "", "", ""
	whole := attributes(body[unix.SizeofRtMsg:], func(kind uint16, payload, _ []byte) {
		switch kind {
		case unix.RTA_DST:
			target = fmt.Sprintf("%s/%d", addressOf(payload), bits)
		case unix.RTA_OIF:
			by += " dev " + device(number(payload), names)
		case unix.RTA_PREFSRC:
			source = " src " + addressOf(payload)
		case unix.RTA_TABLE:
			table = number(payload)
		case unix.RTA_PRIORITY, unix.RTA_CACHEINFO, unix.RTA_METRICS, unix.RTA_PREF: // change nothing about where it goes
		default:
			more += attributeText(kind, payload)
		}
	})
	if body[2] != 0 || body[3] != 0 || !whole { // from a source, for a type of service
		more += " for some"
	}
	return fmt.Sprintf("%s %s %s%s table %d proto %d", map[byte]string{unix.AF_INET: "ip", unix.AF_INET6: "ip6"}[family], kind, target, by+source+more, table, protocol)
}

// attributeText is one that isn't known, by its number.
func attributeText(kind uint16, payload []byte) string {
	return fmt.Sprintf(" attribute%d %x", kind, payload)
}

func number(data []byte) uint32 {
	if len(data) < 4 {
		return 0
	}
	return native.Uint32(data)
}

// ruleText is a line of RTM_NEWRULE: "ip 32766: table 254". What it selects by, or does, besides going to a table, is named by its number.
func ruleText(body []byte) string {
	if len(body) < unix.SizeofRtMsg {
		return "too short"
	}
	table, priority, more := uint32(body[4]), uint32(0), ""
	attributes(body[unix.SizeofRtMsg:], func(kind uint16, payload, _ []byte) {
		switch kind {
		case unix.FRA_TABLE:
			table = number(payload)
		case unix.FRA_PRIORITY:
			priority = number(payload)
		case unix.FRA_PROTOCOL:
		case unix.FRA_SUPPRESS_PREFIXLEN:
			if number(payload) != 1<<32-1 {
				more += fmt.Sprintf(" suppress %x", payload)
			}
		default:
			more += attributeText(kind, payload)
		}
	})
	if body[1] != 0 || body[2] != 0 || body[3] != 0 || body[7] != unix.FR_ACT_TO_TBL || native.Uint32(body[8:]) != 0 {
		more += fmt.Sprintf(" for some, action %d, flags %#x", body[7], native.Uint32(body[8:]))
	}
	return fmt.Sprintf("%s %d: table %d%s", map[byte]string{unix.AF_INET: "ip", unix.AF_INET6: "ip6"}[body[0]], priority, table, more)
}

// qdiscText is a line of RTM_NEWQDISC: the device and the kind, of which "clsact" and "ingress" can send packets elsewhere.
func qdiscText(body []byte, names map[uint32]string) string {
	if len(body) < sizeofTcMsg {
		return "too short"
	}
	kind := "?"
	attributes(body[sizeofTcMsg:], func(attribute uint16, payload, _ []byte) {
		if attribute == unix.TCA_KIND {
			kind = strings.TrimRight(string(payload), "\x00")
		}
	})
	return device(native.Uint32(body[4:]), names) + " " + kind
}
