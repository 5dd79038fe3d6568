package network

import (
	"math/bits"
	"strings"

	"github.com/sandboxd/sandboxd/policy"
)

// domains are the rules of names: of names themselves, and of all that is beneath a name. An entry of either has what the rules of names around it say
// too, so that one entry says everything: the name's own, else that of the longest name that it is beneath.
type domains struct {
	exact, beneath nameTable
	seed           nameSeed
}

// domainRules are the rules of one name while the tables are made.
type domainRules struct{ exact, beneath []marked }

func newDomains(rules map[string]*domainRules, ports *portTable) domains {
	exact, beneath := map[string][]portsAt{}, map[string][]portsAt{}
	for name, of := range rules {
		// A name that no rule opens isn't to be found before that is said of it.
		if len(of.exact) > 0 && never(name) == none {
			exact[name] = []portsAt{ports.add(of.exact)}
		}
		if len(of.beneath) > 0 {
			beneath[name] = []portsAt{ports.add(of.beneath)}
		}
	}
	for _, table := range []map[string][]portsAt{exact, beneath} {
		for name := range table {
			for _, parent, ok := strings.Cut(name, "."); ok; _, parent, ok = strings.Cut(parent, ".") {
				if around := beneath[parent]; len(around) > 0 {
					table[name] = append(table[name], around[0])
				}
			}
		}
	}
	seed := newNameSeed()
	return domains{newNameTable(exact, seed), newNameTable(beneath, seed), seed}
}

// first is the mark of the first rule that matches name and port. False is a name that isn't in canonical form, for which no rule counts: a
// spelling that no rule has would otherwise pass by default.
func (d *domains) first(name string, port wanted, ports *portTable) (first mark, is bool) {
	if len(name) < shortestShort || len(name) > shortName {
		return d.firstPlainly(name, port, ports)
	}
	var words nameWords
	words.read(name, &d.seed)
	if hash := words.hash(uint(len(name)), &d.seed); d.exact.may(hash) {
		if e := d.exact.find(name, hash); e != nil { // what a rule has is in canonical form
			return d.exact.first(e, port, ports), true
		}
	}
	dots, plain := words.dots(uint(len(name)))
	if !plain || dots == 0 || isDigit(name[len(name)-bits.LeadingZeros64(dots)]) {
		return d.firstPlainly(name, port, ports)
	}
	first = none
	for labels := uint(bits.OnesCount64(dots)); dots != 0; labels-- { // of what is behind the first dot
		behind := uint(63 - bits.TrailingZeros64(dots))
		dots &= dots - 1
		if !d.beneath.has(labels) {
			continue
		}
		if hash := words.hash(behind, &d.seed); d.beneath.may(hash) {
			if e := d.beneath.find(name[uint(len(name))-behind:], hash); e != nil {
				first = d.beneath.first(e, port, ports)
				break
			}
		}
	}
	if neverEnds&endBit(words.words[0]) == 0 {
		return first, true
	}
	return min(first, never(name)), true
}

// firstPlainly is first for a name of any kind.
func (d *domains) firstPlainly(name string, port wanted, ports *portTable) (first mark, is bool) {
	if !canonical(name) {
		return none, false
	}
	first = never(name)
	for _, at := range d.all(name) {
		first = min(first, ports.find(at, port))
	}
	return first, true
}

// all is what the rules say of name, which is in canonical form; [never] comes before it.
func (d *domains) all(name string) []portsAt {
	if e := d.exact.find(name, d.seed.hash(name)); e != nil {
		return d.exact.all(e)
	}
	for _, parent, ok := strings.Cut(name, "."); ok; _, parent, ok = strings.Cut(parent, ".") {
		if e := d.beneath.find(parent, d.seed.hash(parent)); e != nil {
			return d.beneath.all(e)
		}
	}
	return nil
}

// never is the mark of a name that no rule opens.
func never(name string) mark {
	switch {
	case name == localhost || strings.HasSuffix(name, "."+localhost):
		return neverLocal
	case policy.MetadataName(name):
		return neverMeta
	}
	return none
}

const localhost = "localhost"

// neverEnds has the bits of the last words of all names that no rule opens, none of which is shorter: it tells nearly all others at once.
var neverEnds = func() (ends uint64) {
	for _, name := range append(policy.MetadataNames(), localhost) {
		ends |= endBit(wordAt(name, len(name)-wordSize))
	}
	return ends
}()

func endBit(last uint64) uint64 { return 1 << (last * 0x9E3779B97F4A7C15 >> 58) } // 2^64 divided by the golden ratio mixes the bytes

const longestName = 253

// canonical says whether a name is in canonical form.
func canonical(name string) bool {
	if name == "" || len(name) > longestName || strings.HasPrefix(name, ".") || strings.Contains(name, "..") {
		return false
	}
	for i := range len(name) {
		if !inName[name[i]] {
			return false
		}
	}
	last := name[strings.LastIndexByte(name, '.')+1:]
	return last != "" && !isNumber(last)
}

// inName are the bytes of a name in canonical form; a dot is one of them.
var inName = func() (in [256]bool) {
	for _, c := range []byte("abcdefghijklmnopqrstuvwxyz0123456789-_.") {
		in[c] = true
	}
	return in
}()

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

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
