package names

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
)

// serve has s on one port of every address of this machine, as in a sandbox, and returns the port.
func serve(t testing.TB, s *Server) uint16 {
	t.Helper()
	tcp, err := net.ListenTCP("tcp", nil)
	if err != nil {
		t.Fatal(err)
	}
	port := tcp.Addr().(*net.TCPAddr).Port
	udp, err := net.ListenUDP("udp", &net.UDPAddr{Port: port})
	if err != nil {
		t.Skip("the port that TCP took is another's by UDP: ", err)
	}
	served := make(chan error)
	go func() { served <- s.Serve([]*net.UDPConn{udp}, []*net.TCPListener{tcp}) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return uint16(port)
}

// D16. A client that asks any address gets its answer from that address: its socket is connected, and takes none from another.
func TestAnswersComeFromWhereTheyWereAsked(t *testing.T) {
	s, _, _, _ := newTestServer(t, exampleNet, nil)
	port := serve(t, s)
	for _, address := range []string{"127.0.0.1", "127.0.0.53", "127.9.9.9", "::1"} {
		for _, network := range []string{"udp", "tcp"} {
			for _, name := range []string{"api.example.net.", "example.org.", "www.example.net."} {
				client := dns.Client{Net: network, Timeout: 10 * time.Second}
				reply, _, err := client.Exchange(new(dns.Msg).SetQuestion(name, dns.TypeA), netip.AddrPortFrom(netip.MustParseAddr(address), port).String())
				if err != nil {
					t.Fatalf("%s %s %s: %v", network, address, name, err)
				}
				if want := map[bool]int{true: dns.RcodeNameError, false: dns.RcodeSuccess}[name == "example.org."]; reply.Rcode != want {
					t.Errorf("%s %s %s: %s", network, address, name, dns.RcodeToString[reply.Rcode])
				}
			}
		}
	}
}

// The standard library's own client is one that programs have.
func TestGoResolver(t *testing.T) {
	s, _, _, _ := newTestServer(t, exampleNet, func(c *Config) { c.AAAA = true })
	port := serve(t, s)
	resolver := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, network, netip.AddrPortFrom(netip.MustParseAddr("127.0.0.53"), port).String())
	}}
	addresses, err := resolver.LookupNetIP(t.Context(), "ip", "api.example.net")
	if diff := cmp.Diff([]string{"198.18.0.1", "fd5b::1"}, texts(addresses)); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	var failure *net.DNSError
	if _, err := resolver.LookupNetIP(t.Context(), "ip", "example.org"); !errors.As(err, &failure) || !failure.IsNotFound {
		t.Error(err)
	}
}

func texts(addresses []netip.Addr) []string {
	var all []string
	for _, a := range addresses {
		all = append(all, a.String())
	}
	return all
}

func dialTCP(t *testing.T, port uint16) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port).String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// Several queries at once on one connection are answered in turn; what isn't a query, or comes too slowly, ends it.
func TestTCP(t *testing.T) {
	s, _, _, _ := newTestServer(t, exampleNet, func(c *Config) { c.Limits.Idle = 50 * time.Millisecond })
	port := serve(t, s)
	var packets []byte
	for _, name := range []string{"api.example.net.", "example.org."} {
		packet, err := new(dns.Msg).SetQuestion(name, dns.TypeA).Pack()
		if err != nil {
			t.Fatal(err)
		}
		packets = append(binary.BigEndian.AppendUint16(packets, uint16(len(packet))), packet...)
	}
	conn := dialTCP(t, port)
	if _, err := conn.Write(packets); err != nil {
		t.Fatal(err)
	}
	client := dns.Conn{Conn: conn}
	for _, want := range []int{dns.RcodeSuccess, dns.RcodeNameError} {
		if reply, err := client.ReadMsg(); err != nil || reply.Rcode != want {
			t.Fatalf("%v, %v", reply, err)
		}
	}
	for _, test := range []struct {
		name  string
		bytes []byte
	}{
		{"nothing", nil},
		{"a part of a length", []byte{0}},
		{"a part of a query", packets[:10]},
		{"a length beyond any query", []byte{0xff, 0xff}},
		{"less than a header", []byte{0, 1, 0}},
	} {
		conn := dialTCP(t, port)
		if _, err := conn.Write(test.bytes); err != nil {
			t.Fatal(err)
		}
		if n, err := conn.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s: %d, %v", test.name, n, err)
		}
	}
}

func TestTCPConnectionsAreBounded(t *testing.T) {
	s, _, _, _ := newTestServer(t, exampleNet, func(c *Config) { c.Limits.Connections = 1 })
	port := serve(t, s)
	first := dns.Conn{Conn: dialTCP(t, port)}
	ask := func(conn *dns.Conn) error {
		if err := conn.WriteMsg(new(dns.Msg).SetQuestion("api.example.net.", dns.TypeA)); err != nil {
			return err
		}
		_, err := conn.ReadMsg()
		return err
	}
	if err := ask(&first); err != nil {
		t.Fatal(err)
	}
	// The reset may come before connect returns, or after it.
	second, err := net.Dial("tcp", first.RemoteAddr().String())
	if err == nil {
		defer second.Close()
		_, err = second.Read(make([]byte, 1))
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the second: %v, want a reset", err)
	}
	if err := ask(&first); err != nil {
		t.Error("the first:", err)
	}
}

// Close ends idle connections and lookups under way, and nothing is left (goleak).
func TestClose(t *testing.T) {
	s, _, _, _ := newTestServer(t, exampleNet, nil)
	asked := make(chan struct{})
	s.config.Resolver.ask = func(ctx context.Context, _ netip.AddrPort, name string, kind uint16) (*dns.Msg, error) {
		if kind == dns.TypeA {
			close(asked)
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	port := serve(t, s)
	idle := dialTCP(t, port)
	waiting, err := net.Dial("udp", netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port).String())
	if err != nil {
		t.Fatal(err)
	}
	defer waiting.Close()
	if err := (&dns.Conn{Conn: waiting}).WriteMsg(new(dns.Msg).SetQuestion("api.example.net.", dns.TypeA)); err != nil {
		t.Fatal(err)
	}
	<-asked
	s.Close()
	if _, err := idle.Read(make([]byte, 1)); err == nil {
		t.Error("an idle connection is open after Close")
	}
}

// Sockets that are closed before they are served, as those of a fence that is shut at once, are no error.
func TestServeClosedSockets(t *testing.T) {
	s, _, _, _ := newTestServer(t, exampleNet, nil)
	udp, err := net.ListenUDP("udp", nil)
	if err != nil {
		t.Fatal(err)
	}
	tcp, err := net.ListenTCP("tcp", nil)
	if err != nil {
		t.Fatal(err)
	}
	udp.Close()
	tcp.Close()
	if err := s.Serve([]*net.UDPConn{udp}, []*net.TCPListener{tcp}); err != nil {
		t.Error(err)
	}
}
