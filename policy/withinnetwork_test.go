package policy

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The universe of the property test: few names, addresses and ports, and every target over them, so that rules overlap often.
var (
	worldNames     = []string{"a.test", "x.a.test", "y.x.a.test", "xa.test", "b.test"}
	worldAddresses = []string{"8.0.0.1", "8.0.0.2", "8.128.0.1", "9.0.0.1", "2001:db8::1"}
	worldPorts     = []int{22, 80, 443}
	worldTargets   = []string{"a.test", "x.a.test", "*.a.test", "*.x.a.test", "b.test", "8.0.0.1", "8.0.0.0/30", "8.0.0.0/8", "9.0.0.1", "0.0.0.0/0", "2001:db8::/32", "::/0"}

	someNetwork = rapid.Custom(func(t *rapid.T) NetworkSpec {
		spec := NetworkSpec{DefaultAction: rapid.SampledFrom([]string{"", "deny", "deny", "allow"}).Draw(t, "default")}
		for range rapid.IntRange(0, 4).Draw(t, "rules") {
			rule := EgressRule{Action: rapid.SampledFrom(networkActions).Draw(t, "action"), Target: rapid.SampledFrom(worldTargets).Draw(t, "target")}
			if rapid.Bool().Draw(t, "all") {
				rule.Ports = rapid.SliceOfNDistinct(rapid.SampledFrom(worldPorts), 1, 3, rapid.ID).Draw(t, "ports")
			}
			spec.Egress = append(spec.Egress, rule)
		}
		return spec
	})
)

// letsOut is the grammar read as it stands, independent of the code under test.
func letsOut(spec NetworkSpec, destination string, port int) bool {
	for _, rule := range spec.Egress {
		if len(rule.Ports) > 0 && !slices.Contains(rule.Ports, port) {
			continue
		}
		if matches(rule.Target, destination) {
			return rule.Action == "allow"
		}
	}
	return spec.DefaultAction == "allow"
}

func matches(target, destination string) bool {
	if suffix, ok := strings.CutPrefix(target, "*"); ok {
		return strings.HasSuffix(destination, suffix)
	}
	prefix, err := netip.ParsePrefix(target)
	if err != nil {
		return target == destination
	}
	address, err := netip.ParseAddr(destination)
	return err == nil && prefix.Contains(address)
}

func TestWithinNetworkIsSound(t *testing.T) {
	yes := 0
	rapid.Check(t, func(t *rapid.T) {
		effective, requested := someNetwork.Draw(t, "effective"), someNetwork.Draw(t, "requested")
		if WithinNetwork(effective, requested) != nil {
			return
		}
		yes++
		for _, destination := range append(slices.Clone(worldNames), worldAddresses...) {
			for _, port := range worldPorts {
				if letsOut(effective, destination, port) && !letsOut(requested, destination, port) {
					t.Fatalf("%s:%d leaves by %+v, not by %+v", destination, port, effective, requested)
				}
			}
		}
	})
	if yes < 10 {
		t.Errorf("only %d pairs were within: the test says nothing", yes)
	}
}

func TestWithinNetworkTakesItselfAndTighter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		requested := someNetwork.Draw(t, "requested")
		if err := WithinNetwork(requested, requested); err != nil {
			t.Fatalf("not reflexive: %v", err)
		}
		effective := requested
		effective.Egress = slices.Clone(requested.Egress)
		switch rapid.IntRange(0, 3).Draw(t, "how") {
		case 0: // another deny anywhere
			at := rapid.IntRange(0, len(effective.Egress)).Draw(t, "at")
			effective.Egress = slices.Insert(effective.Egress, at, EgressRule{Action: "deny", Target: rapid.SampledFrom(worldTargets).Draw(t, "deny")})
		case 1:
			effective.DefaultAction = "deny"
		case 2: // an allow less
			if at := slices.IndexFunc(effective.Egress, func(r EgressRule) bool { return r.Action == "allow" }); at >= 0 {
				effective.Egress = slices.Delete(effective.Egress, at, at+1)
			}
		case 3: // an allow on one port
			for i, rule := range effective.Egress {
				if rule.Action == "allow" && len(rule.Ports) == 0 {
					effective.Egress[i].Ports = []int{443}
				}
			}
		}
		if err := WithinNetwork(effective, requested); err != nil {
			t.Fatalf("%+v of %+v: %v", effective, requested, err)
		}
	})
}

