package policy

import (
	"cmp"
	"slices"
)

// Equal says whether two specs say the same, as far as order doesn't matter: among neighbours of one action no rule comes before another, ports of
// one target add up, and what comes twice counts once. It never says yes of two that let out different things.
func (s NetworkSpec) Equal(other NetworkSpec) bool {
	a, b := s.Defaulted(), other.Defaulted()
	return a.DefaultAction == b.DefaultAction && a.Datagrams == b.Datagrams && slices.EqualFunc(a.asSets(), b.asSets(), func(a, b EgressRule) bool {
		return a.Action == b.Action && a.Target == b.Target && slices.Equal(a.Ports, b.Ports)
	})
}

// asSets sorts each run of rules of one action, and makes one rule of those of one target.
func (s NetworkSpec) asSets() []EgressRule {
	var sets []EgressRule
	for rest := slices.Clone(s.Egress); len(rest) > 0; {
		length := slices.IndexFunc(rest, func(r EgressRule) bool { return r.Action != rest[0].Action })
		if length < 0 {
			length = len(rest)
		}
		run := rest[:length]
		rest = rest[length:]
		// All ports come first, and no ports after them.
		slices.SortStableFunc(run, func(a, b EgressRule) int {
			return cmp.Or(cmp.Compare(a.Target, b.Target), cmp.Compare(min(len(a.Ports), 1), min(len(b.Ports), 1)))
		})
		for i := 0; i < len(run); {
			one := run[i]
			ports := slices.Clone(one.Ports)
			for i++; i < len(run) && run[i].Target == one.Target; i++ {
				ports = append(ports, run[i].Ports...)
			}
			if len(one.Ports) > 0 {
				slices.Sort(ports)
				one.Ports = slices.Compact(ports)
			}
			sets = append(sets, one)
		}
	}
	return sets
}
