package names

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
)

var exampleNet = zone{
	"api.example.net":        {"api.example.net. 300 A 192.0.2.1", "api.example.net. 300 AAAA 2001:db8::1"},
	"www.example.net":        {"www.example.net. 300 A 192.0.2.1"},
	"six.example.net":        {"six.example.net. 300 AAAA 2001:db8::6"},
	"empty.example.net":      {},
	"private.example.net":    {"private.example.net. 300 A 10.0.0.1"},
	"mixed.example.net":      {"mixed.example.net. 300 A 10.0.0.1", "mixed.example.net. 300 A 192.0.2.7"},
	"broken.example.net":     {"SERVFAIL"},
	"lost.example.net":       {"LOST"},
	"alias.example.net":      {"alias.example.net. 300 CNAME host.example.org.", "host.example.org. 300 A 192.0.2.9"},
	"dangling.example.net":   {"dangling.example.net. 300 CNAME host.example.org."},
	"foreign.example.net":    {"other.example.net. 300 A 192.0.2.66"},
	"halfbroken.example.net": {"SERVFAIL AAAA", "halfbroken.example.net. 300 A 192.0.2.8"},
	"db":                     {"db. 300 A 192.0.2.5"},
}

// summary of an answer: "rcode", then the answers' data.
func summary(t *testing.T, packet []byte) string {
	t.Helper()
	if packet == nil {
		return "silence"
	}
	var reply dns.Msg
	if err := reply.Unpack(packet); err != nil {
		t.Fatalf("answer %x: %v", packet, err)
	}
	words := []string{dns.RcodeToString[reply.Rcode]}
	for _, record := range reply.Answer {
		words = append(words, strings.TrimPrefix(record.String(), record.Header().String()))
	}
	return strings.Join(words, " ")
}

