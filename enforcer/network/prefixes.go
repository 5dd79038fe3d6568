package network

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"
)

// prefixes are the prefixes of the rules as a sorted list of where an address range begins, and which prefix is the longest one there. Each
// prefix knows the next shorter one around it.
type prefixes struct {
	nodes  []prefix
	v4, v6 []boundary
}

type prefix struct {
	parent int32 // index in nodes, or -1
	bits   int
	every  portsAt // all its rules
	denies portsAt // without those that allow, for an address whose range the prefix doesn't name
}

// boundary begins a range that ends where the next one begins.
type boundary struct {
	key  key
	node int32 // index in nodes, or -1
}

type key struct{ high, low uint64 }

func (k key) less(other key) bool {
	return k.high < other.high || k.high == other.high && k.low < other.low
}

func keyOf(a netip.Addr) key {
	if a.Is4() {
		b := a.As4()
		return key{high: uint64(binary.BigEndian.Uint32(b[:]))}
	}
	b := a.As16()
	return key{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
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
	table := prefixes{v4: []boundary{{node: -1}}, v6: []boundary{{node: -1}}}
	var open []int32 // the prefixes around the place that the loop is at, each with its end
	var ends []netip.Addr
	leave := func(until netip.Addr) {
		for len(open) > 0 && (!until.IsValid() || ends[len(open)-1].BitLen() != until.BitLen() || ends[len(open)-1].Less(until)) {
			end, parent := ends[len(open)-1], table.nodes[open[len(open)-1]].parent
			open, ends = open[:len(open)-1], ends[:len(ends)-1]
			if next := end.Next(); next.IsValid() {
				table.begin(next, parent)
			}
		}
	}
	for i, p := range sorted {
		leave(p.Addr())
		node := prefix{parent: -1, bits: p.Bits(), every: ports.add(rules[p])}
		if len(open) > 0 {
			node.parent = open[len(open)-1]
		}
		node.denies = ports.add(slices.DeleteFunc(slices.Clone(rules[p]), func(m marked) bool { return m.mark&1 == 1 }))
		table.nodes = append(table.nodes, node)
		table.begin(p.Addr(), int32(i))
		open, ends = append(open, int32(i)), append(ends, lastOf(p))
	}
	leave(netip.Addr{})
	return table
}

// begin says that from a on node is the longest prefix. What begins at the same address is within what began there before.
func (t *prefixes) begin(a netip.Addr, node int32) {
	list := &t.v6
	if a.Is4() {
		list = &t.v4
	}
	b := boundary{keyOf(a), node}
	if last := &(*list)[len(*list)-1]; last.key == b.key {
		*last = b
		return
	}
	*list = append(*list, b)
}

// lastOf is the last address of p.
func lastOf(p netip.Prefix) netip.Addr {
	bytes := p.Addr().AsSlice()
	for i := p.Bits(); i < 8*len(bytes); i++ {
		bytes[i/8] |= 0x80 >> (i % 8)
	}
	last, _ := netip.AddrFromSlice(bytes)
	return last
}

// longest is the index of the longest prefix that a lies in, or -1.
func (t *prefixes) longest(a netip.Addr) int32 {
	list := t.v6
	if a.Is4() {
		list = t.v4
	}
	k := keyOf(a)
	low := 0
	for n := len(list); n > 1; { // the one that is looked for is among list[low : low+n]
		half := n / 2
		if !k.less(list[low+half].key) {
			low += half
		}
		n -= half
	}
	return list[low].node
}
