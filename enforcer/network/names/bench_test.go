package names

import (
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
