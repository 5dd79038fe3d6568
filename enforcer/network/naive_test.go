package network

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sandboxd/sandboxd/policy"
)

// The universe of the property tests: few names, addresses and ports, and every target over them, so that rules overlap often.
var (
	worldNames     = []string{"a.test", "x.a.test", "y.x.a.test", "xa.test", "b.test", "test", "metadata.google.internal", "v1.metadata.google.internal", "localhost"}
	worldAddresses = []string{
		"8.0.0.1", "8.0.0.2", "8.128.0.1", "9.0.0.1", "10.0.0.1", "10.1.0.1", "127.0.0.1", "169.254.169.254", "169.254.1.1", "224.0.0.1", "255.255.255.255", "0.0.0.0",
		"2600::1", "fd00::1", "fd00:ec2::254", "fe80::1", "::1", "::", "64:ff9b::808:808", "64:ff9b::800:1", "64:ff9b::a9fe:a9fe", "64:ff9b::a00:1", "64:ff9b:1::800:1",
		"2002:800:1::1", "2002:a9fe:a9fe::1", "2001:0:1:2:3:4:f7ff:fffe", "::ffff:8.0.0.1", "::ffff:10.0.0.1", "::8.0.0.1", "4000::1", "2001:db8::1",
	}
	worldPorts   = []uint16{22, 80, 443}
	worldTargets = []string{
		"a.test", "x.a.test", "*.a.test", "*.x.a.test", "b.test", "8.0.0.1", "8.0.0.0/30", "8.0.0.0/8", "9.0.0.1", "0.0.0.0/0", "2600::/16", "::/0",
		"10.0.0.0/8", "10.1.0.0/16", "10.0.0.1", "8.0.0.0/5", "10.0.0.0/7", "fd00::/8", "64:ff9b::/96", "64:ff9b:1::/96", "2002::/16", "2001::/32", "2001::/16", "169.254.0.0/16",
		"*.google.internal", "fe80::/10", "4000::/3",
	}

	someNetwork = rapid.Custom(func(t *rapid.T) policy.NetworkSpec {
		spec := policy.NetworkSpec{DefaultAction: rapid.SampledFrom([]string{"", "deny", "deny", "allow"}).Draw(t, "default")}
		for range rapid.IntRange(0, 6).Draw(t, "rules") {
			rule := policy.EgressRule{Action: rapid.SampledFrom([]string{"allow", "deny"}).Draw(t, "action"), Target: rapid.SampledFrom(worldTargets).Draw(t, "target")}
			if rapid.Bool().Draw(t, "some ports") {
				for _, port := range rapid.SliceOfNDistinct(rapid.SampledFrom(worldPorts), 1, 3, rapid.ID).Draw(t, "ports") {
					rule.Ports = append(rule.Ports, int(port))
				}
			}
			spec.Egress = append(spec.Egress, rule)
		}
		return spec
	})
)

// naive is the grammar read as it stands, rule by rule, independent of the code under test but for the classes.
type naive policy.NetworkSpec

func (n naive) first(matches func(policy.EgressRule, policy.Target) bool, port uint16) (index int, found bool) {
	for i, rule := range n.Egress {
		target, err := policy.ParseTarget(rule.Target)
		if err != nil {
			panic(err)
		}
		if (len(rule.Ports) == 0 || slices.Contains(rule.Ports, int(port))) && matches(rule, target) {
			return i, true
		}
	}
	return Default, false
}

func (n naive) allows(index int) bool {
	if index == Default {
		return n.DefaultAction == "allow"
	}
	return n.Egress[index].Action == "allow"
}

func (n naive) name(name string, port uint16) (allow bool, rule int) {
	for _, never := range append(policy.MetadataNames(), "localhost") {
		if name == never || strings.HasSuffix(name, "."+never) {
			return false, Closed
		}
	}
	rule, _ = n.first(func(_ policy.EgressRule, target policy.Target) bool {
		if target.Wildcard {
			return strings.HasSuffix(name, "."+target.Name)
		}
		return target.Name == name
	}, port)
	return n.allows(rule), rule
}

func (n naive) literal(a netip.Addr, port uint16) (allow bool, rule int) {
	of := policy.RangeOf(a)
	rule, found := n.first(func(rule policy.EgressRule, target policy.Target) bool {
		if target.Name != "" || !target.Prefix.Contains(a) {
			return false
		}
		named := of.Prefix.Overlaps(target.Prefix) && target.Prefix.Bits() >= of.Prefix.Bits() && !of.Class.Never()
		return rule.Action == "deny" || of.Class == policy.ClassPublic || named
	}, port)
	if !found && of.Class != policy.ClassPublic {
		return false, Closed
	}
	return n.allows(rule), rule
}

func (n naive) address(a netip.Addr, port uint16) (allow bool, rule int) {
	a = a.Unmap()
	allow, rule = n.literal(a, port)
	if allow && policy.ClassOf(a) == policy.ClassTranslated {
		inner, ok := policy.Embedded(a)
		if !ok {
			return false, Closed
		}
		if within, why := n.literal(inner, port); !within {
			return false, why
		}
	}
	return allow, rule
}

