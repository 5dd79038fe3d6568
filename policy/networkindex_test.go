package policy

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestNetworkIndexFindsWhatALoopFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rules, fault := parseRules(someNetwork.Draw(t, "rules"))
		if fault != nil {
			t.Fatal(fault)
		}
		others, fault := parseRules(someNetwork.Draw(t, "others"))
		if fault != nil {
			t.Fatal(fault)
		}
		index := indexRules(rules)
		for _, inner := range others {
			for _, allow := range []bool{false, true} {
				want := slices.IndexFunc(rules, func(r networkRule) bool { return r.allow == allow && r.covers(inner) })
				if want < 0 {
					want = len(rules)
				}
				if got := index.first(inner, func(r networkRule) bool { return r.allow == allow }); got != want {
					t.Fatalf("%s (allow %v) is covered first by %d, want %d of %+v", inner, allow, got, want, rules)
				}
			}
		}
	})
}

// The second is a request that somebody made to be slow: no deny of it is kept, and none meets an allow.
func BenchmarkWithinNetwork(b *testing.B) {
	var long, denies NetworkSpec
	for i := range mostRules - 1 {
		action := []string{NetworkDeny, NetworkAllow}[i/2%2]
		long.Egress = append(long.Egress, EgressRule{Action: action, Target: fmt.Sprintf("host-%d.example.com", i), Ports: []int{443}})
	}
	tighter := long
	tighter.Egress = slices.Insert(slices.Clone(long.Egress), 0, EgressRule{Action: NetworkDeny, Target: "*.example.org"})
	allows := NetworkSpec{Egress: slices.DeleteFunc(slices.Clone(long.Egress), func(r EgressRule) bool { return r.Action == NetworkDeny })}
	for _, rule := range long.Egress {
		if rule.Action == NetworkDeny {
			denies.Egress = append(denies.Egress, rule)
		}
	}
	denies.Egress = append(denies.Egress, allows.Egress...)
	for _, bench := range []struct {
		name                 string
		effective, requested NetworkSpec
	}{{"equal", long, long}, {"tighter", tighter, long}, {"worst", allows, denies}} {
		b.Run(bench.name, func(b *testing.B) {
			for b.Loop() {
				if err := WithinNetwork(bench.effective, bench.requested); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
