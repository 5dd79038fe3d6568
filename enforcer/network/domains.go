package network

import (
	"math/bits"
	"math/rand/v2"
	"strings"
)

// domains is the tree of the names that rules have, with every parent of them, in one hash table. A name is walked from its last label on and
// hashed on the way, one byte after the other, so that each parent's hash is ready at its dot; the walk ends at the first parent that no rule is
// beneath.
type domains struct {
	nodes []domain
	slots []slot // open addressing; its length is a power of two
	shift int    // the slot of a hash is in its upper bits, the ones that are mixed best
	seed  uint64 // so that nobody can choose names that share slots
}

type domain struct {
	name           string
	exact, beneath portsAt
}

type slot struct {
	tag  uint32 // more of the hash: what differs in it needs no comparison
	node int32  // 1 + index
}

const multiplier = 0x9E3779B97F4A7C15 // odd, its bits well mixed: 2^64 divided by the golden ratio

// domainRules are the rules of one name while the tree is made.
type domainRules struct{ exact, beneath []marked }

func newDomains(rules map[string]*domainRules, ports *portTable) domains {
	tree := domains{seed: rand.Uint64()}
	seen := make(map[string]bool, 2*len(rules))
	for name := range rules {
		for more := true; more && !seen[name]; _, name, more = strings.Cut(name, ".") {
			seen[name] = true
			node := domain{name: name, exact: nothing, beneath: nothing}
			if of := rules[name]; of != nil {
				node.exact, node.beneath = ports.add(of.exact), ports.add(of.beneath)
			}
			tree.nodes = append(tree.nodes, node)
		}
	}
	size := bits.Len(uint(2 * len(tree.nodes)))
	tree.slots, tree.shift = make([]slot, 1<<size), 64-size
	for i, node := range tree.nodes {
		tree.insert(tree.hash(node.name), int32(i+1))
	}
	return tree
}

func (d *domains) hash(name string) uint64 {
	hash := d.seed
	for i := len(name) - 1; i >= 0; i-- {
		hash = (hash ^ uint64(name[i])) * multiplier
	}
	return hash
}

func (d *domains) insert(hash uint64, node int32) {
	at := int(hash >> d.shift)
	for d.slots[at].node != 0 {
		at = (at + 1) & (len(d.slots) - 1)
	}
	d.slots[at] = slot{uint32(hash >> 16), node}
}

// find is the node of a name, or nil.
func (d *domains) find(hash uint64, name string) *domain {
	for at := int(hash >> d.shift); ; at = (at + 1) & (len(d.slots) - 1) {
		s := d.slots[at]
		if s.node == 0 {
			return nil
		}
		if s.tag == uint32(hash>>16) && d.nodes[s.node-1].name == name {
			return &d.nodes[s.node-1]
		}
	}
}

// inName are the bytes of a name in canonical form; a dot is one of them.
var inName = func() (in [256]bool) {
	for _, c := range []byte("abcdefghijklmnopqrstuvwxyz0123456789-_.") {
		in[c] = true
	}
	return in
}()

const longestName = 253

// first is the mark of the first rule that matches name and port. False is a name that isn't in canonical form, for which no rule counts: a
// spelling that no rule has would otherwise pass by default.
func (d *domains) first(name string, port uint16, ports portTable) (first mark, canonical bool) {
	if name == "" || len(name) > longestName {
		return none, false
	}
	first = none
	hash, beyond, last := d.seed, false, len(name)
	for i := len(name) - 1; i >= 0; i-- {
		c := name[i]
		if !inName[c] {
			return none, false
		}
		if c == '.' {
			if last == i+1 || last == len(name) && isNumber(name[i+1:]) {
				return none, false
			}
			last = i
			if !beyond {
				if node := d.find(hash, name[i+1:]); node == nil {
					beyond = true
				} else {
					first = min(first, ports.find(node.beneath, port))
				}
			}
		}
		hash = (hash ^ uint64(c)) * multiplier
	}
	if last == 0 || last == len(name) && isNumber(name) {
		return none, false
	}
	if !beyond {
		if node := d.find(hash, name); node != nil {
			first = min(first, ports.find(node.exact, port))
		}
	}
	return first, true
}

// isNumber says that a last label is one: such a name is an address in another spelling.
func isNumber(label string) bool {
	if label == "" || label[0] < '0' || label[0] > '9' {
		return false
	}
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

// all is what the rules say of name, which is in canonical form.
func (d *domains) all(name string) []portsAt {
	var found []portsAt
	if node := d.find(d.hash(name), name); node != nil {
		found = append(found, node.exact)
	}
	for _, parent, ok := strings.Cut(name, "."); ok; _, parent, ok = strings.Cut(parent, ".") {
		if node := d.find(d.hash(parent), parent); node != nil {
			found = append(found, node.beneath)
		}
	}
	return found
}
