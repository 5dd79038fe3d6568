package network

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/policy"
)

// scenario is a spec as it is written, what is asked of it, and the answer: yes, or why not.
type scenario struct {
	name  string
	spec  string
	ask   string // name, or address, or "name>address" for what the name resolved to
	port  uint16
	allow bool
	rule  int
	why   string
}

func ask(t *testing.T, rules *Rules, text string, port uint16) Match {
	t.Helper()
	name, resolved, _ := strings.Cut(text, ">")
	if a, err := netip.ParseAddr(name); err == nil {
		return rules.Address(a, port)
	}
	match := rules.Name(name, port)
	if resolved == "" {
		return match
	}
	a, err := netip.ParseAddr(resolved)
	if err != nil {
		t.Fatal(err)
	}
	return rules.Resolved(match, a, port)
}

func TestScenarios(t *testing.T) {
	const (
		example  = `{"egress":[{"action":"allow","target":"example.com","ports":[443]}]}`
		wildcard = `{"egress":[{"action":"allow","target":"*.example.com"}]}`
		all      = `{"defaultAction":"allow"}`
		all4     = `{"egress":[{"action":"allow","target":"0.0.0.0/0"},{"action":"allow","target":"::/0"}]}`
		internal = `{"egress":[{"action":"allow","target":"*.google.internal"},{"action":"allow","target":"169.254.0.0/16"}]}`
		private  = `{"egress":[{"action":"allow","target":"db.example.com"},{"action":"deny","target":"10.0.0.1"},{"action":"allow","target":"10.0.0.0/8"}]}`
		nat64    = `{"egress":[{"action":"allow","target":"*.example.com"},{"action":"allow","target":"64:ff9b::/96"},{"action":"allow","target":"8.0.0.0/8"},{"action":"allow","target":"64:ff9b:1::/48"}]}`
	)
	for _, s := range []scenario{
		{"D1 an empty list", `{"egress":[]}`, "example.com", 443, false, Default, deniedByDefault},
		{"D1 an empty list", `{"egress":[]}`, "93.184.216.34", 443, false, Default, deniedByDefault},
		{"D2 nothing said", `{}`, "example.com", 443, false, Default, deniedByDefault},

		{"D3 the name", example, "example.com", 443, true, 0, allowedByRule},
		{"D3 another port", example, "example.com", 80, false, Default, deniedByDefault},
		{"D3 a longer label", example, "evil-example.com", 443, false, Default, deniedByDefault},
		{"D3 a longer label under a wildcard", wildcard, "evil-example.com", 443, false, Default, deniedByDefault},
		{"D3 the name as a label of another", example, "example.com.evil.net", 443, false, Default, deniedByDefault},
		{"D3 beneath the name", example, "www.example.com", 443, false, Default, deniedByDefault},
		{"D4 the apex of a wildcard", wildcard, "example.com", 443, false, Default, deniedByDefault},
		{"D4 beneath a wildcard", wildcard, "www.example.com", 443, true, 0, allowedByRule},
		{"D5 another spelling", wildcard, "WWW.example.com", 443, false, Closed, notAName},
		{"D5 a dot at the end", wildcard, "www.example.com.", 443, false, Closed, notAName},
		{"D6 a look-alike in its ASCII form", `{"egress":[{"action":"allow","target":"apple.com"}]}`, "xn--pple-43d.com", 443, false, Default, deniedByDefault},
		{"D6 a look-alike as it is written", all, "аpple.com", 443, false, Closed, notAName},
		{"D6 the name that was meant", `{"egress":[{"action":"allow","target":"xn--bcher-kva.example"}]}`, "xn--bcher-kva.example", 443, true, 0, allowedByRule},
		{"D7 NUL", all, "example.com\x00.evil.net", 443, false, Closed, notAName},
		{"D7 percent", all, "example%2ecom", 443, false, Closed, notAName},
		{"D7 a space", all, "example.com ", 443, false, Closed, notAName},
		{"D7 a user", all, "example.com@evil.net", 443, false, Closed, notAName},
		{"D7 a backslash", all, `example.com\.evil.net`, 443, false, Closed, notAName},
		{"D7 a slash", all, "example.com/evil.net", 443, false, Closed, notAName},
		{"D7 empty", all, "", 443, false, Closed, notAName},
		{"D7 an empty label", all, "a..example.com", 443, false, Closed, notAName},
		{"D7 an empty first label", all, ".example.com", 443, false, Closed, notAName},
		{"D7 too long", all, strings.Repeat("a.", 126) + "aa", 443, false, Closed, notAName},
		{"D7 an address in another spelling", all, "127.1", 443, false, Closed, notAName},
		{"D7 an address in another spelling", all, "0x7f.0x1", 443, false, Closed, notAName},
		{"D7 an address in another spelling", all, "2130706433", 443, false, Closed, notAName},
		{"D8 a deep name under a wildcard", wildcard, "a.b.c.example.com", 443, true, 0, allowedByRule},

		{"D17 loopback", wildcard, "www.example.com>127.0.0.1", 443, false, Closed, "a loopback address, never reachable"},
		{"D17 private", wildcard, "www.example.com>10.0.0.1", 443, false, Closed, "a private address that no rule names"},
		{"D17 link-local", wildcard, "www.example.com>169.254.1.1", 443, false, Closed, "a link-local address that no rule names"},
		{"D17 unique-local", wildcard, "www.example.com>fd00::1", 443, false, Closed, "a unique-local address that no rule names"},
		{"D17 shared", wildcard, "www.example.com>100.64.0.1", 443, false, Closed, "a shared address that no rule names"},
		{"D17 mapped", wildcard, "www.example.com>::ffff:10.0.0.1", 443, false, Closed, "a private address that no rule names"},
		{"D17 under allow by default", all, "www.example.com>10.0.0.1", 443, false, Closed, "a private address that no rule names"},
		{"D17 public", wildcard, "www.example.com>93.184.216.34", 443, true, 0, allowedByRule},
		{"D17 a range that a rule names", private, "db.example.com>10.0.0.2", 5432, true, 0, allowedByRule},
		{"D17 an address of it that is denied first", private, "db.example.com>10.0.0.1", 5432, false, 1, deniedByRule},
		{"D17 a range that no rule names", private, "db.example.com>192.168.0.1", 5432, false, Closed, "a private address that no rule names"},
		{"D17 NAT64 of a public address", nat64, "www.example.com>64:ff9b::5db8:d822", 443, true, 0, allowedByRule},
		{"D17 NAT64 of a private address", nat64, "www.example.com>64:ff9b::a00:1", 443, false, Closed, "a private address that no rule names"},
		{"D17 NAT64 that no rule names", wildcard, "www.example.com>64:ff9b::5db8:d822", 443, false, Closed, "a translated address that no rule names"},
		{"D17 NAT64 of unknown form", nat64, "www.example.com>64:ff9b:1::5db8:d822", 443, false, Closed, unknownEmbedded},
		{"D17 an address that is denied before the name", `{"egress":[{"action":"deny","target":"93.184.0.0/16"},{"action":"allow","target":"*.example.com"}]}`,
			"www.example.com>93.184.216.34", 443, false, 0, deniedByRule},
		{"D17 one that is denied after it", `{"egress":[{"action":"allow","target":"*.example.com"},{"action":"deny","target":"93.184.0.0/16"}]}`,
			"www.example.com>93.184.216.34", 443, true, 0, allowedByRule},
		{"D17 a name that wasn't allowed", example, "evil.net>93.184.216.34", 443, false, Closed, unjudged},

		{"D20 by everything", all4, "169.254.169.254", 80, false, Closed, "a metadata address, never reachable"},
		{"D20 by everything", all4, "fd00:ec2::254", 80, false, Closed, "a metadata address, never reachable"},
		{"D20 by everything", all4, "168.63.129.16", 80, false, Closed, "a metadata address, never reachable"},
		{"D20 by everything", all4, "100.100.100.200", 80, false, Closed, "a metadata address, never reachable"},
		{"D20 by default", all, "168.63.129.16", 80, false, Closed, "a metadata address, never reachable"},
		{"D20 by its range", internal, "169.254.169.254", 80, false, Closed, "a metadata address, never reachable"},
		{"D20 its range without it", internal, "169.254.1.1", 80, true, 1, allowedByRule},
		{"D20 by a wildcard", internal, "metadata.google.internal", 80, false, Closed, metadataName},
		{"D20 beneath it", internal, "v1.metadata.google.internal", 80, false, Closed, metadataName},
		{"D20 beside it", internal, "db.google.internal", 80, true, 0, allowedByRule},
		{"D20 by a name of one's own", all, "example.com>169.254.169.254", 80, false, Closed, "a metadata address, never reachable"},
		{"D20 by NAT64", nat64, "64:ff9b::a9fe:a9fe", 80, false, Closed, "a metadata address, never reachable"},
		{"D20 by 6to4", `{"egress":[{"action":"allow","target":"2002::/16"},{"action":"allow","target":"169.254.0.0/16"}]}`, "2002:a9fe:a9fe::1", 80, false, Closed,
			"a metadata address, never reachable"},
		{"D20 mapped", all, "::ffff:169.254.169.254", 80, false, Closed, "a metadata address, never reachable"},

		{"D23 no address", all, "0.0.0.0", 80, false, Closed, "an unspecified address, never reachable"},
		{"D23 no address", all, "::", 80, false, Closed, "an unspecified address, never reachable"},
		{"D23 this network", all, "0.1.2.3", 80, false, Closed, "an unspecified address, never reachable"},
		{"D23 broadcast", all4, "255.255.255.255", 80, false, Closed, "a broadcast address, never reachable"},
		{"D23 multicast", all4, "239.1.1.1", 80, false, Closed, "a multicast address, never reachable"},
		{"D23 multicast", all4, "ff02::1", 80, false, Closed, "a multicast address, never reachable"},
		{"D23 loopback", all4, "::1", 80, false, Closed, "a loopback address, never reachable"},
		{"D23 loopback by name", all, "localhost", 80, false, Closed, localName},

		{"D24 IPv6 where only IPv4 has rules", `{"egress":[{"action":"allow","target":"0.0.0.0/0"}]}`, "2600::1", 443, false, Default, deniedByDefault},

		{"D26 the address of an allowed name", example, "93.184.216.34", 443, false, Default, deniedByDefault},
		{"D26 an address by a prefix", `{"egress":[{"action":"allow","target":"93.184.0.0/16","ports":[443]}]}`, "93.184.216.34", 443, true, 0, allowedByRule},
		{"D26 and another port", `{"egress":[{"action":"allow","target":"93.184.0.0/16","ports":[443]}]}`, "93.184.216.34", 22, false, Default, deniedByDefault},
		{"D26 a private address by everything", all4, "10.0.0.1", 443, false, Closed, "a private address that no rule names"},
		{"D26 a private address by its range", private, "10.0.0.2", 443, true, 2, allowedByRule},
		{"D26 with a zone", all4, "fe80::1%eth0", 443, false, Closed, noAddress},
	} {
		spec, err := policy.ParseNetwork([]byte(s.spec))
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		rules, err := Compile(spec)
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		got := ask(t, rules, s.ask, s.port)
		if got.Allow != s.allow || got.Rule != s.rule || got.Reason != s.why {
			t.Errorf("%s: %s on %d by %s\n got %v, rule %d, %q\nwant %v, rule %d, %q", s.name, s.ask, s.port, s.spec, got.Allow, got.Rule, got.Reason, s.allow, s.rule, s.why)
		}
	}
}

