package policy

import (
	"slices"
	"strings"
)

// WithinNetwork says whether everything that effective lets out, requested lets out too. It is sound and not complete: it never says yes when
// effective lets more out, and says no where it would have to add up several rules, such as an allow of a prefix that two allowed halves make.
//
// Each allow of effective (its default action is the last one) must lie within one allow of requested, and each deny that requested puts
// before that one must be disjoint from it or be covered by a deny that effective puts before it. Then whatever first meets an allow in effective
// meets in requested no deny before that allow.
//
// Names and addresses are never compared with each other: a deny of addresses may concern what a name resolves to. An allow of addresses
// must lie within an allow of addresses and not merely within the default action, because naming a range is what opens a private one: 10.0.0.0/8
// is within 10.0.0.0/8 and not within 0.0.0.0/0, which opens nothing private.
func WithinNetwork(effective, requested NetworkSpec) error {
	if effective.DenyAll() {
		return nil
	}
	if effective.Datagrams && !requested.Datagrams {
		return faultf("network.datagrams", "true in force, but wasn't asked for")
	}
	have, fault := parseRules(effective)
	if fault != nil {
		return fault
	}
	asked, fault := parseRules(requested)
	if fault != nil {
		return fault
	}
	if effective.Equal(requested) {
		return nil
	}
	denies := uncovered(have, asked)
	allows := indexRules(asked)
	for j, rule := range have {
		if !rule.allow {
			continue
		}
		by := allows.first(rule, func(theirs networkRule) bool { return theirs.allow })
		for _, deny := range denies {
			if deny.index > by {
				break
			}
			if deny.coveredFrom > j && !asked[deny.index].disjoint(rule) {
				by = len(asked)
				break
			}
		}
		switch {
		case by < len(asked):
		case rule.everything:
			return faultf("network.defaultAction", "allow in force lets out more than was asked for")
		default:
			return faultf(element("network.egress", j), "%s lets out more than was asked for", rule)
		}
	}
	return nil
}

// askedDeny is a deny of what was asked for: where, and from which place of what is in force on a deny there covers it.
type askedDeny struct{ index, coveredFrom int }

func uncovered(have, asked []networkRule) []askedDeny {
	index := indexRules(have)
	var denies []askedDeny
	for i, deny := range asked {
		if !deny.allow {
			denies = append(denies, askedDeny{i, index.first(deny, func(ours networkRule) bool { return !ours.allow }) + 1})
		}
	}
	return denies
}

// networkRule is an egress rule, parsed; the default action is one that holds for everything.
type networkRule struct {
	Target
	allow      bool
	everything bool
	ports      []int // sorted; none is all
}

func parseRules(spec NetworkSpec) ([]networkRule, *FieldError) {
	spec = spec.Defaulted()
	if fault := spec.check("network"); fault != nil {
		return nil, fault
	}
	rules := make([]networkRule, 0, len(spec.Egress)+1)
	for i, rule := range spec.Egress {
		parsed, fault := parseTarget(member(element("network.egress", i), "target"), rule.Target)
		if fault != nil {
			return nil, fault
		}
		rules = append(rules, networkRule{Target: parsed, allow: rule.Action == NetworkAllow, ports: rule.Ports})
	}
	return append(rules, networkRule{everything: true, allow: spec.DefaultAction == NetworkAllow}), nil
}

func (r networkRule) String() string {
	ports := make([]string, 0, len(r.ports))
	for _, port := range r.ports {
		ports = append(ports, number(float64(port)))
	}
	if len(ports) == 0 {
		return r.Target.String()
	}
	return r.Target.String() + " on " + strings.Join(ports, ", ")
}

// covers says that whatever inner matches, r matches. False when unsure.
func (r networkRule) covers(inner networkRule) bool {
	if len(r.ports) > 0 && (len(inner.ports) == 0 || !subset(inner.ports, r.ports)) {
		return false
	}
	switch {
	case r.everything:
		return inner.everything || inner.Name != "" || !r.allow
	case inner.everything:
		return false
	case r.Name != "" && inner.Name != "":
		return r.coversName(inner.Target)
	case r.Name == "" && inner.Name == "":
		return r.Prefix.Bits() <= inner.Prefix.Bits() && r.Prefix.Contains(inner.Prefix.Addr()) && (!r.allow || r.opens(inner.Target))
	}
	return false
}

// opens says that t, which contains inner, opens what inner opens: to name a range is to lie within it.
func (t Target) opens(inner Target) bool {
	named := rangeOfPrefix(inner.Prefix)
	return named.Class == ClassPublic || t.Prefix.Bits() >= named.Prefix.Bits()
}

func (t Target) coversName(inner Target) bool {
	if t.Wildcard {
		return strings.HasSuffix(inner.Name, "."+t.Name) || inner.Wildcard && inner.Name == t.Name
	}
	return !inner.Wildcard && inner.Name == t.Name
}

// disjoint says that nothing matches both. False when unsure: a name and an address, IPv4 and IPv6, which translations tie together.
func (r networkRule) disjoint(other networkRule) bool {
	if len(r.ports) > 0 && len(other.ports) > 0 && !meet(r.ports, other.ports) {
		return true
	}
	switch {
	case r.everything || other.everything:
		return false
	case r.Name != "" && other.Name != "":
		return !r.coversName(other.Target) && !other.coversName(r.Target)
	case r.Name == "" && other.Name == "":
		return r.Prefix.Addr().Is4() == other.Prefix.Addr().Is4() && !r.Prefix.Overlaps(other.Prefix)
	}
	return false
}

// subset and meet take sorted lists.
func subset(inner, outer []int) bool {
	for _, port := range inner {
		at, found := slices.BinarySearch(outer, port)
		if !found {
			return false
		}
		outer = outer[at+1:]
	}
	return true
}

func meet(a, b []int) bool {
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] == b[0]:
			return true
		case a[0] < b[0]:
			a = a[1:]
		default:
			b = b[1:]
		}
	}
	return false
}
