package relay

import (
	"net/netip"
	"strconv"
	"strings"
)

// host is whom a client says it talks to: a name or an address, and the port if it wrote one.
type host struct {
	name string // lower case, without a dot at the end; empty for an address
	addr netip.Addr
	port uint16 // 0: none was written
}

// parseHost reads what stands in Host, :authority, a CONNECT target or the authority of an absolute URL. Only the plainest spelling of each is
// taken: where two readers might differ (127.1, an escaped byte, a user before @, an empty port), there is nothing to agree on.
func parseHost(text string) (host, bool) {
	if rest, ok := strings.CutPrefix(text, "["); ok {
		inside, after, ok := strings.Cut(rest, "]")
		if !ok {
			return host{}, false
		}
		addr, err := netip.ParseAddr(inside)
		if err != nil || !addr.Is6() || addr.Zone() != "" {
			return host{}, false
		}
		port, ok := parsePort(after)
		return host{addr: addr, port: port}, ok
	}
	name, portText := text, ""
	if i := strings.IndexByte(text, ':'); i >= 0 {
		name, portText = text[:i], text[i:]
	}
	port, ok := parsePort(portText)
	if !ok {
		return host{}, false
	}
	trimmed, dotted := strings.CutSuffix(name, ".")
	if endsInNumber(trimmed) {
		addr, err := netip.ParseAddr(trimmed)
		return host{addr: addr, port: port}, err == nil && !dotted
	}
	name = trimmed
	if !isName(name) {
		return host{}, false
	}
	return host{name: strings.ToLower(name), port: port}, true
}

// parsePort reads nothing, or a colon and a port.
func parsePort(text string) (uint16, bool) {
	if text == "" {
		return 0, true
	}
	digits := text[1:]
	port, err := strconv.ParseUint(digits, 10, 16)
	return uint16(port), text[0] == ':' && err == nil && port > 0 && digits[0] >= '1' && digits[0] <= '9'
}

// endsInNumber: the last label is a number, decimal or hexadecimal, which some resolvers take for an address and no name ends in.
func endsInNumber(name string) bool {
	last := strings.ToLower(name[strings.LastIndexByte(name, '.')+1:])
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return last != "" && strings.Trim(last, "0123456789") == ""
}

// isName takes labels of letters, digits, '-' and '_', each of 1 to 63 bytes, 253 in all.
func isName(name string) bool {
	if name == "" || len(name) > 253 {
		return false
	}
	label := 0
	for i := range len(name) {
		switch c := name[i]; {
		case c == '.':
			if label == 0 {
				return false
			}
			label = 0
			continue
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_':
			label++
		default:
			return false
		}
		if label > 63 {
			return false
		}
	}
	return label > 0
}
