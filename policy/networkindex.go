package policy

import (
	"net/netip"
	"strings"
)

// networkIndex finds the rules of a list that cover a rule without looking at each: those whose target is its own, or contains it.
type networkIndex struct {
	rules    []networkRule
	byTarget map[Target][]int // places in rules, in order
	lengths  [2][129]bool     // of the prefixes of each family
}

func indexRules(rules []networkRule) *networkIndex {
	index := &networkIndex{rules: rules, byTarget: make(map[Target][]int, len(rules))}
	for i, rule := range rules {
		index.byTarget[rule.Target] = append(index.byTarget[rule.Target], i)
		if rule.Name == "" && !rule.everything {
			index.lengths[family(rule.Prefix.Addr())][rule.Prefix.Bits()] = true
		}
	}
	return index
}

// first is the place of the first wanted rule that covers inner, or the number of rules.
func (x *networkIndex) first(inner networkRule, wanted func(networkRule) bool) int {
	found := len(x.rules)
	look := func(target Target) {
		for _, i := range x.byTarget[target] {
			if i >= found {
				break
			}
			if wanted(x.rules[i]) && x.rules[i].covers(inner) {
				found = i
			}
		}
	}
	look(Target{}) // the default action
	switch {
	case inner.everything:
	case inner.Name != "":
		look(Target{Name: inner.Name})
		look(Target{Name: inner.Name, Wildcard: true})
		for _, parent, ok := strings.Cut(inner.Name, "."); ok; _, parent, ok = strings.Cut(parent, ".") {
			look(Target{Name: parent, Wildcard: true})
		}
	default:
		for bits := range inner.Prefix.Bits() + 1 {
			if x.lengths[family(inner.Prefix.Addr())][bits] {
				look(Target{Prefix: netip.PrefixFrom(inner.Prefix.Addr(), bits).Masked()})
			}
		}
	}
	return found
}
