package names

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCanonical(t *testing.T) {
	long := strings.Repeat("a", 63)
	for _, test := range []struct{ qname, name, reason string }{
		{"example.net.", "example.net", ""},
		{"eXaMple.NET.", "example.net", ""},
		{"db.", "db", ""},
		{"_service.example.net.", "_service.example.net", ""},
		{"xn--bcher-kva.example.net.", "xn--bcher-kva.example.net", ""},
		{"4.example.net.", "4.example.net", ""},
		{long + ".example.net.", long + ".example.net", ""},
		{".", "", ReasonMalformed},
		{"a..b.", "", ReasonMalformed},
		{".a.", "", ReasonMalformed},
		{long + "a.example.net.", "", ReasonMalformed},
		{strings.Repeat(long+".", 4), "", ReasonMalformed},
		{`a\000.example.net.`, "", ReasonMalformed},
		{`example\.net.`, "", ReasonMalformed},
		{`b\195\188cher.example.net.`, "", ReasonMalformed},
		{"a b.", "", ReasonMalformed},
		{"user@example.net.", "", ReasonMalformed},
		{"%65xample.net.", "", ReasonMalformed},
		{"*.example.net.", "", ReasonMalformed},
		{"-a.example.net.", "", ReasonMalformed},
		{"127.0.0.1.", "", ReasonAddress},
		{"2130706433.", "", ReasonAddress},
		{"0x7f.1.", "", ReasonAddress},
		{"0x7f000001.", "", ReasonAddress},
		{"example.0x.", "", ReasonAddress},
	} {
		name, reason := canonical(test.qname)
		if name != test.name && reason == "" || reason != test.reason {
			t.Errorf("%q: %q, %q; want %q, %q", test.qname, name, reason, test.name, test.reason)
		}
	}
}

func TestLimitsOfAName(t *testing.T) {
	limits := DefaultLimits()
	for _, test := range []struct{ name, reason string }{
		{"d111111abcdef8.cloudfront.example.net", ""},
		{"ec2-203-0-113-25.compute-1.amazonaws.example.net", ""},
		{"123e4567-e89b-12d3-a456-426614174000.blob.example.net", ""},
		{"da39a3ee5e6b4b0d3255bfef95601890afd80709.example.net", ""},
		// 31 and 32 bytes of data in base32, in one label and in two.
		{"mzxw6ytboi2dgnbvgy3tqojqmfrggzdfmzxw6ytboi2dgnbvgy.example.net", ReasonLabel},
		{"mzxw6ytboi2dgnbvgy3tqojqmfrggzdf.nb2hi4dthixs653xo4xgk6dbnvygyzj.onswg4tforzsa43fmnzgk5bamj2xiidopjtwyz3p.example.net", ReasonBits},
		{strings.Repeat("a", 49) + ".example.net", ReasonLabel},
		{strings.Repeat("a", 48) + ".example.net", ""},
	} {
		if reason := limits.carries(test.name); reason != test.reason {
			t.Errorf("%s: %q, want %q (%.0f bits)", test.name, reason, test.reason, bits(test.name))
		}
	}
	for _, change := range []func(*Limits){
		func(l *Limits) { l.Queries = 0 }, func(l *Limits) { l.Names = -1 }, func(l *Limits) { l.LabelBytes = 0 }, func(l *Limits) { l.NameBits = 0 },
		func(l *Limits) { l.Pending = 0 }, func(l *Limits) { l.Connections = 0 }, func(l *Limits) { l.Idle = 0 }, func(l *Limits) { l.Denials = 0 },
	} {
		changed := limits
		change(&changed)
		if changed.check() == nil {
			t.Errorf("%+v is taken; a limit of nothing is none", changed)
		}
	}
}

func TestParseResolvConf(t *testing.T) {
	for _, test := range []struct {
		file string
		want string
		err  string
	}{
		{"", "", ""},
		{"search a.example.net\noptions ndots:5\n", "", ""},
		{"# nameserver 192.0.2.1\nnameserver 192.0.2.53\n", "192.0.2.53:53", ""},
		{"nameserver\t2001:db8::53\nnameserver fe80::1%eth0\n", "[2001:db8::53]:53 [fe80::1%eth0]:53", ""},
		{"nameserver ::ffff:192.0.2.53", "192.0.2.53:53", ""},
		{"nameserver 192.0.2.1\nnameserver 192.0.2.2\nnameserver 192.0.2.3\nnameserver 192.0.2.4", "192.0.2.1:53 192.0.2.2:53 192.0.2.3:53", ""},
		{"nameserver dns.example.net", "", `resolv.conf: line 1: ParseAddr("dns.example.net"): unexpected character (at "dns.example.net")`},
		{"\nnameserver", "", "resolv.conf: line 2: nameserver without an address"},
	} {
		upstreams, err := ParseResolvConf(strings.NewReader(test.file))
		var got []string
		for _, upstream := range upstreams {
			got = append(got, upstream.String())
		}
		message := ""
		if err != nil {
			message = err.Error()
		}
		if diff := cmp.Diff([]string{test.want, test.err}, []string{strings.Join(got, " "), message}); diff != "" {
			t.Errorf("%q: (-want +got)\n%s", test.file, diff)
		}
	}
}