func TestAnswers(t *testing.T) {
	question := func(name string, kind uint16) *dns.Msg { return new(dns.Msg).SetQuestion(name, kind) }
	change := func(m *dns.Msg, change func(*dns.Msg)) *dns.Msg { change(m); return m }
	const first = "198.18.0.1"
	for _, test := range []struct {
		name    string
		query   *dns.Msg
		want    string
		denials string // "name type rule reason"
	}{
		{"allowed", question("api.example.net.", dns.TypeA), "NOERROR " + first, ""},
		{"allowed, AAAA is off", question("api.example.net.", dns.TypeAAAA), "NOERROR", ""},
		{"by a wildcard", question("www.example.net.", dns.TypeA), "NOERROR " + first, ""},
		{"single label that a rule spells out", question("db.", dns.TypeA), "NOERROR " + first, ""},
		{"IPv6 only", question("six.example.net.", dns.TypeA), "NOERROR " + first, ""},
		{"no addresses", question("empty.example.net.", dns.TypeA), "NOERROR", ""},
		{"missing", question("missing.example.net.", dns.TypeA), "NXDOMAIN", ""},
		{"missing, AAAA", question("missing.example.net.", dns.TypeAAAA), "NXDOMAIN", ""},
		{"upstream fails", question("broken.example.net.", dns.TypeA), "SERVFAIL", ""},
		{"upstream is silent", question("lost.example.net.", dns.TypeA), "SERVFAIL", ""},
		{"upstream fails for AAAA only", question("halfbroken.example.net.", dns.TypeA), "NOERROR " + first, ""},
		{"D10: CNAME to a host not allowed: the record is hidden", question("alias.example.net.", dns.TypeA), "NOERROR " + first, ""},
		{"CNAME to nowhere", question("dangling.example.net.", dns.TypeA), "NOERROR", ""},
		{"a record of another name", question("foreign.example.net.", dns.TypeA), "NOERROR", ""},
		{"D17: private address", question("private.example.net.", dns.TypeA), "NXDOMAIN", "private.example.net A -2 a private address"},
		{"private and public", question("mixed.example.net.", dns.TypeA), "NOERROR " + first, ""},
		{"by no rule", question("example.org.", dns.TypeA), "NXDOMAIN", "example.org A -1 no rule allows it"},
		{"look-alike", question("evil-example.net.", dns.TypeA), "NXDOMAIN", "evil-example.net A -1 no rule allows it"},
		{"by a deny", question("DENIED.example.net.", dns.TypeAAAA), "NXDOMAIN", "denied.example.net AAAA 2 a rule denies it"},
		{"localhost", question("localhost.", dns.TypeA), "NOERROR 127.0.0.1", ""},
		{"localhost, AAAA", question("a.localhost.", dns.TypeAAAA), "NOERROR ::1", ""},
		{"root", question(".", dns.TypeA), "NXDOMAIN", ". A -3 not a host name"},
		{"address", question("169.254.169.254.", dns.TypeA), "NXDOMAIN", "169.254.169.254. A -3 an address in a name's place"},
		{"NUL", question(`api\000.example.net.`, dns.TypeA), "NXDOMAIN", `api\000.example.net. A -3 not a host name`},
		{"D12: TXT", question("api.example.net.", dns.TypeTXT), "REFUSED", "api.example.net. TXT -3 only A and AAAA are answered"},
		{"D12: ANY", question("api.example.net.", dns.TypeANY), "REFUSED", "api.example.net. ANY -3 only A and AAAA are answered"},
		{"D12: NULL", question("api.example.net.", dns.TypeNULL), "REFUSED", "api.example.net. NULL -3 only A and AAAA are answered"},
		{"D12: HTTPS", question("api.example.net.", dns.TypeHTTPS), "REFUSED", "api.example.net. HTTPS -3 only A and AAAA are answered"},
		{"D12: AXFR", question("example.net.", dns.TypeAXFR), "REFUSED", "example.net. AXFR -3 only A and AAAA are answered"},
		{"CNAME", question("alias.example.net.", dns.TypeCNAME), "REFUSED", "alias.example.net. CNAME -3 only A and AAAA are answered"},
		{"unknown type", question("api.example.net.", 65280), "REFUSED", "api.example.net. TYPE65280 -3 only A and AAAA are answered"},
		{"class", change(question("version.bind.", dns.TypeTXT), func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS }),
			"REFUSED", "version.bind. TXT -3 only class IN is answered"},
		{"update", change(question("example.net.", dns.TypeSOA), func(m *dns.Msg) { m.Opcode = dns.OpcodeUpdate }),
			"REFUSED", "example.net. SOA -3 only queries are answered"},
		{"notify", change(question("example.net.", dns.TypeA), func(m *dns.Msg) { m.Opcode = dns.OpcodeNotify }),
			"REFUSED", "example.net. A -3 only queries are answered"},
		{"two questions", change(question("api.example.net.", dns.TypeA), func(m *dns.Msg) { m.Question = append(m.Question, m.Question[0]) }),
			"FORMERR", "  -3 not one question of DNS"},
		{"no question", change(question(".", dns.TypeA), func(m *dns.Msg) { m.Question = nil }), "FORMERR", "  -3 not one question of DNS"},
		{"an answer in a query", change(question("api.example.net.", dns.TypeA), func(m *dns.Msg) {
			m.Answer = []dns.RR{&dns.TXT{Hdr: dns.RR_Header{Name: "a.", Rrtype: dns.TypeTXT, Class: dns.ClassINET}, Txt: []string{"secret"}}}
		}), "FORMERR", "  -3 not one question of DNS"},
		{"a TXT beside the question", change(question("api.example.net.", dns.TypeA), func(m *dns.Msg) {
			m.Extra = []dns.RR{&dns.TXT{Hdr: dns.RR_Header{Name: "a.", Rrtype: dns.TypeTXT, Class: dns.ClassINET}, Txt: []string{"secret"}}}
		}), "FORMERR", "  -3 not one question of DNS"},
		{"two OPT", change(question("api.example.net.", dns.TypeA).SetEdns0(4096, true), func(m *dns.Msg) { m.Extra = append(m.Extra, m.Extra[0]) }),
			"FORMERR", "  -3 not one question of DNS"},
		{"EDNS version 1", change(question("api.example.net.", dns.TypeA).SetEdns0(4096, true), func(m *dns.Msg) { m.IsEdns0().SetVersion(1) }),
			"BADSIG", ""}, // BADVERS, whose number means both
		{"D14: EDNS with 64 KB", question("api.example.net.", dns.TypeA).SetEdns0(65535, true), "NOERROR " + first, ""},
		{"an answer", change(question("api.example.net.", dns.TypeA), func(m *dns.Msg) { m.Response = true }), "silence", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, _, denials, _ := newTestServer(t, exampleNet, nil)
			packet, err := test.query.Pack()
			if err != nil {
				t.Fatal(err)
			}
			reply := s.exchange(packet)
			if got := summary(t, reply); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
			told := ""
			for _, d := range *denials {
				told += fmt.Sprintf("%s %s %d %s", d.Name, d.Type, d.Rule, d.Reason)
			}
			if told != test.denials {
				t.Errorf("denials %q, want %q", told, test.denials)
			}
			if len(reply) > 512 {
				t.Errorf("%d bytes", len(reply))
			}
		})
	}
}

