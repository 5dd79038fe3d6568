package network

import (
	"net/netip"
	"testing"

	"github.com/sandboxd/sandboxd/policy"
)

func TestReachable(t *testing.T) {
	allow := func(target string, ports ...int) policy.EgressRule {
		return policy.EgressRule{Action: policy.NetworkAllow, Target: target, Ports: ports}
	}
	deny := func(target string, ports ...int) policy.EgressRule {
		return policy.EgressRule{Action: policy.NetworkDeny, Target: target, Ports: ports}
	}
	for _, test := range []struct {
		title   string
		specs   [][]policy.EgressRule
		address string
		want    bool
	}{
		{"a public address of an allowed name", [][]policy.EgressRule{{allow("a.example.com", 443)}}, "93.184.216.34", true},
		{"another name", [][]policy.EgressRule{{allow("b.example.com", 443)}}, "93.184.216.34", false},
		{"a private address", [][]policy.EgressRule{{allow("a.example.com", 443)}}, "10.1.2.3", false},
		{"a private address that a rule names", [][]policy.EgressRule{{allow("a.example.com", 443), allow("10.1.0.0/16", 443)}}, "10.1.2.3", true},
		{"the same on other ports", [][]policy.EgressRule{{allow("a.example.com", 443), allow("10.1.0.0/16", 80)}}, "10.1.2.3", false},
		{"metadata", [][]policy.EgressRule{{allow("a.example.com"), allow("169.254.0.0/16")}}, "169.254.169.254", false},
		{"an address denied before the name", [][]policy.EgressRule{{deny("93.184.216.0/24"), allow("a.example.com")}}, "93.184.216.34", false},
		{"denied on one port only", [][]policy.EgressRule{{deny("93.184.216.0/24", 80), allow("a.example.com")}}, "93.184.216.34", true},
		{"denied on the one port", [][]policy.EgressRule{{deny("93.184.216.0/24", 443), allow("a.example.com", 443)}}, "93.184.216.34", false},
		{"two that agree on a port", [][]policy.EgressRule{{allow("*.example.com", 80, 443)}, {allow("a.example.com", 443, 8443)}}, "93.184.216.34", true},
		{"two that agree on none", [][]policy.EgressRule{{allow("*.example.com", 80)}, {allow("a.example.com", 443)}}, "93.184.216.34", false},
		{"no rules", nil, "93.184.216.34", false},
	} {
		var set []*Rules
		for _, egress := range test.specs {
			rules, err := Compile(policy.NetworkSpec{Egress: egress})
			if err != nil {
				t.Fatalf("%s: %v", test.title, err)
			}
			set = append(set, rules)
		}
		match := All(set...).Reachable("a.example.com", netip.MustParseAddr(test.address))
		if match.Allow != test.want || match.Reason == "" {
			t.Errorf("%s: %+v, want allow %v", test.title, match, test.want)
		}
	}
}

func TestSpells(t *testing.T) {
	rules, err := Compile(policy.NetworkSpec{Egress: []policy.EgressRule{
		{Action: policy.NetworkAllow, Target: "a.example.com", Ports: []int{443}}, {Action: policy.NetworkAllow, Target: "*.example.com"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	set := All(rules)
	for _, test := range []struct {
		name string
		port uint16
		want bool
	}{
		{"a.example.com", 443, true}, {"a.example.com", 80, false}, {"b.example.com", 443, false}, {"example.org", 443, false},
	} {
		if got := set.Spells(set.Name(test.name, test.port), test.name); got != test.want {
			t.Errorf("%s:%d: %v", test.name, test.port, got)
		}
	}
	if (Set{}).Spells(Match{}, "") {
		t.Error("no rules spell something")
	}
}
