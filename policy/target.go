package policy

import (
	"net/netip"
	"strings"
)

// target is the parsed target of an egress rule: a name, every name beneath one, or a prefix (an address is a prefix of its whole length).
type target struct {
	name     string // canonical: lower case, without "*."; empty for a prefix
	wildcard bool
	prefix   netip.Prefix
}

// What DNS takes: RFC 1035 §2.3.4.
const (
	longestName  = 253
	longestLabel = 63
)

// String is the canonical form.
func (t target) String() string {
	switch {
	case t.wildcard:
		return "*." + t.name
	case t.name != "":
		return t.name
	case t.prefix.IsSingleIP():
		return t.prefix.Addr().String()
	default:
		return t.prefix.String()
	}
}

// parseTarget reads a target. Each thing that people write in its place has its own words, since an egress rule that silently means something
// else is an open door or a riddle.
func parseTarget(field, text string) (target, *FieldError) {
	switch {
	case text == "":
		return target{}, faultf(field, "empty, want a name, *.name, an address or a prefix")
	case text == "*":
		return target{}, faultf(field, `"*" isn't a target; for everything write defaultAction "allow"`)
	case strings.Contains(text, "://"):
		return target{}, faultf(field, "%s has a scheme, want the name alone", quote(text))
	case strings.HasPrefix(text, "["):
		return target{}, faultf(field, "%s has brackets, want the address alone and ports in ports", quote(text))
	}
	if looksLikeAddress(text) {
		return parseAddress(field, text)
	}
	return parseName(field, text)
}

// looksLikeAddress: a colon or a slash after digits and dots, or a last label that is a number, decimal or hexadecimal. A name never ends in
// one (WHATWG URL §3.5, "ends in a number"), so that what libc would read as an address (127.1, 0x7f.1, 2130706433) isn't taken for a name.
func looksLikeAddress(text string) bool {
	host, _, slash := strings.Cut(text, "/")
	if strings.Count(host, ":") > 1 {
		return true
	}
	if strings.Contains(host, ":") || (slash && !endsInNumber(host)) {
		return false
	}
	return endsInNumber(host)
}

func endsInNumber(host string) bool {
	host = strings.TrimSuffix(host, ".")
	last := strings.ToLower(host[strings.LastIndexByte(host, '.')+1:])
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return last != "" && strings.Trim(last, "0123456789") == ""
}

func parseAddress(field, text string) (target, *FieldError) {
	host, _, slash := strings.Cut(text, "/")
	address, err := netip.ParseAddr(host)
	switch {
	case err != nil:
		return target{}, faultf(field, "%s isn't an address; write four decimal numbers without leading zeros, or IPv6", quote(text))
	case address.Zone() != "":
		return target{}, faultf(field, "%s has a zone, which means nothing outside of its host", quote(text))
	case address.Is4In6():
		fault := faultf(field, "%s is an IPv4 address written as IPv6", quote(text))
		if !slash {
			fault.Nearest = address.Unmap().String()
		}
		return target{}, fault
	case !slash:
		return target{prefix: netip.PrefixFrom(address, address.BitLen())}, nil
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return target{}, faultf(field, "%s isn't a prefix; write address/length, with a length of at most %d", quote(text), address.BitLen())
	}
	if masked := prefix.Masked(); masked != prefix {
		return target{}, &FieldError{Field: field, Message: quote(text) + " has bits behind its length", Nearest: masked.String()}
	}
	return target{prefix: prefix}, nil
}

func parseName(field, text string) (target, *FieldError) {
	switch {
	case strings.ContainsAny(text, "/?#"):
		return target{}, faultf(field, "%s has a path, want the name alone", quote(text))
	case strings.Contains(text, "@"):
		return target{}, faultf(field, "%s has a user, want the name alone", quote(text))
	case strings.Contains(text, ":"):
		return target{}, faultf(field, "%s has a port, want the name alone and ports in ports", quote(text))
	case len(text) > longestName+len("*."):
		return target{}, faultf(field, "%d bytes, a name has at most %d", len(text), longestName)
	case strings.HasSuffix(text, "."):
		return target{}, &FieldError{Field: field, Message: quote(text) + " ends in a dot", Nearest: strings.ToLower(strings.TrimRight(text, "."))}
	}
	name, wildcard := strings.CutPrefix(strings.ToLower(text), "*.")
	if strings.Contains(name, "*") {
		return target{}, faultf(field, "%s has a * elsewhere than in a first label of its own, want *.name", quote(text))
	}
	for _, label := range strings.Split(name, ".") {
		if fault := checkLabel(field, text, label); fault != nil {
			return target{}, fault
		}
	}
	switch {
	case len(name) > longestName:
		return target{}, faultf(field, "%d bytes, a name has at most %d", len(name), longestName)
	case wildcard && !strings.Contains(name, "."):
		return target{}, faultf(field, "%s is everything beneath a public suffix; want *.name with a name of its owner's", quote(text))
	case name == "localhost" || strings.HasSuffix(name, ".localhost"):
		return target{}, faultf(field, "%s is the sandbox itself, which no rule is needed for", quote(text))
	}
	return target{name: name, wildcard: wildcard}, nil
}

// checkLabel takes letters, digits, '-' inside, and '_', which names of services in private networks have.
func checkLabel(field, text, label string) *FieldError {
	switch {
	case label == "":
		return faultf(field, "%s has an empty label", quote(text))
	case len(label) > longestLabel:
		return faultf(field, "%s has a label of %d bytes, at most %d", quote(text), len(label), longestLabel)
	case label[0] == '-' || label[len(label)-1] == '-':
		return faultf(field, "%s has a label that begins or ends with -", quote(text))
	}
	for _, r := range label {
		switch {
		case r >= 0x80:
			return faultf(field, "%s isn't ASCII, want its xn-- form", quote(text))
		case r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z'):
			return faultf(field, "%s isn't a name: it has %q", quote(text), r)
		}
	}
	return nil
}

// metadata has the addresses at which clouds hand out credentials: AWS, GCP, Azure and others; AWS over IPv6; Alibaba; Oracle.
var metadata = []netip.Addr{
	netip.MustParseAddr("169.254.169.254"), netip.MustParseAddr("169.254.170.2"), netip.MustParseAddr("fd00:ec2::254"),
	netip.MustParseAddr("100.100.100.200"), netip.MustParseAddr("192.0.0.192"), netip.MustParseAddr("fd20:ce::254"),
}

// neverReachable says why a single address stays closed whatever the rules say: an allow rule for it would promise what isn't kept.
func (t target) neverReachable() string {
	if t.name != "" || !t.prefix.IsSingleIP() {
		return ""
	}
	address := t.prefix.Addr()
	for _, closed := range metadata {
		if address == closed {
			return "a metadata address"
		}
	}
	switch {
	case address.IsUnspecified():
		return "no address"
	case address.IsLoopback():
		return "the sandbox itself"
	case address.IsMulticast():
		return "a multicast address"
	}
	return ""
}
