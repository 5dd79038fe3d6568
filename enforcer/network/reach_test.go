package network

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sandboxd/sandboxd/policy"
)

func within(spans [][2]netip.Addr, a netip.Addr) bool {
	return slices.ContainsFunc(spans, func(span [2]netip.Addr) bool {
		return span[0].BitLen() == a.BitLen() && span[0].Compare(a) <= 0 && a.Compare(span[1]) <= 0
	})
}

// What is allowed is reached, and what is reached is allowed on some port, but for what a translated address stands for. The judge is the one that judges connections.
func TestReachIsWhatIsAllowed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rules, err := Compile(someNetwork.Draw(t, "spec"))
		if err != nil {
			t.Fatal(err)
		}
		spans := rules.Reach()
		for i, span := range spans {
			if span[1].Less(span[0]) || i > 0 && spans[i-1][1].BitLen() == span[0].BitLen() && spans[i-1][1].Next().Compare(span[0]) >= 0 {
				t.Fatalf("out of order, or no gap: %v", spans)
			}
		}
		addresses := []netip.Addr{}
		for _, text := range worldAddresses {
			addresses = append(addresses, netip.MustParseAddr(text).Unmap())
		}
		for _, span := range spans { // and the edges
			addresses = append(addresses, span[0], span[1], span[0].Prev(), span[1].Next())
		}
		for _, a := range addresses {
			if !a.IsValid() {
				continue
			}
			allowed := slices.ContainsFunc(append(worldPorts, 9), func(port uint16) bool { return rules.Address(a, port).Allow })
			switch reached := within(spans, a); {
			case allowed && !reached:
				t.Fatalf("%s is allowed and not in %v", a, spans)
			case reached && !allowed && policy.ClassOf(a) != policy.ClassTranslated:
				t.Fatalf("%s isn't allowed and in %v", a, spans)
			}
		}
	})
}

func TestReach(t *testing.T) {
	for rules, want := range map[string]string{
		"":                  "",
		"deny 8.0.0.0/8":    "",
		"allow a.test":      "",
		"allow 8.8.8.8":     "8.8.8.8-8.8.8.8",
		"allow 8.8.8.8 443": "8.8.8.8-8.8.8.8",
		"allow 8.0.0.0/8, allow 9.0.0.0/8, allow 2600::/32": "8.0.0.0-9.255.255.255 2600::-2600:0:ffff:ffff:ffff:ffff:ffff:ffff",
		"deny 8.8.0.0/16, allow 8.0.0.0/8":                  "8.0.0.0-8.7.255.255 8.9.0.0-8.255.255.255",
		"deny 8.8.0.0/16 443, allow 8.0.0.0/8":              "8.0.0.0-8.255.255.255",
		"allow 8.0.0.0/7, allow 10.0.0.0/8 22":              "8.0.0.0-10.255.255.255",
		"allow 0.0.0.0/5":                                   "1.0.0.0-7.255.255.255",
		"allow 169.254.0.0/16":                              "169.254.0.0-169.254.0.22 169.254.0.24-169.254.42.41 169.254.42.43-169.254.169.122 169.254.169.124-169.254.169.249 169.254.169.251-169.254.169.252 169.254.169.255-169.254.170.1 169.254.170.3-169.254.170.22 169.254.170.24-169.254.255.255",
		"allow 64:ff9b::/96":                                "64:ff9b::-64:ff9b::ffff:ffff",
		"deny ::/0, deny 64.0.0.0/2, deny 128.0.0.0/1, deny 0.0.0.0/3, default allow": "32.0.0.0-63.255.255.255",
	} {
		t.Run(rules, func(t *testing.T) {
			compiled, err := Compile(specOf(t, rules))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, span := range compiled.Reach() {
				got = append(got, fmt.Sprintf("%s-%s", span[0], span[1]))
			}
			if strings.Join(got, " ") != want {
				t.Errorf("%v\nwant %s", got, want)
			}
		})
	}
}

// TestReachIsBounded: more spans than there may be are the fewest that are bounded, by the smallest gaps, and none is lost.
func TestReachIsBounded(t *testing.T) {
	var spec policy.NetworkSpec
	var all []netip.Addr
	for i := range 3 * MostSpans {
		for _, target := range []string{fmt.Sprintf("9.%d.%d.1", i/256, i%256), fmt.Sprintf("2600::%x:1", i)} {
			all = append(all, netip.MustParseAddr(target))
			spec.Egress = append(spec.Egress, policy.EgressRule{Action: policy.NetworkAllow, Target: target})
		}
	}
	far := netip.MustParseAddr("93.184.216.34")
	spec.Egress = append(spec.Egress, policy.EgressRule{Action: policy.NetworkAllow, Target: far.String()})
	rules, err := Compile(spec)
	if err != nil {
		t.Fatal(err)
	}
	spans := rules.Reach()
	if len(spans) != 2*MostSpans || !slices.Contains(spans, [2]netip.Addr{far, far}) {
		t.Errorf("%d spans, or the widest gap is filled", len(spans))
	}
	for _, a := range all {
		if !within(spans, a) {
			t.Errorf("%s is lost", a)
		}
	}
}

// specOf reads rules in one line: "deny 8.8.0.0/16 443, allow 8.0.0.0/8, default allow".
func specOf(t *testing.T, line string) (spec policy.NetworkSpec) {
	t.Helper()
	for one := range strings.SplitSeq(line, ",") {
		words := strings.Fields(one)
		switch {
		case len(words) == 0:
			continue
		case words[0] == "default":
			spec.DefaultAction = words[1]
			continue
		}
		rule := policy.EgressRule{Action: words[0], Target: words[1]}
		for _, word := range words[2:] {
			port, err := strconv.Atoi(word)
			if err != nil {
				t.Fatal(err)
			}
			rule.Ports = append(rule.Ports, port)
		}
		spec.Egress = append(spec.Egress, rule)
	}
	return spec
}