// What comes back, header by header: the spelling of the question in both places, recursion available, EDNS of ours without a word of theirs.
func TestShapeOfAnAnswer(t *testing.T) {
	s, upstream, _, _ := newTestServer(t, exampleNet, nil)
	query := new(dns.Msg).SetQuestion("aPi.ExAmple.NeT.", dns.TypeA).SetEdns0(65535, true)
	query.CheckingDisabled = true
	query.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "24a5ac1122334455"}}
	packet, err := query.Pack()
	if err != nil {
		t.Fatal(err)
	}
	var got dns.Msg
	if err := got.Unpack(s.exchange(packet)); err != nil {
		t.Fatal(err)
	}
	want := new(dns.Msg).SetReply(query)
	want.RecursionAvailable, want.CheckingDisabled = true, true
	want.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: "aPi.ExAmple.NeT.", Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: answerTTL}, A: []byte{198, 18, 0, 1}}}
	want.SetEdns0(udpSize, true)
	if diff := cmp.Diff(want.String(), got.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if upstream.count("api.example.net A") != 1 {
		t.Errorf("upstream was asked %v", upstream.asked)
	}
}

func TestPackets(t *testing.T) {
	whole, err := new(dns.Msg).SetQuestion("api.example.net.", dns.TypeA).Pack()
	if err != nil {
		t.Fatal(err)
	}
	patch := func(at int, value uint16) []byte {
		packet := append([]byte(nil), whole...)
		binary.BigEndian.PutUint16(packet[at:], value)
		return packet
	}
	for _, test := range []struct {
		name   string
		packet []byte
		want   string
	}{
		{"nothing", nil, "silence"},
		{"less than a header", whole[:11], "silence"},
		{"a header", whole[:12], "FORMERR"},
		{"cut", whole[:len(whole)-1], "FORMERR"},
		{"counts two questions", patch(4, 2), "FORMERR"},
		{"counts 65535 questions", patch(4, 65535), "FORMERR"},
		{"counts an additional record", patch(10, 1), "FORMERR"},
		{"too long", append(append([]byte(nil), whole...), make([]byte, mostQuery)...), "FORMERR"},
		{"a pointer to itself", append(append([]byte(nil), whole[:12]...), 0xc0, 12, 0, 1, 0, 1), "FORMERR"},
	} {
		s, upstream, _, _ := newTestServer(t, exampleNet, nil)
		if got := summary(t, s.exchange(test.packet)); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
		if len(upstream.asked) != 0 {
			t.Errorf("%s: upstream was asked %v", test.name, upstream.asked)
		}
	}
}

func lookup(t testing.TB, s *Server, name string, kind uint16) string {
	packet, err := new(dns.Msg).SetQuestion(dns.Fqdn(name), kind).Pack()
	if err != nil {
		t.Fatal(err)
	}
	var reply dns.Msg
	if err := reply.Unpack(s.exchange(packet)); err != nil {
		t.Fatal(err)
	}
	if len(reply.Answer) == 0 {
		return dns.RcodeToString[reply.Rcode]
	}
	return strings.TrimPrefix(reply.Answer[0].String(), reply.Answer[0].Header().String())
}

func TestEachNameHasItsAddress(t *testing.T) {
	s, _, _, _ := newTestServer(t, exampleNet, func(c *Config) { c.AAAA = true })
	// api and www share their address upstream.
	for i, name := range []string{"api.example.net", "www.example.net", "six.example.net", "api.example.net"} {
		four, six := lookup(t, s, name, dns.TypeA), lookup(t, s, name, dns.TypeAAAA)
		want := i%3 + 1
		if four != fmt.Sprint("198.18.0.", want) || six != fmt.Sprint("fd5b::", want) {
			t.Errorf("%s: %s, %s", name, four, six)
		}
		for _, a := range []string{four, six} {
			if got, ok := s.NameOf(netip.MustParseAddr(a)); got != name || !ok {
				t.Errorf("NameOf %s: %q", a, got)
			}
		}
	}
	if got, ok := s.NameOf(netip.MustParseAddr("198.18.0.4")); ok {
		t.Errorf("an address that nobody was given is %q's", got)
	}
}

