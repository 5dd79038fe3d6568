package network

import (
	"hash/maphash"
	"strings"

	"github.com/sandboxd/sandboxd/policy"
)

// domains are the rules of names: of names themselves, and of all that is beneath a name.
type domains struct {
	exact, beneath nameTable
}

// domainRules are the rules of one name while the tables are made.
type domainRules struct{ exact, beneath []marked }

func newDomains(rules map[string]*domainRules, ports *portTable) domains {
	exact, beneath := map[string]portsAt{}, map[string]portsAt{}
	for name, of := range rules {
		if len(of.exact) > 0 {
			exact[name] = ports.add(of.exact)
		}
		if len(of.beneath) > 0 {
			beneath[name] = ports.add(of.beneath)
		}
	}
	seed := maphash.MakeSeed()
	return domains{newNameTable(exact, seed), newNameTable(beneath, seed)}
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
	labels, last := 1, len(name) // of what is behind the place that the loop is at
	for i := len(name) - 1; i >= 0; i-- {
		c := name[i]
		if !inName[c] {
			return none, false
		}
		if c != '.' {
			continue
		}
		if last == i+1 || labels == 1 && isNumber(name[i+1:]) {
			return none, false
		}
		if d.beneath.has(labels) {
			first = min(first, ports.find(d.beneath.find(name[i+1:]), port))
		}
		last = i
		labels++
	}
	if last == 0 || labels == 1 && isNumber(name) {
		return none, false
	}
	if d.exact.has(labels) {
		first = min(first, ports.find(d.exact.find(name), port))
	}
	return min(first, never(name)), true
}

// all is what the rules say of name, which is in canonical form.
func (d *domains) all(name string) []portsAt {
	found := []portsAt{d.exact.find(name), {rest: never(name)}}
	for _, parent, ok := strings.Cut(name, "."); ok; _, parent, ok = strings.Cut(parent, ".") {
		found = append(found, d.beneath.find(parent))
	}
	return found
}

// never is the mark of a name that no rule opens. What it ends in tells nearly all others at once.
func never(name string) mark {
	const n = 8
	if len(name) < n || neverEnds&endBit(name[len(name)-n:]) == 0 {
		return none
	}
	switch {
	case name == localhost || strings.HasSuffix(name, "."+localhost):
		return neverLocal
	case policy.MetadataName(name):
		return neverMeta
	}
	return none
}

const localhost = "localhost"

// neverEnds has the bits of the last eight bytes of all names that no rule opens; none is shorter.
var neverEnds = func() (ends uint64) {
	for _, name := range append(policy.MetadataNames(), localhost) {
		ends |= endBit(name[len(name)-8:])
	}
	return ends
}()

func endBit(last string) uint64 {
	_ = last[7]
	end := uint64(last[0]) | uint64(last[1])<<8 | uint64(last[2])<<16 | uint64(last[3])<<24 |
		uint64(last[4])<<32 | uint64(last[5])<<40 | uint64(last[6])<<48 | uint64(last[7])<<56
	return 1 << (end * 0x9E3779B97F4A7C15 >> 58) // 2^64 divided by the golden ratio mixes the bytes
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
