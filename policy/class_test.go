package policy

import (
	"net/netip"
	"testing"
)

func TestClassOf(t *testing.T) {
	for address, want := range map[string]Class{
		"8.8.8.8": ClassPublic, "9.255.255.255": ClassPublic, "11.0.0.0": ClassPublic, "100.63.255.255": ClassPublic, "100.128.0.0": ClassPublic,
		"126.255.255.255": ClassPublic, "128.0.0.0": ClassPublic, "169.253.255.255": ClassPublic, "172.15.255.255": ClassPublic, "172.32.0.0": ClassPublic,
		"192.0.1.0": ClassPublic, "192.167.255.255": ClassPublic, "198.17.255.255": ClassPublic, "198.20.0.0": ClassPublic, "223.255.255.255": ClassPublic,
		"0.0.0.0": ClassUnspecified, "0.255.255.255": ClassUnspecified, "::": ClassUnspecified,
		"127.0.0.1": ClassLoopback, "127.255.255.255": ClassLoopback, "::1": ClassLoopback,
		"10.0.0.0": ClassPrivate, "10.255.255.255": ClassPrivate, "172.16.0.0": ClassPrivate, "172.31.255.255": ClassPrivate, "192.168.1.1": ClassPrivate,
		"100.64.0.0": ClassShared, "100.127.255.255": ClassShared,
		"169.254.1.1": ClassLinkLocal, "fe80::1": ClassLinkLocal, "fe80::1%eth0": ClassLinkLocal, "febf::1": ClassLinkLocal,
		"fc00::1": ClassUniqueLocal, "fdff::1": ClassUniqueLocal, "fec0::1": ClassUniqueLocal,
		"224.0.0.1": ClassMulticast, "239.255.255.255": ClassMulticast, "ff02::1": ClassMulticast,
		"255.255.255.255": ClassBroadcast,
		"240.0.0.1":       ClassReserved, "255.255.255.254": ClassReserved, "192.0.0.1": ClassReserved, "192.88.99.1": ClassReserved, "100::1": ClassReserved,
		"2001:20::1": ClassReserved, "4000::1": ClassReserved, "1000::1": ClassReserved, "fe00::1": ClassReserved,
		"192.0.2.1": ClassDocumentation, "198.51.100.1": ClassDocumentation, "203.0.113.1": ClassDocumentation, "2001:db8::1": ClassDocumentation, "3fff::1": ClassDocumentation,
		"198.18.0.1": ClassBenchmarking, "198.19.255.255": ClassBenchmarking, "2001:2::1": ClassBenchmarking,
		"169.254.169.254": ClassMetadata, "169.254.170.2": ClassMetadata, "168.63.129.16": ClassMetadata, "100.100.100.200": ClassMetadata,
		"192.0.0.192": ClassMetadata, "fd00:ec2::254": ClassMetadata, "fd20:ce::254": ClassMetadata, "fe80::a9fe:a9fe": ClassMetadata,
		"::ffff:8.8.8.8": ClassTranslated, "::8.8.8.8": ClassTranslated, "::ffff:0:8.8.8.8": ClassTranslated, "64:ff9b::8.8.8.8": ClassTranslated,
		"64:ff9b:1::1": ClassTranslated, "2002:808:808::1": ClassTranslated, "2001::1": ClassTranslated,
		"2600::1": ClassPublic, "2a00:1450::1": ClassPublic, "2001:4860::1": ClassPublic, "2001:200::1": ClassPublic, "3ffe::1": ClassPublic,
	} {
		if got := ClassOf(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s is %s, want %s", address, got, want)
		}
	}
	if got := ClassOf(netip.Addr{}); got != ClassUnspecified {
		t.Errorf("no address is %s", got)
	}
}

func TestEmbedded(t *testing.T) {
	for address, want := range map[string]string{
		"::ffff:169.254.169.254":         "169.254.169.254",
		"::169.254.169.254":              "169.254.169.254",
		"::ffff:0:169.254.169.254":       "169.254.169.254",
		"64:ff9b::169.254.169.254":       "169.254.169.254",
		"2002:a9fe:a9fe::1":              "169.254.169.254",
		"2001:0:4136:e378:0:0:5601:5601": "169.254.169.254",
		"64:ff9b:1::169.254.169.254":     "",
		"8.8.8.8":                        "",
		"2600::1":                        "",
		"::1":                            "",
		"::":                             "",
	} {
		got, ok := Embedded(netip.MustParseAddr(address))
		if ok != (want != "") || ok && got.String() != want {
			t.Errorf("%s stands for %s (%v), want %q", address, got, ok, want)
		}
	}
}