// D9: what is refused when it is loaded.
func TestRefusedSpecs(t *testing.T) {
	for _, test := range []struct{ action, target, want string }{
		{"allow", "*", `network.egress[0].target: "*" isn't a target; for everything write defaultAction "allow"`},
		{"allow", "*.com", `network.egress[0].target: "*.com" is everything beneath a public suffix; want *.name with a name of its owner's`},
		{"allow", "*.co.uk", `network.egress[0].target: "*.co.uk" is everything beneath a public suffix, where anybody may have a name; want *.name with a name of its owner's`},
		{"allow", "*.github.io", `network.egress[0].target: "*.github.io" is everything beneath a public suffix, where anybody may have a name; want *.name with a name of its owner's`},
		{"allow", "*.anything.ck", `network.egress[0].target: "*.anything.ck" is everything beneath a public suffix, where anybody may have a name; want *.name with a name of its owner's`},
		{"allow", "*.octocat.github.io", ""},
		{"allow", "octocat.github.io", ""},
		{"allow", "*.example.co.uk", ""},
		{"allow", "*.svc.cluster.local", ""},
		{"allow", "*.corp.internal", ""},
		{"deny", "*.co.uk", ""},
		{"allow", "127.0.0.0/8", `network.egress[0].target: 127.0.0.0/8 is the sandbox itself and never reachable; remove the rule`},
		{"allow", "metadata.google.internal", `network.egress[0].target: metadata.google.internal is a metadata name and never reachable; remove the rule`},
		{"deny", "metadata.google.internal", ""},
	} {
		_, err := Compile(policy.NetworkSpec{Egress: []policy.EgressRule{{Action: test.action, Target: test.target}}})
		got := ""
		if err != nil {
			got = err.Error()
			var fault *policy.FieldError
			if !errors.As(err, &fault) {
				t.Errorf("%s: %T", test.target, err)
			}
		}
		if got != test.want {
			t.Errorf("%s %s:\n got %s\nwant %s", test.action, test.target, got, test.want)
		}
	}
}

