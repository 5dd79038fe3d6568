package network

import (
	"net/netip"
	"slices"

	"github.com/sandboxd/sandboxd/policy"
)

// Rules is a compiled [policy.NetworkSpec]. It doesn't change and may be used by many at once; nil denies everything.
type Rules struct {
	spec         policy.NetworkSpec
	digest       string
	defaultAllow bool
	domains      domains
	prefixes     prefixes
	ports        portTable
}

// Compile makes rules of a spec, which it brings into its canonical form. What is wrong with it is a *[policy.FieldError] that begins with
// "network".
func Compile(spec policy.NetworkSpec) (*Rules, error) {
	spec = spec.Defaulted()
	if err := Check(spec); err != nil {
		return nil, err
	}
	rules := &Rules{ports: newPortTable(), spec: spec, digest: policy.Digest(spec), defaultAllow: spec.DefaultAction == policy.NetworkAllow}
	names, addresses := map[string]*domainRules{}, map[netip.Prefix][]marked{}
	for i, rule := range spec.Egress {
		target, err := policy.ParseTarget(rule.Target)
		if err != nil {
			return nil, err
		}
		one := marked{markOf(i, rule), rule.Ports}
		if target.Name == "" {
			addresses[target.Prefix] = append(addresses[target.Prefix], one)
			continue
		}
		of := names[target.Name]
		if of == nil {
			of = &domainRules{}
			names[target.Name] = of
		}
		if target.Wildcard {
			of.beneath = append(of.beneath, one)
		} else {
			of.exact = append(of.exact, one)
		}
	}
	rules.domains = newDomains(names, &rules.ports)
	rules.prefixes = newPrefixes(addresses, &rules.ports)
	return rules, nil
}

// Spec is what the rules were made of, in canonical form. It isn't to be changed.
func (r *Rules) Spec() policy.NetworkSpec { return r.spec }

// Digest is the spec's.
func (r *Rules) Digest() string { return r.digest }

// Name judges a name, in lower case and without a dot at its end, on a port. What it resolves to is for [Rules.Resolved].
func (r *Rules) Name(name string, port uint16) (match Match) {
	if r == nil {
		return Match{Rule: Default, Reason: noRules}
	}
	first, canonical := r.domains.first(name, r.ports.of(port), &r.ports)
	if !canonical {
		return Match{Rule: Closed, Reason: notAName}
	}
	match.decide(first, r.defaultAllow)
	match.name = name
	return match
}

// Resolvable says whether a name is allowed on any port at all. The rule is the first one that allows a port, else the first one that denies one.
func (r *Rules) Resolvable(name string) Match {
	if r == nil {
		return Match{Rule: Default, Reason: noRules}
	}
	closed, canonical := r.domains.first(name, wanted{}, &r.ports)
	switch {
	case !canonical:
		return Match{Rule: Closed, Reason: notAName}
	case closed < 0:
		return closed.match(false)
	}
	found := r.domains.all(name)
	marks := []mark{none} // the first one is that of the ports that no rule lists
	for _, at := range found {
		marks[0] = min(marks[0], r.ports.find(at, wanted{}))
		for _, port := range r.ports.listed(at) {
			first := none
			for _, at := range found {
				first = min(first, r.ports.find(at, r.ports.of(port)))
			}
			marks = append(marks, first)
		}
	}
	slices.Sort(marks)
	match := marks[0].match(r.defaultAllow)
	for _, one := range marks {
		if allowed := one.match(r.defaultAllow); allowed.Allow {
			match = allowed
			break
		}
	}
	match.name = name
	return match
}

// Address judges a literal address on a port: by the rules of addresses, then by its class.
func (r *Rules) Address(a netip.Addr, port uint16) (match Match) {
	switch {
	case r == nil:
		return Match{Rule: Default, Reason: noRules}
	case !a.IsValid() || a.Zone() != "":
		return Match{Rule: Closed, Reason: noAddress}
	}
	a = a.Unmap()
	of := policy.RangeOf(a)
	r.literal(&match, a, port, &of)
	if !match.Allow || of.Class != policy.ClassTranslated {
		return match
	}
	inner, reason := embedded(a)
	if reason != "" {
		return Match{Rule: Closed, Reason: reason}
	}
	var within Match
	of = policy.RangeOf(inner)
	if r.literal(&within, inner, port, &of); !within.Allow {
		return within
	}
	return match
}

// Resolved judges an address that an allowed name resolved to. A deny of the address counts if it stands before the rule that allowed the name; a
// closed class stays closed unless the address is allowed by itself.
func (r *Rules) Resolved(name Match, a netip.Addr, port uint16) (match Match) {
	switch {
	case r == nil:
		return Match{Rule: Default, Reason: noRules}
	case !name.Allow:
		return Match{Rule: Closed, Reason: unjudged}
	case !a.IsValid() || a.Zone() != "":
		return Match{Rule: Closed, Reason: noAddress}
	}
	a = a.Unmap()
	of := policy.RangeOf(a)
	match = name
	r.resolved(&match, a, port, &of)
	if !match.Allow || of.Class != policy.ClassTranslated {
		return match
	}
	inner, reason := embedded(a)
	if reason != "" {
		return Match{Rule: Closed, Reason: reason}
	}
	of = policy.RangeOf(inner)
	r.resolved(&match, inner, port, &of) // which is the name's as yet
	return match
}

// resolved leaves the match of a name as it is, or says why its address is denied.
func (r *Rules) resolved(match *Match, a netip.Addr, port uint16, of *policy.Range) {
	deny, want := none, r.ports.of(port)
	for node := r.prefixes.longest(a); node >= 0; node = r.prefixes.nodes[node].parent {
		deny = min(deny, r.ports.find(r.prefixes.nodes[node].denies, want))
	}
	if deny != none && (match.Rule == Default || int(deny>>1) < match.Rule) {
		*match = deny.match(false)
		return
	}
	if of.Class != policy.ClassPublic {
		var literal Match
		if r.literal(&literal, a, port, of); !literal.Allow {
			*match = literal
		}
	}
}

// literal is by the first rule that matches an address of a range, which isn't a mapped one. What it stands for is judged by the caller.
func (r *Rules) literal(match *Match, a netip.Addr, port uint16, of *policy.Range) {
	closed, first, want := of.Class != policy.ClassPublic, none, r.ports.of(port)
	for node := r.prefixes.longest(a); node >= 0; {
		prefix := &r.prefixes.nodes[node]
		at := prefix.every
		if closed && (of.Class.Never() || int(prefix.bits) < of.Prefix.Bits()) {
			at = prefix.denies
		}
		first = min(first, r.ports.find(at, want))
		node = prefix.parent
	}
	if first == none && closed {
		*match = Match{Rule: Closed, Reason: closedReasons[of.Class]}
		return
	}
	match.decide(first, r.defaultAllow)
}

// embedded is the IPv4 address that a stands for, if any; or why that can't be said.
func embedded(a netip.Addr) (netip.Addr, string) {
	if policy.ClassOf(a) != policy.ClassTranslated {
		return netip.Addr{}, ""
	}
	inner, ok := policy.Embedded(a)
	if !ok {
		return netip.Addr{}, unknownEmbedded
	}
	return inner, ""
}
