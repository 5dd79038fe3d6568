package network

import (
	"net/netip"
	"slices"
)

// Reachable says whether an address that name resolved to may be connected to for its sake, on any port at all: what is answered for a name before
// it is known which port is dialled. If not, it says why, the address's reason before the name's.
func (s Set) Reachable(name string, a netip.Addr) Match {
	why := Match{Rule: Default, Reason: noRules}
	for _, port := range s.ports(name, a.Unmap()) {
		match := s.Name(name, port)
		if !match.Allow {
			if why.Reason == noRules {
				why = match
			}
			continue
		}
		if match = s.Resolved(match, a, port); match.Allow {
			return match
		}
		why = match
	}
	return why
}

// ports are one of each that the rules tell apart for a name and an address: those that a rule lists, and one that none does.
func (s Set) ports(name string, a netip.Addr) []uint16 {
	var listed []uint16
	for _, r := range s.rules {
		if r == nil {
			continue
		}
		for _, at := range r.domains.all(name) {
			listed = append(listed, r.ports.listed(at)...)
		}
		listed = append(listed, r.listedFor(a)...)
		if inner, reason := embedded(a); reason == "" && inner.IsValid() {
			listed = append(listed, r.listedFor(inner)...)
		}
	}
	slices.Sort(listed)
	listed = slices.Compact(listed)
	unlisted := uint16(1)
	for _, port := range listed {
		if port == unlisted {
			unlisted++
		}
	}
	if unlisted == 0 { // every port is listed
		return listed
	}
	return append(listed, unlisted)
}

func (r *Rules) listedFor(a netip.Addr) (ports []uint16) {
	if !a.IsValid() {
		return nil
	}
	for node := r.prefixes.longest(a); node >= 0; node = r.prefixes.nodes[node].parent {
		ports = append(ports, r.ports.listed(r.prefixes.nodes[node].every)...)
		ports = append(ports, r.ports.listed(r.prefixes.nodes[node].denies)...)
	}
	return ports
}
