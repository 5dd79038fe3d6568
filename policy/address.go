package policy

import (
	"net/netip"
	"strings"
)

// ParseAddress reads an address as a rule, a proxy's client or an answer may write it, and in no other way: IPv4 as four decimal numbers without
// leading zeros, IPv6 as RFC 4291 has it. An IPv4 address in the form of an IPv6 one and a zone are refused: one thing has one spelling. The error
// is a *[FieldError] without a field.
func ParseAddress(text string) (netip.Addr, error) {
	address, fault := parseAddress("", text, text)
	return address, orNil(fault)
}

// ParseHost reads the host of a URL, of CONNECT or of a Host header, without brackets and port: a name in canonical form, or an address. What
// libc, a browser or a proxy would read as an address is never a name. One dot at the end is taken off: it is the same name.
func ParseHost(text string) (name string, address netip.Addr, err error) {
	if looksLikeAddress(text) {
		address, err = ParseAddress(text)
		return "", address, err
	}
	parsed, fault := parseName("", strings.TrimSuffix(text, "."))
	switch {
	case fault != nil:
		return "", netip.Addr{}, fault
	case parsed.Wildcard:
		return "", netip.Addr{}, faultf("", "%s isn't a name: it has '*'", quote(text))
	}
	return parsed.Name, netip.Addr{}, nil
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

// parseAddress reads text, a part of whole, which errors show.
func parseAddress(field, text, whole string) (netip.Addr, *FieldError) {
	address, err := netip.ParseAddr(text)
	switch {
	case err != nil:
		return netip.Addr{}, faultf(field, "%s isn't an address; write four decimal numbers without leading zeros, or IPv6", quote(whole))
	case address.Zone() != "":
		return netip.Addr{}, faultf(field, "%s has a zone, which means nothing outside of its host", quote(whole))
	case address.Is4In6():
		fault := faultf(field, "%s is an IPv4 address written as IPv6", quote(whole))
		if text == whole {
			fault.Nearest = address.Unmap().String()
		}
		return netip.Addr{}, fault
	}
	return address, nil
}

// parsePrefix reads an address, which is the prefix of its whole length, or a prefix.
func parsePrefix(field, text string) (Target, *FieldError) {
	host, _, slash := strings.Cut(text, "/")
	address, fault := parseAddress(field, host, text)
	switch {
	case fault != nil:
		return Target{}, fault
	case !slash:
		return Target{Prefix: netip.PrefixFrom(address, address.BitLen())}, nil
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return Target{}, faultf(field, "%s isn't a prefix; write address/length, with a length of at most %d", quote(text), address.BitLen())
	}
	if masked := prefix.Masked(); masked != prefix {
		return Target{}, &FieldError{Field: field, Message: quote(text) + " has bits behind its length", Nearest: masked.String()}
	}
	return Target{Prefix: prefix}, nil
}