func TestWithinNetwork(t *testing.T) {
	parse := func(body string) NetworkSpec {
		spec, err := ParseNetwork([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		return spec
	}
	allow := func(target string) string { return `{"egress":[{"action":"allow","target":"` + target + `"}]}` }
	for _, test := range []struct{ effective, requested, want string }{
		{`{}`, `{}`, ""},
		{`{}`, `{"defaultAction":"allow"}`, ""},
		{`{"defaultAction":"allow"}`, `{}`, "network.defaultAction: allow in force lets out more than was asked for"},
		{allow("a.test"), `{}`, "network.egress[0]: a.test lets out more than was asked for"},
		{allow("a.test"), `{"defaultAction":"allow"}`, ""},
		// Naming a range opens a private one, which the default doesn't.
		{allow("10.0.0.0/8"), `{"defaultAction":"allow"}`, "network.egress[0]: 10.0.0.0/8 lets out more than was asked for"},
		{allow("x.a.test"), allow("*.a.test"), ""},
		{allow("*.x.a.test"), allow("*.a.test"), ""},
		{allow("a.test"), allow("*.a.test"), "network.egress[0]: a.test lets out more than was asked for"},
		{allow("*.a.test"), allow("x.a.test"), "network.egress[0]: *.a.test lets out more than was asked for"},
		{allow("xa.test"), allow("*.a.test"), "network.egress[0]: xa.test lets out more than was asked for"},
		{allow("8.0.0.1"), allow("8.0.0.0/8"), ""},
		{allow("8.0.0.0/7"), allow("8.0.0.0/8"), "network.egress[0]: 8.0.0.0/7 lets out more than was asked for"},
		{allow("::/0"), allow("0.0.0.0/0"), "network.egress[0]: ::/0 lets out more than was asked for"},
		{`{"egress":[{"action":"allow","target":"a.test","ports":[443,80]}]}`, `{"egress":[{"action":"allow","target":"a.test","ports":[443]}]}`,
			"network.egress[0]: a.test on 80, 443 lets out more than was asked for"},
		// The deny that was asked for has to stay in front.
		{`{"defaultAction":"allow"}`, `{"defaultAction":"allow","egress":[{"action":"deny","target":"a.test"}]}`,
			"network.defaultAction: allow in force lets out more than was asked for"},
		{`{"egress":[{"action":"allow","target":"*.test.example"},{"action":"deny","target":"a.test.example"}]}`,
			`{"egress":[{"action":"deny","target":"a.test.example"},{"action":"allow","target":"*.test.example"}]}`,
			"network.egress[0]: *.test.example lets out more than was asked for"},
		// A name may resolve into a denied prefix.
		{allow("a.test"), `{"egress":[{"action":"deny","target":"8.0.0.0/8"},{"action":"allow","target":"a.test"}]}`,
			"network.egress[0]: a.test lets out more than was asked for"},
		// An IPv6 address may be the translation of a denied IPv4 one.
		{allow("2001:db8::1"), `{"egress":[{"action":"deny","target":"8.0.0.0/8"},{"action":"allow","target":"2001:db8::1"}]}`,
			"network.egress[0]: 2001:db8::1 lets out more than was asked for"},
		// Unsure: both halves are asked for, the whole isn't written.
		{allow("8.0.0.0/7"), `{"egress":[{"action":"allow","target":"8.0.0.0/8"},{"action":"allow","target":"9.0.0.0/8"}]}`,
			"network.egress[0]: 8.0.0.0/7 lets out more than was asked for"},
	} {
		got := ""
		if err := WithinNetwork(parse(test.effective), parse(test.requested)); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%s within %s:\n got %s\nwant %s", test.effective, test.requested, got, test.want)
		}
	}
	if err := WithinNetwork(NetworkSpec{DefaultAction: "allow", Egress: []EgressRule{{Action: "Deny", Target: "a.test"}}}, NetworkSpec{DefaultAction: "allow"}); err == nil {
		t.Error("a spec with an unknown action is within another")
	}
}
