package network

import (
	"math/bits"
	"strings"
)

// nameTable is a hash table from names to what rules say of them, laid out so that a look touches little memory: nearly all names that no rule has
// are told by one slot of four bytes, and a name that has one costs one entry and one comparison.
type nameTable struct {
	slots   []nameSlot
	shift   uint // the slot of a hash is in its upper bits
	labels  [2]uint64
	entries []nameEntry
	names   string    // all of them, one behind the other
	others  []portsAt // see nameEntry
}

// nameSlot is an index in entries beneath as many bits of the hash as there is room for; 0 is an empty slot. At most half of them are taken, and what
// doesn't find its own free is in the next.
type nameSlot uint32

// nameEntry is a name and what rules say of it, target by target: a name lies beneath others.
type nameEntry struct {
	from, to         uint32 // in names
	at               portsAt
	others, othersTo uint32 // in others: the second target and those behind it
}

func newNameTable(rules map[string][]portsAt, seed nameSeed) nameTable {
	size := bits.Len(uint(2 * len(rules)))
	table := nameTable{slots: make([]nameSlot, 1<<size), shift: uint(64 - size), entries: make([]nameEntry, 1, 1+len(rules))}
	var names strings.Builder
	for name, ats := range rules {
		labels := 1 + strings.Count(name, ".")
		table.labels[labels/64] |= 1 << (labels % 64)
		hash := seed.hash(name)
		i := hash >> table.shift
		for table.slots[i] != 0 {
			i = (i + 1) & uint64(len(table.slots)-1)
		}
		table.slots[i] = nameSlot(len(table.entries)) | table.tag(hash)
		entry := nameEntry{from: uint32(names.Len()), at: ats[0], others: uint32(len(table.others))}
		names.WriteString(name)
		table.others = append(table.others, ats[1:]...)
		entry.to, entry.othersTo = uint32(names.Len()), uint32(len(table.others))
		table.entries = append(table.entries, entry)
	}
	table.names = names.String()
	return table
}

// tag is of the lower bits of the hash, in a slot above all indices.
func (t *nameTable) tag(hash uint64) nameSlot { return nameSlot(hash) &^ nameSlot(len(t.slots)-1) }

// has says whether any name has so many labels.
func (t *nameTable) has(labels uint) bool { return t.labels[labels/64&1]>>(labels%64)&1 == 1 }

// may says whether a name with this hash may be there: its slot isn't empty.
func (t *nameTable) may(hash uint64) bool { return t.slots[hash>>t.shift] != 0 }

// find is the entry of name, which has this hash; nil: there is none.
func (t *nameTable) find(name string, hash uint64) *nameEntry {
	last := nameSlot(len(t.slots) - 1)
	for i := hash >> t.shift; ; i = (i + 1) & uint64(last) {
		switch slot := t.slots[i]; {
		case slot == 0:
			return nil
		case slot^t.tag(hash) <= last:
			if e := &t.entries[slot&last]; t.names[e.from:e.to] == name {
				return e
			}
		}
	}
}

// first is the mark of the first rule of an entry's that matches a port.
func (t *nameTable) first(e *nameEntry, port wanted, ports *portTable) mark {
	first := ports.find(e.at, port)
	for i := e.others; i < e.othersTo; i++ {
		first = min(first, ports.find(t.others[i], port))
	}
	return first
}

// all is what rules say of an entry's name.
func (t *nameTable) all(e *nameEntry) []portsAt {
	return append([]portsAt{e.at}, t.others[e.others:e.othersTo]...)
}
