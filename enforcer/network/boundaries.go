package network

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
)

// boundaries are ranges of the addresses of one family that together cover all, in order. An index over the bits in which the ranges differ first leaves
// few of them to look at.
type boundaries struct {
	keys  []uint64 // where each range begins: the upper half of the address
	lower []uint64 // and the lower half
	nodes []int32  // the longest prefix there, an index in prefixes.nodes, or -1
	// buckets are equal parts of what is from base on; each says which is the last range that doesn't begin behind its first address. The last bucket is
	// behind all.
	buckets []uint32
	base    uint64
	shift   uint
}

// key is an address as a number; one of IPv4 is in the upper 32 bits.
type key struct{ high, low uint64 }

func keyOf(a netip.Addr) key {
	if a.Is4() {
		b := a.As4()
		return key{high: uint64(binary.BigEndian.Uint32(b[:])) << 32}
	}
	b := a.As16()
	return key{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

func newBoundaries() boundaries {
	return boundaries{keys: []uint64{0}, lower: []uint64{0}, nodes: []int32{-1}}
}

// begin says that from k on node is the longest prefix. What begins at the same address is within what began there before.
func (b *boundaries) begin(k key, node int32) {
	if last := len(b.keys) - 1; b.keys[last] == k.high && b.lower[last] == k.low {
		b.nodes[last] = node
		return
	}
	b.keys, b.lower, b.nodes = append(b.keys, k.high), append(b.lower, k.low), append(b.nodes, node)
}

// behind says whether a range begins behind k.
func (b *boundaries) behind(i uint32, k key) bool {
	return b.keys[i] > k.high || b.keys[i] == k.high && b.lower[i] > k.low
}

// index makes the buckets, about as many as there are ranges.
func (b *boundaries) index() {
	last := uint32(len(b.keys) - 1)
	if last == 0 {
		return
	}
	b.base = b.keys[1]
	over := b.keys[last] - b.base
	b.shift = uint(max(0, bits.Len64(over)-bits.Len32(last)))
	for bucket, i := uint64(0), uint32(0); bucket <= over>>b.shift; bucket++ {
		for start := (key{high: b.base + bucket<<b.shift}); i < last && !b.behind(i+1, start); {
			i++
		}
		b.buckets = append(b.buckets, i)
	}
	b.buckets = append(b.buckets, last)
}

// fewRanges are looked at one by one, which is faster than a search.
const fewRanges = 8

// find is the node of the range that k lies in.
func (b *boundaries) find(k key) int32 {
	if len(b.buckets) == 0 || k.high < b.base {
		return b.nodes[0]
	}
	bucket := min((k.high-b.base)>>(b.shift&63), uint64(len(b.buckets)-2))
	low, high := b.buckets[bucket], b.buckets[bucket+1]
	for high-low > fewRanges {
		if half := (low + high) / 2; b.behind(half, k) {
			high = half
		} else {
			low = half
		}
	}
	for low < high && !b.behind(low+1, k) {
		low++
	}
	return b.nodes[low]
}
