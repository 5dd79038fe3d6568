package names

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// upstream is a name server on loopback, by UDP and TCP on one port. What it writes is all that reply returns, in turn.
func upstream(t testing.TB, reply func(query *dns.Msg, network string) []*dns.Msg) netip.AddrPort {
	t.Helper()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := tcp.Addr().String()
	udp, err := net.ListenPacket("udp", address)
	if err != nil {
		t.Skip("the port that TCP took is another's by UDP: ", err)
	}
	handler := func(network string) dns.HandlerFunc {
		return func(w dns.ResponseWriter, query *dns.Msg) {
			for _, message := range reply(query, network) {
				_ = w.WriteMsg(message)
			}
		}
	}
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait) // the last one: cleanups run backwards
	for _, server := range []*dns.Server{{PacketConn: udp, Handler: handler("udp")}, {Listener: tcp, Handler: handler("tcp")}} {
		started := make(chan struct{})
		server.NotifyStartedFunc = func() { close(started) }
		wg.Go(func() { _ = server.ActivateAndServe() })
		<-started
		t.Cleanup(func() { _ = server.Shutdown() })
	}

	return netip.MustParseAddrPort(address)
}

func withA(query *dns.Msg, address string) *dns.Msg {
	reply := new(dns.Msg).SetReply(query)
	reply.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: query.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: net.ParseIP(address)}}
	return reply
}

// Forged answers that arrive before the true one are not taken, each for another fault; the true one is. What can't be told from a forgery over UDP
// is asked again over TCP.
func TestForgedAnswers(t *testing.T) {
	forge := func(change func(*dns.Msg)) func(*dns.Msg, string) []*dns.Msg {
		return func(query *dns.Msg, _ string) []*dns.Msg {
			forged := withA(query, "192.0.2.66")
			change(forged)
			return []*dns.Msg{forged, withA(query, "192.0.2.1")}
		}
	}
	overTCP := func(change func(*dns.Msg)) func(*dns.Msg, string) []*dns.Msg {
		return func(query *dns.Msg, network string) []*dns.Msg {
			reply := withA(query, "192.0.2.1")
			if network == "udp" {
				reply = withA(query, "192.0.2.66")
				change(reply)
			}
			return []*dns.Msg{reply}
		}
	}
	other := func(kind uint16) func(*dns.Msg) {
		return func(m *dns.Msg) {
			m.Question = []dns.Question{{Name: m.Question[0].Name, Qtype: kind, Qclass: dns.ClassINET}}
		}
	}
	for _, test := range []struct {
		name  string
		reply func(*dns.Msg, string) []*dns.Msg
	}{
		{"id", forge(func(m *dns.Msg) { m.Id++ })},
		{"a query", forge(func(m *dns.Msg) { m.Response = false })},
		{"operation", forge(func(m *dns.Msg) { m.Opcode = dns.OpcodeNotify })},
		{"no question", forge(func(m *dns.Msg) { m.Question = nil })},
		{"two questions", forge(func(m *dns.Msg) { m.Question = append(m.Question, m.Question[0]) })},
		{"another name", forge(func(m *dns.Msg) { m.Question = []dns.Question{{Name: "a.", Qtype: dns.TypeA, Qclass: dns.ClassINET}} })},
		{"another type", forge(other(dns.TypeAAAA))},
		{"lower case: asked again over TCP", overTCP(func(m *dns.Msg) {
			m.Question = []dns.Question{{Name: strings.ToLower(m.Question[0].Name), Qtype: dns.TypeA, Qclass: dns.ClassINET}}
		})},
		{"truncated: asked again over TCP", overTCP(func(m *dns.Msg) { m.Truncated = true; m.Answer = nil })},
		{"truncated with a part of the answer", overTCP(func(m *dns.Msg) { m.Truncated = true })},
		{"over TCP the spelling may differ", func(query *dns.Msg, network string) []*dns.Msg {
			reply := withA(query, "192.0.2.1")
			reply.Question = []dns.Question{{Name: strings.ToLower(query.Question[0].Name), Qtype: dns.TypeA, Qclass: dns.ClassINET}}
			if network == "udp" {
				reply.Answer = nil
			}
			return []*dns.Msg{reply}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			// Long enough for one spelling to be no chance: 2^-40.
			reply, err := ask(t.Context(), upstream(t, test.reply), "abcdefghijklmnopqrstuvwxyzabcdefghijklmno.example.net", dns.TypeA)
			if err != nil {
				t.Fatal(err)
			}
			found, err := read(reply)
			if err != nil || len(found.addrs) != 1 || found.addrs[0] != netip.MustParseAddr("192.0.2.1") {
				t.Errorf("%v, %v", found, err)
			}
		})
	}
}

func TestAFloodOfForgeriesEnds(t *testing.T) {
	address := upstream(t, func(query *dns.Msg, _ string) []*dns.Msg {
		var all []*dns.Msg
		for i := range mostStrays + 10 {
			forged := withA(query, "192.0.2.66")
			forged.Id += uint16(i) + 1
			all = append(all, forged)
		}
		return all
	})
	if _, err := ask(t.Context(), address, "example.net", dns.TypeA); !errors.Is(err, errStray) {
		t.Error(err)
	}
}

func TestASilentUpstream(t *testing.T) {
	var asked atomic.Int32
	address := upstream(t, func(*dns.Msg, string) []*dns.Msg { asked.Add(1); return nil })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := ask(ctx, address, "example.net", dns.TypeA); err == nil {
		t.Error("an answer from nowhere")
	}
	// Nobody there: told at once, by the kernel.
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = netip.MustParseAddrPort(conn.LocalAddr().String())
	conn.Close()
	if _, err := ask(t.Context(), address, "example.net", dns.TypeA); err == nil {
		t.Error("an answer from nowhere")
	}
}

// No two queries are alike: id and spelling are random.
func TestQueriesAreRandom(t *testing.T) {
	ids, spellings := map[uint16]bool{}, map[string]bool{}
	for range 200 {
		query, err := newQuery("abcdefghijklmnopqrstuvwxyz.example.net", dns.TypeA)
		if err != nil {
			t.Fatal(err)
		}
		ids[query.Id], spellings[query.Question[0].Name] = true, true
	}
	if len(ids) < 190 || len(spellings) < 199 {
		t.Errorf("%d ids and %d spellings in 200 queries", len(ids), len(spellings))
	}
}