func (n naive) resolved(name string, a netip.Addr, port uint16) bool {
	allow, by := n.name(name, port)
	a = a.Unmap()
	forms := []netip.Addr{a}
	if policy.ClassOf(a) == policy.ClassTranslated {
		inner, ok := policy.Embedded(a)
		if !ok {
			return false
		}
		forms = append(forms, inner)
	}
	for _, form := range forms {
		deny, found := n.first(func(rule policy.EgressRule, target policy.Target) bool {
			return rule.Action == "deny" && target.Name == "" && target.Prefix.Contains(form)
		}, port)
		if found && (by == Default || deny < by) {
			return false
		}
		if policy.ClassOf(form) != policy.ClassPublic {
			if open, _ := n.literal(form, port); !open {
				return false
			}
		}
	}
	return allow
}

func TestRulesAreTheFirstThatMatches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := someNetwork.Draw(t, "spec")
		rules, err := Compile(spec)
		if err != nil {
			t.Fatal(err)
		}
		model := naive(rules.Spec())
		for _, port := range append(worldPorts, 9) {
			for _, name := range worldNames {
				allow, rule := model.name(name, port)
				got := rules.Name(name, port)
				if got.Allow != allow || got.Rule != rule {
					t.Fatalf("%s:%d is %+v by %+v, want %v by %d", name, port, got, spec, allow, rule)
				}
				if got.Allow && !rules.Resolvable(name).Allow {
					t.Fatalf("%s doesn't resolve by %+v", name, spec)
				}
				for _, text := range worldAddresses {
					a := netip.MustParseAddr(text)
					if got := rules.Resolved(got, a, port); got.Allow != model.resolved(name, a, port) {
						t.Fatalf("%s resolved to %s on %d is %+v by %+v", name, a, port, got, spec)
					}
				}
			}
			for _, text := range worldAddresses {
				allow, rule := model.address(netip.MustParseAddr(text), port)
				if got := rules.Address(netip.MustParseAddr(text), port); got.Allow != allow || got.Rule != rule {
					t.Fatalf("%s:%d is %+v by %+v, want %v by %d", text, port, got, spec, allow, rule)
				}
			}
		}
		for _, name := range worldNames {
			some := slices.ContainsFunc(append(worldPorts, 9), func(port uint16) bool { return rules.Name(name, port).Allow })
			if got := rules.Resolvable(name); got.Allow != some {
				t.Fatalf("%s resolves: %+v by %+v, want %v", name, got, spec, some)
			}
		}
	})
}

// What [policy.WithinNetwork] says holds for every destination: the judge is the one that judges connections.
func TestWithinIsSound(t *testing.T) {
	yes := 0
	rapid.Check(t, func(t *rapid.T) {
		tight, wide := someNetwork.Draw(t, "tight"), someNetwork.Draw(t, "wide")
		if policy.WithinNetwork(tight, wide) != nil {
			return
		}
		yes++
		a, err := Compile(tight)
		if err != nil {
			t.Fatal(err)
		}
		b, err := Compile(wide)
		if err != nil {
			t.Fatal(err)
		}
		for _, port := range append(worldPorts, 9) {
			for _, text := range worldAddresses {
				address := netip.MustParseAddr(text)
				if a.Address(address, port).Allow && !b.Address(address, port).Allow {
					t.Fatalf("%s:%d leaves by %+v, not by %+v", text, port, tight, wide)
				}
				for _, name := range worldNames {
					if a.Resolved(a.Name(name, port), address, port).Allow && !b.Resolved(b.Name(name, port), address, port).Allow {
						t.Fatalf("%s at %s on %d leaves by %+v, not by %+v", name, text, port, tight, wide)
					}
				}
			}
		}
	})
	if yes < 10 {
		t.Errorf("only %d pairs were within: the test says nothing", yes)
	}
}

func TestSetIsWhatAllAllow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, err := Compile(someNetwork.Draw(t, "a"))
		if err != nil {
			t.Fatal(err)
		}
		b, err := Compile(someNetwork.Draw(t, "b"))
		if err != nil {
			t.Fatal(err)
		}
		set := All(a, b)
		for _, port := range worldPorts {
			for _, name := range worldNames {
				if set.Name(name, port).Allow != (a.Name(name, port).Allow && b.Name(name, port).Allow) {
					t.Fatalf("%s:%d is %+v", name, port, set.Name(name, port))
				}
				for _, text := range worldAddresses {
					address := netip.MustParseAddr(text)
					want := a.Resolved(a.Name(name, port), address, port).Allow && b.Resolved(b.Name(name, port), address, port).Allow
					if set.Resolved(set.Name(name, port), address, port).Allow != want {
						t.Fatalf("%s at %s on %d isn't %v", name, text, port, want)
					}
				}
			}
			for _, text := range worldAddresses {
				address := netip.MustParseAddr(text)
				if set.Address(address, port).Allow != (a.Address(address, port).Allow && b.Address(address, port).Allow) {
					t.Fatalf("%s:%d is %+v", address, port, set.Address(address, port))
				}
			}
		}
	})
}
