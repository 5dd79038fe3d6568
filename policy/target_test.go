package policy

import (
	"strings"
	"testing"
)

func TestParseTarget(t *testing.T) {
	label := strings.Repeat("a", 63)
	for _, test := range []struct{ target, canonical, fault string }{
		{"example.com", "example.com", ""},
		{"EXAMPLE.Com", "example.com", ""},
		{"*.Example.com", "*.example.com", ""},
		{"db", "db", ""},
		{"my_db.internal", "my_db.internal", ""},
		{"xn--bcher-kva.example", "xn--bcher-kva.example", ""},
		{"3com.example", "3com.example", ""},
		{"1.2.3.com", "1.2.3.com", ""},
		{"beef", "beef", ""},
		{label + "." + label + "." + label + "." + label[:61], label + "." + label + "." + label + "." + label[:61], ""},
		{"93.184.216.34", "93.184.216.34", ""},
		{"93.184.216.34/32", "93.184.216.34", ""},
		{"10.0.0.0/8", "10.0.0.0/8", ""},
		{"0.0.0.0/0", "0.0.0.0/0", ""},
		{"2001:DB8:0:0::1", "2001:db8::1", ""},
		{"2001:db8::/32", "2001:db8::/32", ""},

		{"", "", "empty, want a name, *.name, an address or a prefix"},
		{"*", "", `"*" isn't a target; for everything write defaultAction "allow"`},
		{"*.com", "", `"*.com" is everything beneath a public suffix; want *.name with a name of its owner's`},
		{"*.*.com", "", `"*.*.com" has a * elsewhere than in a first label of its own, want *.name`},
		{"a*.example.com", "", `"a*.example.com" has a * elsewhere than in a first label of its own, want *.name`},
		{"www.*.com", "", `"www.*.com" has a * elsewhere than in a first label of its own, want *.name`},
		{"*.", "", `"*." ends in a dot`},
		{"https://example.com", "", `"https://example.com" has a scheme, want the name alone`},
		{"example.com/path", "", `"example.com/path" has a path, want the name alone`},
		{"example.com:443", "", `"example.com:443" has a port, want the name alone and ports in ports`},
		{"user@example.com", "", `"user@example.com" has a user, want the name alone`},
		{"[2001:db8::1]:443", "", `"[2001:db8::1]:443" has brackets, want the address alone and ports in ports`},
		{"1.2.3.4:80", "", `"1.2.3.4:80" has a port, want the name alone and ports in ports`},
		{"example.com.", "", `"example.com." ends in a dot; nearest is example.com`},
		{"example..com", "", `"example..com" has an empty label`},
		{".example.com", "", `".example.com" has an empty label`},
		{"-a.com", "", `"-a.com" has a label that begins or ends with -`},
		{"a-.com", "", `"a-.com" has a label that begins or ends with -`},
		{"a b.com", "", `"a b.com" isn't a name: it has ' '`},
		{"a\x00b.com", "", `"a\x00b.com" isn't a name: it has '\x00'`},
		{"bücher.example", "", `"bücher.example" isn't ASCII, want its xn-- form`},
		{label + "a.com", "", `"` + label + `a"… has a label of 64 bytes, at most 63`},
		{strings.Repeat("a.", 127) + "aa", "", "256 bytes, a name has at most 253"},
		{"localhost", "", `"localhost" is the sandbox itself, which no rule is needed for`},
		{"a.localhost", "", `"a.localhost" is the sandbox itself, which no rule is needed for`},

		{"0x7f.1", "", `"0x7f.1" isn't an address; write four decimal numbers without leading zeros, or IPv6`},
		{"0x7f000001", "", `"0x7f000001" isn't an address; write four decimal numbers without leading zeros, or IPv6`},
		{"010.0.0.1", "", `"010.0.0.1" isn't an address; write four decimal numbers without leading zeros, or IPv6`},
		{"127.1", "", `"127.1" isn't an address; write four decimal numbers without leading zeros, or IPv6`},
		{"2130706433", "", `"2130706433" isn't an address; write four decimal numbers without leading zeros, or IPv6`},
		{"1.2.3.4.", "", `"1.2.3.4." isn't an address; write four decimal numbers without leading zeros, or IPv6`},
		{"256.1.1.1", "", `"256.1.1.1" isn't an address; write four decimal numbers without leading zeros, or IPv6`},
		{"example.0x1F", "", `"example.0x1F" isn't an address; write four decimal numbers without leading zeros, or IPv6`},
		{"::ffff:10.0.0.1", "", `"::ffff:10.0.0.1" is an IPv4 address written as IPv6; nearest is 10.0.0.1`},
		{"::ffff:0:0/96", "", `"::ffff:0:0/96" is an IPv4 address written as IPv6`},
		{"fe80::1%eth0", "", `"fe80::1%eth0" has a zone, which means nothing outside of its host`},
		{"10.0.0.1/8", "", `"10.0.0.1/8" has bits behind its length; nearest is 10.0.0.0/8`},
		{"10.0.0.0/33", "", `"10.0.0.0/33" isn't a prefix; write address/length, with a length of at most 32`},
		{"10.0.0.0/08", "", `"10.0.0.0/08" isn't a prefix; write address/length, with a length of at most 32`},
		{"10.0.0.0/255.0.0.0", "", `"10.0.0.0/255.0.0.0" isn't a prefix; write address/length, with a length of at most 32`},
		{"::1::2", "", `"::1::2" isn't an address; write four decimal numbers without leading zeros, or IPv6`},
	} {
		got, fault := parseTarget("", test.target)
		switch {
		case fault != nil && fault.Error() != test.fault:
			t.Errorf("%q:\n got %s\nwant %s", test.target, fault, test.fault)
		case fault == nil && test.fault != "":
			t.Errorf("%q is %s, want %s", test.target, got, test.fault)
		case fault == nil && got.String() != test.canonical:
			t.Errorf("%q is %s, want %s", test.target, got, test.canonical)
		}
	}
}

