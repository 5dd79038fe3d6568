package names

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// BenchmarkName answers a name that is in the cache, in turn with a bare UDP echo of the same bytes: µs at the median and the 99th percentile, and
// the ratio of the medians. DESIGN §13: at most 100 µs and 4 times.
func BenchmarkName(b *testing.B) {
	s, _, _, _ := newTestServer(b, exampleNet, func(c *Config) { c.Limits.Queries, c.Now, c.Resolver.config.Now = 1<<30, time.Now, time.Now })
	packet, err := new(dns.Msg).SetQuestion("api.example.net.", dns.TypeA).Pack()
	if err != nil {
		b.Fatal(err)
	}
	s.exchange(packet)
	name := client(b, serve(b, s))
	bare := client(b, echo(b))
	ask := func(conn net.Conn) time.Duration {
		start := time.Now()
		if _, err := conn.Write(packet); err != nil {
			b.Fatal(err)
		}
		var buffer [512]byte
		if _, err := conn.Read(buffer[:]); err != nil {
			b.Fatal(err)
		}
		return time.Since(start)
	}
	var names, bares []time.Duration
	for b.Loop() {
		bares = append(bares, ask(bare))
		names = append(names, ask(name))
	}
	slices.Sort(bares)
	slices.Sort(names)
	at := func(all []time.Duration, percent int) float64 { return float64(all[(len(all)-1)*percent/100]) / 1e3 }
	b.ReportMetric(at(names, 50), "µs-p50")
	b.ReportMetric(at(names, 99), "µs-p99")
	b.ReportMetric(at(bares, 50), "µs-bare-p50")
	b.ReportMetric(at(names, 50)/at(bares, 50), "ratio-p50")
}

// BenchmarkUpstream answers names that aren't in the cache, in turn with one question to the same name server on a socket that stands: for a name A and AAAA
// are asked, each from a port of its own.
func BenchmarkUpstream(b *testing.B) {
	address := upstream(b, func(query *dns.Msg, _ string) []*dns.Msg {
		if query.Question[0].Qtype == dns.TypeA {
			return []*dns.Msg{withA(query, "8.0.0.1")}
		}
		return []*dns.Msg{new(dns.Msg).SetReply(query)}
	})
	resolver, err := NewResolver(DefaultResolverConfig(address))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(resolver.Close)
	s, _, _, _ := newTestServer(b, exampleNet, func(c *Config) {
		c.Limits.Queries, c.Limits.Names, c.Now, c.Resolver = 1<<30, 1<<20, time.Now, resolver
	})
	name, direct := client(b, serve(b, s)), client(b, address.Port())
	asked := 0
	ask := func(conn net.Conn) time.Duration {
		asked++
		packet, err := new(dns.Msg).SetQuestion(fmt.Sprintf("n%d.example.net.", asked), dns.TypeA).Pack()
		if err != nil {
			b.Fatal(err)
		}
		start := time.Now()
		if _, err := conn.Write(packet); err != nil {
			b.Fatal(err)
		}
		var buffer [512]byte
		n, err := conn.Read(buffer[:])
		took := time.Since(start)
		if reply := new(dns.Msg); err != nil || reply.Unpack(buffer[:n]) != nil || len(reply.Answer) != 1 {
			b.Fatalf("%v: %v", err, reply)
		}
		return took
	}
	var names, directs []time.Duration
	for b.Loop() {
		directs = append(directs, ask(direct))
		names = append(names, ask(name))
	}
	slices.Sort(directs)
	slices.Sort(names)
	p50 := func(all []time.Duration) float64 { return float64(all[len(all)/2]) / 1e3 }
	b.ReportMetric(p50(names), "µs-p50")
	b.ReportMetric(p50(names)/p50(directs), "ratio-p50")
}

func client(b *testing.B, port uint16) net.Conn {
	conn, err := net.Dial("udp", netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port).String())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	return conn
}

func echo(b *testing.B) uint16 {
	conn, err := net.ListenUDP("udp", nil)
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buffer := make([]byte, 512)
		for {
			n, from, err := conn.ReadFromUDPAddrPort(buffer)
			if err != nil {
				return
			}
			_, _ = conn.WriteToUDPAddrPort(buffer[:n], from)
		}
	}()
	b.Cleanup(func() {
		conn.Close()
		<-done
	})
	return uint16(conn.LocalAddr().(*net.UDPAddr).Port)
}
