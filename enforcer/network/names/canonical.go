package names

import "strings"

// Reasons of denials that are not the rules'. Static texts, so that they can label a metric.
const (
	ReasonMalformed = "not a host name"
	ReasonShape     = "not one question of DNS"
	ReasonAddress   = "an address in a name's place"
	ReasonType      = "only A and AAAA are answered"
	ReasonClass     = "only class IN is answered"
	ReasonOperation = "only queries are answered"
	ReasonRate      = "too many queries a second"
	ReasonPending   = "too many lookups under way"
	ReasonLabel     = "label too long for a name that no rule spells out"
	ReasonBits      = "name carries too much for one that no rule spells out"
	ReasonNames     = "too many names asked for by this sandbox"
)

// canonical is qname, in presentation form, in lower case and without the dot at its end. The reason is empty or says why qname is no host name:
// the grammar is that of a policy's targets, so that what policy can't name isn't looked at further. It holds for bytes that are escaped in
// presentation form too, since a backslash is no letter of a name.
func canonical(qname string) (name, reason string) {
	name = strings.ToLower(strings.TrimSuffix(qname, "."))
	if name == "" || len(name) > 253 {
		return "", ReasonMalformed
	}
	last := name
	for rest, more := name, true; more; {
		last, rest, more = strings.Cut(rest, ".")
		if !isLabel(last) {
			return "", ReasonMalformed
		}
	}
	if isNumber(last) {
		return "", ReasonAddress
	}
	return name, ""
}

func isLabel(label string) bool {
	if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
		return false
	}
	for i := range len(label) {
		c := label[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

// isNumber: decimal or hexadecimal, as libc reads addresses.
func isNumber(label string) bool {
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

func isLocalhost(name string) bool {
	return name == "localhost" || strings.HasSuffix(name, ".localhost")
}
