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
	rules := &Rules{spec: spec, digest: policy.Digest(spec), defaultAllow: spec.DefaultAction == policy.NetworkAllow}
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
func (r *Rules) Name(name string, port uint16) Match {
	if r == nil {
		return Match{Rule: Default, Reason: noRules}
	}
	first, canonical := r.domains.first(name, port, r.ports)
	if !canonical {
		return Match{Rule: Closed, Reason: notAName}
	}
	match := first.match(r.defaultAllow)
	match.name = name
	return match
}

// Resolvable says whether a name is allowed on any port at all. The rule is the first one that allows a port, else the first one that denies one.
func (r *Rules) Resolvable(name string) Match {
	if r == nil {
		return Match{Rule: Default, Reason: noRules}
	}
	if _, canonical := r.domains.first(name, 0, r.ports); !canonical {
		return Match{Rule: Closed, Reason: notAName}
	}
	found := r.domains.all(name)
	unlisted := none // the mark of the ports that no rule lists
	for _, at := range found {
		unlisted = min(unlisted, at.rest)
	}
	marks := []mark{unlisted}
	for _, at := range found {
		for _, line := range r.ports[at.from:at.to] {
			first := none
			for _, at := range found {
				first = min(first, r.ports.find(at, line.port))
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
func (r *Rules) Address(a netip.Addr, port uint16) Match {
	switch {
	case r == nil:
		return Match{Rule: Default, Reason: noRules}
	case !a.IsValid() || a.Zone() != "":
		return Match{Rule: Closed, Reason: noAddress}
	}
	a = a.Unmap()
	of := policy.RangeOf(a)
	match := r.literal(a, port, of)
	if !match.Allow || of.Class != policy.ClassTranslated {
		return match
	}
	inner, reason := embedded(a)
	if reason != "" {
		return Match{Rule: Closed, Reason: reason}
	}
	if within := r.literal(inner, port, policy.RangeOf(inner)); !within.Allow {
		return within
	}
	return match
}

// Resolved judges an address that an allowed name resolved to. A deny of the address counts if it stands before the rule that allowed the name; a
// closed class stays closed unless the address is allowed by itself.
func (r *Rules) Resolved(name Match, a netip.Addr, port uint16) Match {
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
	match := r.resolved(name, a, port, of)
	if !match.Allow || of.Class != policy.ClassTranslated {
		return match
	}
	inner, reason := embedded(a)
	if reason != "" {
		return Match{Rule: Closed, Reason: reason}
	}
	if within := r.resolved(name, inner, port, policy.RangeOf(inner)); !within.Allow {
		return within
	}
	return match
}

func (r *Rules) resolved(name Match, a netip.Addr, port uint16, of policy.Range) Match {
	deny := none
	for node := r.prefixes.longest(a); node >= 0; node = r.prefixes.nodes[node].parent {
		deny = min(deny, r.ports.find(r.prefixes.nodes[node].denies, port))
	}
	if deny != none && (name.Rule == Default || int(deny>>1) < name.Rule) {
		return deny.match(false)
	}
	if of.Class != policy.ClassPublic {
		if match := r.literal(a, port, of); !match.Allow {
			return match
		}
	}
	return name
}

// literal is the first rule that matches an address of a range, which isn't a mapped one. What it stands for is judged by the caller.
func (r *Rules) literal(a netip.Addr, port uint16, of policy.Range) Match {
	closed, first := of.Class != policy.ClassPublic, none
	for node := r.prefixes.longest(a); node >= 0; {
		prefix := &r.prefixes.nodes[node]
		at := prefix.every
		if closed && (of.Class.Never() || prefix.bits < of.Prefix.Bits()) {
			at = prefix.denies
		}
		first = min(first, r.ports.find(at, port))
		node = prefix.parent
	}
	if first == none && closed {
		return Match{Rule: Closed, Reason: closedReasons[of.Class]}
	}
	return first.match(r.defaultAllow)
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
