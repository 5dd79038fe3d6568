package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/policy"
)

func TestNetworkAllow(t *testing.T) {
	for _, test := range []struct{ text, want, fault string }{
		{"pypi.org", `{"defaultAction":"deny","egress":[{"action":"allow","target":"pypi.org"}]}`, ""},
		{"*.PyPI.org:443,80", `{"defaultAction":"deny","egress":[{"action":"allow","ports":[80,443],"target":"*.pypi.org"}]}`, ""},
		{"10.0.0.0/8:5432", `{"defaultAction":"deny","egress":[{"action":"allow","ports":[5432],"target":"10.0.0.0/8"}]}`, ""},
		{"2600::1", `{"defaultAction":"deny","egress":[{"action":"allow","target":"2600::1"}]}`, ""},
		{"[2600::/16]:443", `{"defaultAction":"deny","egress":[{"action":"allow","ports":[443],"target":"2600::/16"}]}`, ""},
		{"pypi.org:0", "", `--network-allow "pypi.org:0": "0" isn't a port; want TARGET:PORT,… with ports 1..65535`},
		{"pypi.org:443,", "", `--network-allow "pypi.org:443,": "" isn't a port; want TARGET:PORT,… with ports 1..65535`},
		{"pypi.org:+443", "", `--network-allow "pypi.org:+443": "+443" isn't a port; want TARGET:PORT,… with ports 1..65535`},
		{"pypi.org:0443", "", `--network-allow "pypi.org:0443": "0443" isn't a port; want TARGET:PORT,… with ports 1..65535`},
		{"pypi.org:443:80", "", `--network-allow "pypi.org:443:80": "pypi.org:443:80" isn't an address; write four decimal numbers without leading zeros, or IPv6`},
		{"[2600::1]", "", `--network-allow "[2600::1]": want [IPV6]:PORT,… where brackets are`},
		{"[pypi.org]:443", "", `--network-allow "[pypi.org]:443": want [IPV6]:PORT,… where brackets are`},
		{"*:443", "", `--network-allow "*:443": "*" isn't a target; for everything write defaultAction "allow"`},
		{":443", "", `--network-allow ":443": empty, want a name, *.name, an address or a prefix`},
		{"127.1:80", "", `--network-allow "127.1:80": "127.1" isn't an address; write four decimal numbers without leading zeros, or IPv6`},
		{"metadata.google.internal", "", `--network-allow "metadata.google.internal": metadata.google.internal is a metadata name and never reachable; remove the rule`},
	} {
		data, err := (&spec{networkAllow: list{test.text}}).parseNetwork()
		if test.fault != "" {
			if err == nil || err.Error() != test.fault {
				t.Errorf("%s:\n got %v\nwant %s", test.text, err, test.fault)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", test.text, err)
			continue
		}
		if got, err := execd.ParseNetwork(data); err != nil || string(policy.Canonical(got)) != test.want {
			t.Errorf("%s:\n got %s, %v\nwant %s", test.text, policy.Canonical(got), err, test.want)
		}
	}
}

func TestParseResolvers(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.53": "[192.0.2.53:53]", "192.0.2.53:5353": "[192.0.2.53:5353]", "2001:db8::53": "[[2001:db8::53]:53]", "[2001:db8::53]:54": "[[2001:db8::53]:54]",
		"192.0.2.1,192.0.2.2": "[192.0.2.1:53 192.0.2.2:53]", "none": "[]",
		"": "", "localhost": "", "192.0.2.53:0": "", "192.0.2.053": "", "none,192.0.2.1": "", "192.0.2.1:dns": "",
	} {
		got, err := parseResolvers(strings.Split(text, ","))
		if (err == nil) != (want != "") || err == nil && fmt.Sprint(got) != want {
			t.Errorf("%q: %v, %v; want %q", text, got, err, want)
		}
	}
}
