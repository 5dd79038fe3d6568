package policy

import (
	"net/netip"
	"strings"
)

// Target is the parsed target of an egress rule: a name, every name beneath one, or a prefix (an address is a prefix of its whole length).
type Target struct {
	Name     string // canonical: lower case, without "*."; empty for a prefix
	Wildcard bool   // all names beneath Name, and not Name
	Prefix   netip.Prefix
}

// What DNS takes: RFC 1035 §2.3.4.
const (
	longestName  = 253
	longestLabel = 63
)

// String is the canonical form.
func (t Target) String() string {
	switch {
	case t.Wildcard:
		return "*." + t.Name
	case t.Name != "":
		return t.Name
	case t.Prefix.IsSingleIP():
		return t.Prefix.Addr().String()
	default:
		return t.Prefix.String()
	}
}

// ParseTarget reads a target; String is its canonical form. The error is a *[FieldError] without a field.
func ParseTarget(text string) (Target, error) {
	target, fault := parseTarget("", text)
	return target, orNil(fault)
}

// parseTarget reads a target. Each thing that people write in its place has its own words, since an egress rule that silently means something
// else is an open door or a riddle.
func parseTarget(field, text string) (Target, *FieldError) {
	switch {
	case text == "":
		return Target{}, faultf(field, "empty, want a name, *.name, an address or a prefix")
	case text == "*":
		return Target{}, faultf(field, `"*" isn't a target; for everything write defaultAction "allow"`)
	case strings.Contains(text, "://"):
		return Target{}, faultf(field, "%s has a scheme, want the name alone", quote(text))
	case strings.HasPrefix(text, "["):
		return Target{}, faultf(field, "%s has brackets, want the address alone and ports in ports", quote(text))
	}
	if looksLikeAddress(text) {
		return parsePrefix(field, text)
	}
	return parseName(field, text)
}

func parseName(field, text string) (Target, *FieldError) {
	switch {
	case strings.ContainsAny(text, "/?#"):
		return Target{}, faultf(field, "%s has a path, want the name alone", quote(text))
	case strings.Contains(text, "@"):
		return Target{}, faultf(field, "%s has a user, want the name alone", quote(text))
	case strings.Contains(text, ":"):
		return Target{}, faultf(field, "%s has a port, want the name alone and ports in ports", quote(text))
	case len(text) > longestName+len("*."):
		return Target{}, faultf(field, "%d bytes, a name has at most %d", len(text), longestName)
	case strings.HasSuffix(text, "."):
		fault := faultf(field, "%s ends in a dot", quote(text))
		if meant, err := ParseTarget(strings.TrimRight(text, ".")); err == nil { // and nothing else: it is foreign text
			fault.Nearest = meant.String()
		}
		return Target{}, fault
	}
	name, wildcard := strings.CutPrefix(strings.ToLower(text), "*.")
	if strings.Contains(name, "*") {
		return Target{}, faultf(field, "%s has a * elsewhere than in a first label of its own, want *.name", quote(text))
	}
	for _, label := range strings.Split(name, ".") {
		if fault := checkLabel(field, text, label); fault != nil {
			return Target{}, fault
		}
	}
	switch {
	case len(name) > longestName:
		return Target{}, faultf(field, "%d bytes, a name has at most %d", len(name), longestName)
	case wildcard && !strings.Contains(name, "."):
		return Target{}, faultf(field, "%s is everything beneath a public suffix; want *.name with a name of its owner's", quote(text))
	case name == "localhost" || strings.HasSuffix(name, ".localhost"):
		return Target{}, faultf(field, "%s is the sandbox itself, which no rule is needed for", quote(text))
	}
	return Target{Name: name, Wildcard: wildcard}, nil
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

// neverReachable says why the whole target stays closed whatever the rules say: an allow rule for it would promise what isn't kept.
func (t Target) neverReachable() string {
	if t.Name != "" {
		if MetadataName(t.Name) {
			return "a metadata name"
		}
		return ""
	}
	switch rangeOfPrefix(t.Prefix).Class {
	case ClassMetadata:
		return "a metadata address"
	case ClassUnspecified:
		return "no address"
	case ClassLoopback:
		return "the sandbox itself"
	case ClassMulticast:
		return "a multicast address"
	case ClassBroadcast:
		return "a broadcast address"
	}
	return ""
}