// The rules are asked for each query, so that a name is gone with its rule, whatever is kept of it.
func TestRulesAreAskedEachTime(t *testing.T) {
	allowed := true
	s, _, _, _ := newTestServer(t, exampleNet, func(c *Config) {
		c.Resolvable = func(string) Match { return Match{Allow: allowed, Spelled: true} }
	})
	got := []string{lookup(t, s, "api.example.net", dns.TypeA)}
	allowed = false
	got = append(got, lookup(t, s, "api.example.net", dns.TypeA))
	allowed = true
	got = append(got, lookup(t, s, "api.example.net", dns.TypeA))
	if diff := cmp.Diff([]string{"198.18.0.1", "NXDOMAIN", "198.18.0.1"}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// D11. What a sandbox may ask upstream is bounded in each way; a refusal asks nobody.
func TestLimits(t *testing.T) {
	for _, test := range []struct {
		name    string
		limits  func(*Limits)
		queries []string
		want    []string
		reason  string
	}{
		{"names of a wildcard, existing or not", func(l *Limits) { l.Names = 2 },
			[]string{"a.example.net", "www.example.net", "b.example.net", "www.example.net", "api.example.net"},
			[]string{"NXDOMAIN", "198.18.0.1", "REFUSED", "198.18.0.1", "198.18.0.2"}, ReasonNames},
		{"queries a second", func(l *Limits) { l.Queries = 1 },
			[]string{"api.example.net", "example.org", "api.example.net"},
			[]string{"198.18.0.1", "NXDOMAIN", "REFUSED"}, ReasonRate},
		{"label", func(l *Limits) { l.LabelBytes = 8 },
			[]string{"abcdefghi.example.net", "abcdefgh.example.net"}, []string{"REFUSED", "NXDOMAIN"}, ReasonLabel},
		{"bits", func(l *Limits) { l.NameBits = 40 },
			[]string{"abcdefghi.example.net", "a.example.net", "api.example.net"}, []string{"REFUSED", "NXDOMAIN", "198.18.0.1"}, ReasonBits},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, upstream, denials, clock := newTestServer(t, exampleNet, func(c *Config) { test.limits(&c.Limits) })
			var got []string
			for _, name := range test.queries {
				got = append(got, lookup(t, s, name, dns.TypeA))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if n := len(*denials); n == 0 || (*denials)[0].Reason != test.reason && (*denials)[n-1].Reason != test.reason {
				t.Errorf("denials %+v, want %q", *denials, test.reason)
			}
			for i, name := range test.queries {
				if test.want[i] == "REFUSED" && name != "api.example.net" && upstream.count(name+" A") != 0 {
					t.Errorf("upstream was asked for %s", name)
				}
			}
			if clock.add(2 * time.Second); lookup(t, s, "api.example.net", dns.TypeA) == "REFUSED" {
				t.Error("and later it works again")
			}
		})
	}
}

func TestPendingLookupsAreBounded(t *testing.T) {
	s, _, denials, _ := newTestServer(t, exampleNet, func(c *Config) { c.Limits.Pending = 1 })
	s.pending <- struct{}{} // a lookup that waits
	if got := lookup(t, s, "api.example.net", dns.TypeA); got != "REFUSED" || len(*denials) != 1 || (*denials)[0].Reason != ReasonPending {
		t.Errorf("%s, %+v", got, *denials)
	}
	<-s.pending
	if got := lookup(t, s, "api.example.net", dns.TypeA); got != "198.18.0.1" {
		t.Error(got)
	}
	// What is in the cache waits for nobody.
	s.pending <- struct{}{}
	if got := lookup(t, s, "api.example.net", dns.TypeA); got != "198.18.0.1" {
		t.Error(got)
	}
}

// The relay's lookups take the same places, but wait for one.
func TestResolve(t *testing.T) {
	s, _, _, _ := newTestServer(t, exampleNet, func(c *Config) { c.Limits.Pending = 1 })
	s.pending <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if addresses, err := s.Resolve(ctx, "api.example.net"); !errors.Is(err, context.Canceled) {
		t.Error(addresses, err)
	}
	<-s.pending
	for range 2 { // the second from the cache, with every place taken
		addresses, err := s.Resolve(t.Context(), "api.example.net")
		if diff := cmp.Diff([]string{"192.0.2.1", "2001:db8::1"}, texts(addresses)); err != nil || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
		if len(s.pending) == 0 {
			s.pending <- struct{}{}
		}
	}
}

func TestDenialsAreBounded(t *testing.T) {
	s, _, denials, clock := newTestServer(t, exampleNet, func(c *Config) { c.Limits.Denials = 3 })
	for range 10 {
		lookup(t, s, "example.org", dns.TypeA)
	}
	if len(*denials) != 3 {
		t.Errorf("%d denials told in one moment", len(*denials))
	}
	clock.add(time.Second)
	lookup(t, s, "example.org", dns.TypeA)
	if n := len(*denials); n != 4 || (*denials)[3].Suppressed != 7 {
		t.Errorf("%d denials, %+v", n, (*denials)[n-1])
	}
}

func TestObserved(t *testing.T) {
	var got []string
	s, _, _, _ := newTestServer(t, exampleNet, func(c *Config) {
		c.Observed = func(q Query) { got = append(got, fmt.Sprint(q.Rcode, " ", q.Upstream)) }
	})
	for _, name := range []string{"api.example.net", "api.example.net", "example.org", "broken.example.net"} {
		lookup(t, s, name, dns.TypeA)
	}
	if diff := cmp.Diff([]string{"NOERROR true", "NOERROR false", "NXDOMAIN false", "SERVFAIL true"}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
