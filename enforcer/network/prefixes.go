package network

import (
	"cmp"
	"net/netip"
	"slices"
)

// prefixes are the prefixes of the rules, and for each range of addresses which prefix is the longest one there. Each prefix knows the next shorter one
// around it.
type prefixes struct {
	nodes  []prefix
	v4, v6 boundaries
}

type prefix struct {
	parent int32 // index in nodes, or -1
	bits   uint8
	every  portsAt // all its rules
	denies portsAt // without those that allow, for an address whose range the prefix doesn't name
}

func newPrefixes(rules map[netip.Prefix][]marked, ports *portTable) prefixes {
	sorted := make([]netip.Prefix, 0, len(rules))
	for p := range rules {
		sorted = append(sorted, p)
	}
	// A prefix comes before those that lie in it.
	slices.SortFunc(sorted, func(a, b netip.Prefix) int {
		return cmp.Or(cmp.Compare(a.Addr().BitLen(), b.Addr().BitLen()), a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	table := prefixes{v4: newBoundaries(), v6: newBoundaries()}
	var open []int32 // the prefixes around the place that the loop is at, each with its end
	var ends []netip.Addr
	leave := func(until netip.Addr) {
		for len(open) > 0 && (!until.IsValid() || ends[len(open)-1].BitLen() != until.BitLen() || ends[len(open)-1].Less(until)) {
			end, parent := ends[len(open)-1], table.nodes[open[len(open)-1]].parent
			open, ends = open[:len(open)-1], ends[:len(ends)-1]
			if next := end.Next(); next.IsValid() {
				table.of(next).begin(keyOf(next), parent)
			}
		}
	}
	for i, p := range sorted {
		leave(p.Addr())
		node := prefix{parent: -1, bits: uint8(p.Bits()), every: ports.add(rules[p])}
		if len(open) > 0 {
			node.parent = open[len(open)-1]
		}
		node.denies = ports.add(slices.DeleteFunc(slices.Clone(rules[p]), func(m marked) bool { return m.mark&1 == 1 }))
		table.nodes = append(table.nodes, node)
		table.of(p.Addr()).begin(keyOf(p.Addr()), int32(i))
		open, ends = append(open, int32(i)), append(ends, LastOf(p))
	}
	leave(netip.Addr{})
	table.v4.index()
	table.v6.index()
	return table
}

// of are the boundaries of the family of an address.
func (t *prefixes) of(a netip.Addr) *boundaries {
	if a.Is4() {
		return &t.v4
	}
	return &t.v6
}

// LastOf is the last address of a prefix.
func LastOf(p netip.Prefix) netip.Addr {
	bytes := p.Addr().AsSlice()
	for i := p.Bits(); i < 8*len(bytes); i++ {
		bytes[i/8] |= 0x80 >> (i % 8)
	}
	last, _ := netip.AddrFromSlice(bytes)
	return last
}

// longest is the index of the longest prefix that a lies in, or -1.
func (t *prefixes) longest(a netip.Addr) int32 { return t.of(a).find(keyOf(a)) }