func TestParseNetworkFaults(t *testing.T) {
	tooMany := `{"egress":[` + strings.Repeat(`{"action":"deny","target":"a"},`, 10_000) + `{"action":"deny","target":"a"}]}`
	for body, want := range map[string]string{
		`{"egress":[{"target":"a.b"}]}`:                                    `network.egress[0].action: missing, want one of deny, allow`,
		`{"egress":[{"action":"allow"}]}`:                                  `network.egress[0].target: missing, want a name, *.name, an address or a prefix`,
		`{"egress":[{"action":"allow","target":"a.b","ports":[]}]}`:        `network.egress[0].ports: empty; leave it out for all ports, or name them`,
		`{"egress":[{"action":"allow","target":"a.b","ports":[1,65536]}]}`: `network.egress[0].ports[1]: 65536 is out of range 1..65535`,
		`{"egress":[{"action":"allow","target":"a.b","ports":[0]}]}`:       `network.egress[0].ports[0]: 0 is out of range 1..65535`,
		`{"egress":[{"action":"allow","target":"a.b","ports":["443"]}]}`:   `network.egress[0].ports[0]: want a whole number, got a string`,
		`{"egress":[{"action":"allow","target":"169.254.169.254"}]}`:       `network.egress[0].target: 169.254.169.254 is a metadata address and never reachable; remove the rule`,
		`{"egress":[{"action":"allow","target":"::1"}]}`:                   `network.egress[0].target: ::1 is the sandbox itself and never reachable; remove the rule`,
		`{"egress":[{"action":"allow","target":"0.0.0.0"}]}`:               `network.egress[0].target: 0.0.0.0 is no address and never reachable; remove the rule`,
		`{"egress":[{"action":"allow","target":"224.0.0.1"}]}`:             `network.egress[0].target: 224.0.0.1 is a multicast address and never reachable; remove the rule`,
		`{"defaultAction":""}`:                                             `network.defaultAction: unknown value "", want one of deny, allow`,
		`{"egress":null}`:                                                  `network.egress: null isn't a value here; leave the field out instead`,
		tooMany:                                                            `network.egress: 10001 rules, at most 10000`,
	} {
		if _, err := ParseNetwork([]byte(body)); err == nil || err.Error() != want {
			t.Errorf("%.100s:\n got %v\nwant %s", body, err, want)
		}
	}
	for _, body := range []string{`{}`, `{"egress":[]}`, `{"egress":[{"action":"deny","target":"169.254.169.254"}]}`} {
		if spec, err := ParseNetwork([]byte(body)); err != nil || !spec.DenyAll() {
			t.Errorf("%s is %+v and %v, want deny-all", body, spec, err)
		}
	}
}
