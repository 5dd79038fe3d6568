package names

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// Whatever comes: no panic, and either silence or a small answer to that very query, with an address only for an allowed name that exists.
func FuzzQuery(f *testing.F) {
	add := func(m *dns.Msg) {
		packet, err := m.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(packet)
	}
	for _, name := range []string{"api.example.net.", "aPi.eXample.net.", "example.org.", "localhost.", "private.example.net.", `a\000.example.net.`, "."} {
		for _, kind := range []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeTXT} {
			add(new(dns.Msg).SetQuestion(name, kind))
			add(new(dns.Msg).SetQuestion(name, kind).SetEdns0(65535, true))
		}
	}
	f.Add([]byte{0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0xc0, 12, 0, 1, 0, 1})
	f.Fuzz(func(t *testing.T, packet []byte) {
		s, upstream, _, _ := newTestServer(t, exampleNet, func(c *Config) { c.AAAA = true })
		packet = append([]byte(nil), packet...)
		out := s.exchange(packet)
		if out == nil {
			if len(packet) >= headerBytes && packet[2]&0x80 == 0 {
				t.Fatal("silence for a query")
			}
			return
		}
		var reply dns.Msg
		if err := reply.Unpack(out); err != nil {
			t.Fatalf("answer %x: %v", out, err)
		}
		if len(out) > 512 || out[0] != packet[0] || out[1] != packet[1] || !reply.Response || len(reply.Answer) > 1 || len(reply.Ns) > 0 {
			t.Fatalf("answer %s", &reply)
		}
		for _, record := range reply.Answer {
			name := strings.TrimSuffix(strings.ToLower(record.Header().Name), ".")
			if isLocalhost(name) {
				continue
			}
			var address netip.Addr
			switch record := record.(type) {
			case *dns.A:
				address, _ = netip.AddrFromSlice(record.A.To4())
			case *dns.AAAA:
				address, _ = netip.AddrFromSlice(record.AAAA)
			}
			if owner, ok := s.NameOf(address); !ok || owner != name || !s.config.Resolvable(name).Allow {
				t.Fatalf("%s: %s is %q's", record, address, owner)
			}
		}
		for question := range upstream.asked {
			if name, _, _ := strings.Cut(question, " "); !s.config.Resolvable(name).Allow {
				t.Fatalf("upstream was asked for %s", question)
			}
		}
	})
}

// What an upstream answers is from outside too.
func FuzzUpstream(f *testing.F) {
	for name := range exampleNet {
		for _, kind := range []uint16{dns.TypeA, dns.TypeAAAA} {
			reply, err := exampleNet.reply(name, kind)
			if err != nil {
				continue
			}
			packet, err := reply.Pack()
			if err != nil {
				f.Fatal(err)
			}
			f.Add(packet)
		}
	}
	f.Fuzz(func(t *testing.T, packet []byte) {
		var reply dns.Msg
		if reply.Unpack(packet) != nil {
			return
		}
		query := new(dns.Msg).SetQuestion("api.example.net.", dns.TypeA)
		query.Id = reply.Id
		if answers(&reply, query) != nil {
			return
		}
		found, err := read(&reply)
		if err != nil {
			return
		}
		if !found.exists && len(found.addrs) > 0 || len(found.addrs) > mostAddresses || found.ttl < 0 {
			t.Fatalf("%+v", found)
		}
		for _, a := range found.addrs {
			if !a.Is4() {
				t.Fatalf("%s in an answer for A", a)
			}
		}
	})
}

func FuzzParseResolvConf(f *testing.F) {
	f.Add("nameserver 192.0.2.53\nsearch a\n")
	f.Add("nameserver fe80::1%eth0")
	f.Fuzz(func(t *testing.T, file string) {
		upstreams, err := ParseResolvConf(strings.NewReader(file))
		if err != nil && upstreams != nil || len(upstreams) > mostUpstreams {
			t.Fatal(upstreams, err)
		}
		for _, upstream := range upstreams {
			if !upstream.IsValid() || upstream.Port() != 53 {
				t.Fatal(upstream)
			}
		}
	})
}