func TestNoRulesDeny(t *testing.T) {
	var rules *Rules
	address := netip.MustParseAddr("93.184.216.34")
	allowed := Match{Allow: true, Rule: 0, name: "example.com"}
	for _, set := range []Set{{}, All(), All(rules)} {
		if set.Name("example.com", 443).Allow || set.Resolvable("example.com").Allow || set.Address(address, 443).Allow || set.Resolved(allowed, address, 443).Allow {
			t.Errorf("%v allows something", set)
		}
	}
	open, err := Compile(policy.NetworkSpec{DefaultAction: policy.NetworkAllow})
	if err != nil {
		t.Fatal(err)
	}
	if All(open).Resolved(Match{Allow: true}, address, 443).Allow || open.Resolved(Match{}, address, 443).Allow || open.Address(netip.Addr{}, 443).Allow {
		t.Error("what was never judged is allowed")
	}
}

func TestSetSaysWhoseRuleDecided(t *testing.T) {
	compile := func(rules ...policy.EgressRule) *Rules {
		compiled, err := Compile(policy.NetworkSpec{Egress: rules})
		if err != nil {
			t.Fatal(err)
		}
		return compiled
	}
	sandbox := compile(policy.EgressRule{Action: "allow", Target: "*.example.com"})
	exec := compile(policy.EgressRule{Action: "deny", Target: "b.example.com"}, policy.EgressRule{Action: "allow", Target: "*.example.com"})
	for name, want := range map[string]Match{
		"a.example.com": {Allow: true, Rule: 1, In: 1, Reason: allowedByRule, name: "a.example.com"},
		"b.example.com": {Rule: 0, In: 1, Reason: deniedByRule, name: "b.example.com"},
		"example.com":   {Rule: Default, In: 0, Reason: deniedByDefault, name: "example.com"},
	} {
		if got := All(sandbox, exec).Name(name, 443); got != want {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
}

func TestMetadataNamesAreFound(t *testing.T) {
	for _, name := range policy.MetadataNames() {
		if never(name) != neverMeta || never("v1."+name) != neverMeta || never("my"+name) != none {
			t.Errorf("%s isn't told from others", name)
		}
	}
}
