package network

import (
	"hash/maphash"
	"math/bits"
	"strings"
)

// nameTable is a hash table from names to what rules say of them, laid out so that a look touches little memory: most names that no rule has
// are told by their number of labels or by one bit, and a name that has one costs one slot and one comparison.
type nameTable struct {
	seed   maphash.Seed
	labels [2]uint64  // which numbers of labels its names have
	some   []uint64   // one bit for each hash that there is; 16 bits a name
	slots  []nameSlot // open addressing, half full at most
	shift  int        // the slot of a hash is in its upper bits
	names  string     // all of them, one behind the other
}

type nameSlot struct {
	tag    uint32 // of the hash: what differs in it needs no comparison
	length uint32 // of the name, 0 in an empty slot
	from   uint32 // in names
	at     portsAt
}

func newNameTable(rules map[string]portsAt, seed maphash.Seed) nameTable {
	size := bits.Len(uint(2 * len(rules)))
	table := nameTable{seed: seed, some: make([]uint64, max(1, 16<<size/64)), slots: make([]nameSlot, 1<<size), shift: 64 - size}
	var names strings.Builder
	for name, at := range rules {
		labels := 1 + strings.Count(name, ".")
		table.labels[labels/64] |= 1 << (labels % 64)
		hash := maphash.String(seed, name)
		table.some[table.word(hash)] |= 1 << (hash % 64)
		i := hash >> table.shift
		for table.slots[i].length != 0 {
			i = (i + 1) & uint64(len(table.slots)-1)
		}
		table.slots[i] = nameSlot{uint32(hash), uint32(len(name)), uint32(names.Len()), at}
		names.WriteString(name)
	}
	table.names = names.String()
	return table
}

// word is the place in some of a hash's bit, which is at hash % 64 there.
func (t *nameTable) word(hash uint64) uint64 { return hash >> 6 & uint64(len(t.some)-1) }

// has says whether any name has so many labels.
func (t *nameTable) has(labels int) bool { return t.labels[labels/64]&(1<<(labels%64)) != 0 }

// find is what rules say of name.
func (t *nameTable) find(name string) portsAt {
	hash := maphash.String(t.seed, name)
	if t.some[t.word(hash)]&(1<<(hash%64)) == 0 {
		return nothing
	}
	for i := hash >> t.shift; ; i = (i + 1) & uint64(len(t.slots)-1) {
		s := &t.slots[i]
		if s.length == 0 {
			return nothing
		}
		if s.tag == uint32(hash) && t.names[s.from:s.from+s.length] == name {
			return s.at
		}
	}
}
