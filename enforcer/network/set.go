package network

import "net/netip"

// Set is what several rules allow together: those of a sandbox and those of each exec that runs in it. The zero value, of no rules, denies.
type Set struct{ rules []*Rules }

// All is the set of rules.
func All(rules ...*Rules) Set { return Set{rules} }

// Datagrams says whether all of them let datagrams out, where they let something out.
func (s Set) Datagrams() bool {
	for _, rules := range s.rules {
		if rules == nil || !rules.spec.Datagrams {
			return false
		}
	}
	return len(s.rules) > 0
}

// Name is [Rules.Name]: the first that denies, else the last that allows.
func (s Set) Name(name string, port uint16) Match {
	match := Match{Rule: Default, Reason: noRules}
	for i, rules := range s.rules {
		match = rules.Name(name, port)
		match.In = i
		if !match.Allow {
			return match
		}
	}
	return match
}

// Resolvable is [Rules.Resolvable] of all. There may be no port that they allow together, which Name tells.
func (s Set) Resolvable(name string) Match {
	match := Match{Rule: Default, Reason: noRules}
	for i, rules := range s.rules {
		match = rules.Resolvable(name)
		match.In = i
		if !match.Allow {
			return match
		}
	}
	return match
}

// Address is [Rules.Address] of all.
func (s Set) Address(a netip.Addr, port uint16) Match {
	match := Match{Rule: Default, Reason: noRules}
	for i, rules := range s.rules {
		match = rules.Address(a, port)
		match.In = i
		if !match.Allow {
			return match
		}
	}
	return match
}

// Resolved is [Rules.Resolved] of all: each judges the name once more, since each allowed it by a rule of its own.
func (s Set) Resolved(name Match, a netip.Addr, port uint16) Match {
	match := Match{Rule: Default, Reason: noRules}
	if !name.Allow {
		return Match{Rule: Closed, Reason: unjudged}
	}
	for i, rules := range s.rules {
		if match = rules.Name(name.name, port); match.Allow {
			match = rules.Resolved(match, a, port)
		}
		match.In = i
		if !match.Allow {
			return match
		}
	}
	return match
}

// Spells says whether the rule that decided spells out a whole name, rather than being one for all names beneath another.
func (s Set) Spells(m Match, name string) bool {
	if m.Rule < 0 || m.In >= len(s.rules) {
		return false
	}
	egress := s.rules[m.In].spec.Egress
	return m.Rule < len(egress) && egress[m.Rule].Target == name
}
