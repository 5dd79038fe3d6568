package network

import (
	"math/rand/v2"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sandboxd/sandboxd/policy"
)

var (
	labels = regexp.MustCompile(`^[a-z0-9_-]+(\.[a-z0-9_-]+)*$`)
	number = regexp.MustCompile(`(^|\.)([0-9]+|0x[0-9a-f]*)$`)
)

// isCanonical is the form of names as it is written down, at once and without arithmetic.
func isCanonical(name string) bool {
	return len(name) <= 253 && labels.MatchString(name) && !number.MatchString(name)
}

// judgeNames compares the judgement of name by rules of targets, which alternate between allow and deny and between all ports and one, with that of
// [naive]. Targets that aren't any are left out.
func judgeNames(t interface{ Fatalf(string, ...any) }, targets []string, name string) {
	spec := policy.NetworkSpec{DefaultAction: policy.NetworkAllow}
	for i, target := range targets {
		rule := policy.EgressRule{Action: [2]string{policy.NetworkAllow, policy.NetworkDeny}[i%2], Target: target}
		if i%3 == 0 {
			rule.Ports = []int{443}
		}
		with := policy.NetworkSpec{Egress: []policy.EgressRule{rule}}
		if Check(with) == nil {
			spec.Egress = append(spec.Egress, rule)
		}
	}
	rules, err := Compile(spec)
	if err != nil {
		t.Fatalf("%v: %v", spec, err)
	}
	for _, port := range []uint16{443, 80} {
		allow, rule := false, Closed
		if isCanonical(name) {
			allow, rule = naive(rules.Spec()).name(name, port)
		}
		if got := rules.Name(name, port); got.Allow != allow || got.Rule != rule {
			t.Fatalf("%q on %d is %+v by %+v, want %v by %d", name, port, got, spec, allow, rule)
		}
	}
}

// FuzzName has rules and a name that are both anybody's.
func FuzzName(f *testing.F) {
	long := strings.Repeat("long-", 12)
	for _, seed := range [][2]string{
		{"a.test *.a.test *.b.a.test b.a.test", "c.b.a.test"}, {"*.example.com example.com", "www.example.com"}, {"a_b.test", "a_b.test"}, {"x.io", "x.io"},
		{"*." + long + ".test", "www." + long + ".test"}, {"abcd.efg", "abcd.efg"}, {"*.abcd.efgh", "x.abcd.efgh"}, {"a.0x7f", "b.0x7f"}, {"", "a..b.example"},
		{"*.google.internal", "metadata.google.internal"}, {"*.local", "db.svc.cluster.local"}, {"", ".a.example.com"}, {"", "example.com."}, {"", "e\x80xample.com"},
		{long + "abcd", long + "abcd"}, {"*.x" + long, "abc.x" + long}, {"a/b.test", "a/b.test"}, {"", "ex\xe1mple.com"}, {"a.test metadata.google.internal", "metadata.google.internal"}, {"1.a.test", "1.a.test"}, {"", "a.b.example.12345678"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, targets, name string) {
		fields := strings.Fields(targets)
		judgeNames(t, fields[:min(len(fields), 20)], name)
	})
}

// Names of every length around those of words, with dots in every place.
func TestNamesByWords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-d_.-]{1,40}([a-d.]{1,40})?(test|local|9)?`).Draw(t, "name")
		var targets []string
		for range rapid.IntRange(0, 5).Draw(t, "rules") {
			from := rapid.IntRange(0, len(name)-1).Draw(t, "from")
			if target := strings.TrimLeft(name[from:], "."); rapid.Bool().Draw(t, "beneath") {
				targets = append(targets, "*."+target)
			} else {
				targets = append(targets, target)
			}
		}
		judgeNames(t, targets, name)
	})
}

// More ports than there are classes, some of them by several rules.
func TestPortsAreTheFirstThatMatches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := newPortTable()
		for port := range uint16(many - 5) { // so that few classes are left
			table.give(1000 + port)
		}
		var all [][]marked
		var at []portsAt
		for range 4 {
			var rules []marked
			for i := range rapid.IntRange(0, 4).Draw(t, "rules") {
				rules = append(rules, marked{mark(2*i + i%2), rapid.SliceOfNDistinct(rapid.IntRange(1, 30), 0, 9, rapid.ID).Draw(t, "ports")})
			}
			all, at = append(all, rules), append(at, table.add(rules))
		}
		for port := range uint16(32) {
			for i, rules := range all {
				want := none
				for _, rule := range rules {
					if len(rule.ports) == 0 || slices.Contains(rule.ports, int(port)) {
						want = rule.mark
						break
					}
				}
				if got := table.find(at[i], table.of(port)); got != want {
					t.Fatalf("port %d of %v is %d, want %d", port, rules, got, want)
				}
			}
		}
		for i, rules := range all {
			want := map[uint16]bool{}
			for _, rule := range rules {
				if len(rule.ports) == 0 {
					break
				}
				for _, port := range rule.ports {
					want[uint16(port)] = true
				}
			}
			listed := table.listed(at[i])
			if len(listed) != len(want) {
				t.Fatalf("%v lists %v", rules, listed)
			}
			for _, port := range listed {
				if !want[port] {
					t.Fatalf("%v lists %v", rules, listed)
				}
			}
		}
	})
}

// Prefixes that crowd in one place and are far apart, short and long.
func TestLongestPrefix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		rules := map[netip.Prefix][]marked{}
		var asked []netip.Addr
		for range rapid.IntRange(0, 60).Draw(t, "prefixes") {
			var a netip.Addr
			if random.IntN(2) == 0 {
				a = netip.AddrFrom4([4]byte{byte(random.IntN(3) * 100), byte(random.IntN(3)), byte(random.IntN(256)), byte(random.IntN(256))})
			} else {
				a = netip.AddrFrom16([16]byte{0x20 + byte(random.IntN(2)*9), byte(random.IntN(3)), 7: byte(random.IntN(2)), 8: byte(random.IntN(3)), 15: byte(random.IntN(256))})
			}
			p, _ := a.Prefix(random.IntN(a.BitLen() + 1))
			rules[p] = nil
			asked = append(asked, a, p.Addr(), p.Addr().Prev(), LastOf(p), LastOf(p).Next())
		}
		ports := newPortTable()
		table := newPrefixes(rules, &ports)
		for _, a := range asked {
			if !a.IsValid() {
				continue
			}
			want := -1
			for p := range rules {
				if p.Contains(a) {
					want = max(want, p.Bits())
				}
			}
			got := -1
			if node := table.longest(a); node >= 0 {
				got = int(table.nodes[node].bits)
			}
			if got != want {
				t.Fatalf("%s lies in a prefix of %d bits, want %d, of %v", a, got, want, rules)
			}
		}
	})
}