// A look by the first byte finds what a look at every range finds.
func FuzzRangeOf(f *testing.F) {
	for _, r := range Ranges() {
		f.Add(r.Prefix.Addr().AsSlice())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		address, ok := netip.AddrFromSlice(data)
		if !ok {
			return
		}
		want := Range{Class: ClassPublic, Prefix: netip.Prefix{}}
		for _, r := range Ranges() {
			if r.Prefix.Contains(address) && (want.Class == ClassPublic || r.Prefix.Bits() > want.Prefix.Bits()) {
				want = r
			}
		}
		if got := RangeOf(address); got != want {
			t.Fatalf("%s is in %v, want %v", address, got, want)
		}
		if inner, ok := Embedded(address); ok && (!inner.Is4() || ClassOf(address) != ClassTranslated) {
			t.Fatalf("%s, %s, stands for %s", address, ClassOf(address), inner)
		}
	})
}

// What is read as a host is an address that net/netip spells the same, or a name that no resolver takes for an address.
func FuzzParseHost(f *testing.F) {
	for _, text := range []string{"example.com", "EXAMPLE.com.", "127.1", "0x7f.1", "2130706433", "::ffff:1.2.3.4", "fe80::1%eth0", "1.2.3.4", "2600::1", "[::1]", "a%2eb", "*.a.b", "a..b", "a b", "a@b", "a\\b", "1.2.3.4.", "010.0.0.1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		name, address, err := ParseHost(text)
		if err != nil {
			checkFault(t, err)
			return
		}
		if name == "" {
			if known, err := netip.ParseAddr(text); err != nil || known != address || address.Zone() != "" || address.Is4In6() {
				t.Fatalf("%q is %s", text, address)
			}
			return
		}
		target, err := ParseTarget(name)
		if err != nil || target.Name != name || target.Wildcard {
			t.Fatalf("%q is the name %q, which is %v, %v as a target", text, name, target, err)
		}
		if again, _, err := ParseHost(name); err != nil || again != name || endsInNumber(name) {
			t.Fatalf("%q is the name %q, which is %q, %v", text, name, again, err)
		}
	})
}

func TestParseHost(t *testing.T) {
	for _, test := range []struct{ text, want, fault string }{
		{"example.com", "example.com", ""},
		{"EXAMPLE.com.", "example.com", ""},
		{"db", "db", ""},
		{"93.184.216.34", "93.184.216.34", ""},
		{"2001:DB8::1", "2001:db8::1", ""},
		{"", "", `"" has an empty label`},
		{"*.example.com", "", `"*.example.com" isn't a name: it has '*'`},
		{"example.com..", "", `"example.com." ends in a dot; nearest is example.com`},
		{"[2001:db8::1]", "", `"[2001:db8::1]" isn't an address; write four decimal numbers without leading zeros, or IPv6`},
		{"::ffff:10.0.0.1", "", `"::ffff:10.0.0.1" is an IPv4 address written as IPv6; nearest is 10.0.0.1`},
		{"127.1", "", `"127.1" isn't an address; write four decimal numbers without leading zeros, or IPv6`},
		{"example%2ecom", "", `"example%2ecom" isn't a name: it has '%'`},
		{"a\\b.com", "", `"a\\b.com" isn't a name: it has '\\'`},
		{"user@example.com", "", `"user@example.com" has a user, want the name alone`},
		{"localhost", "", `"localhost" is the sandbox itself, which no rule is needed for`},
	} {
		name, address, err := ParseHost(test.text)
		got := name
		if name == "" && err == nil {
			got = address.String()
		}
		switch {
		case err != nil && err.Error() != test.fault, err == nil && test.fault != "", got != test.want:
			t.Errorf("%q is %q, %v; want %q, %s", test.text, got, err, test.want, test.fault)
		}
	}
}
