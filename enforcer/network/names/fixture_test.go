package names

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// zone stands for upstream: records in zone-file form by name, "SERVFAIL", or nothing for a name that doesn't exist.
type zone map[string][]string

// counted is a zone that counts its questions.
type counted struct {
	zone zone

	mu    sync.Mutex
	asked map[string]int // by "name TYPE"
}

func (c *counted) ask(_ context.Context, _ netip.AddrPort, name string, kind uint16) (*dns.Msg, error) {
	c.mu.Lock()
	c.asked[name+" "+dns.TypeToString[kind]]++
	c.mu.Unlock()
	return c.zone.reply(name, kind)
}

func (c *counted) count(question string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked[question]
}

func (z zone) reply(name string, kind uint16) (*dns.Msg, error) {
	query := new(dns.Msg).SetQuestion(dns.Fqdn(name), kind)
	reply := new(dns.Msg).SetReply(query)
	records, exists := z[name]
	if !exists {
		reply.Rcode = dns.RcodeNameError
	}
	for _, text := range records {
		switch {
		case text == "SERVFAIL", text == "SERVFAIL "+dns.TypeToString[kind]:
			reply.Rcode = dns.RcodeServerFailure
			continue
		case strings.HasPrefix(text, "SERVFAIL"):
			continue
		case text == "LOST":
			return nil, errors.New("no answer")
		}
		record, err := dns.NewRR(text)
		if err != nil {
			return nil, err
		}
		switch record.Header().Rrtype {
		case dns.TypeSOA:
			reply.Ns = append(reply.Ns, record)
		case kind, dns.TypeCNAME, dns.TypeTXT:
			reply.Answer = append(reply.Answer, record)
		default:
			if !strings.EqualFold(record.Header().Name, dns.Fqdn(name)) && record.Header().Rrtype == kind {
				reply.Answer = append(reply.Answer, record)
			}
		}
	}
	return reply, nil
}

// clock stands still unless moved.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func newClock() *clock { return &clock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

// newTestResolver asks z in place of a network.
func newTestResolver(t testing.TB, z zone, clock *clock) (*Resolver, *counted) {
	config := DefaultResolverConfig(netip.MustParseAddrPort("192.0.2.53:53"))
	config.Now = clock.Now
	r, err := NewResolver(config)
	if err != nil {
		t.Fatal(err)
	}
	upstream := &counted{zone: z, asked: map[string]int{}}
	r.ask = upstream.ask
	t.Cleanup(r.Close)
	return r, upstream
}

// testRules allow names beneath example.net (rule 0), spell out api.example.net (1), deny denied.example.net (2), and let no 10/8 be reached.
func testRules(config *Config) {
	config.Resolvable = func(name string) Match {
		switch {
		case name == "denied.example.net":
			return Match{Rule: 2, Reason: "a rule denies it"}
		case name == "api.example.net", name == "db":
			return Match{Allow: true, Rule: 1, Spelled: true}
		case strings.HasSuffix(name, ".example.net"):
			return Match{Allow: true}
		}
		return Match{Rule: -1, Reason: "no rule allows it"}
	}
	config.Resolved = func(_ string, a netip.Addr) Match {
		if netip.MustParsePrefix("10.0.0.0/8").Contains(a) {
			return Match{Rule: -2, Reason: "a private address"}
		}
		return Match{Allow: true}
	}
}

// newTestServer has the denials it told.
func newTestServer(t testing.TB, z zone, change func(*Config)) (*Server, *counted, *[]Denial, *clock) {
	clock := newClock()
	resolver, upstream := newTestResolver(t, z, clock)
	var denials []Denial
	config := DefaultConfig()
	config.Resolver, config.Now = resolver, clock.Now
	config.Denied = func(d Denial) { denials = append(denials, d) }
	testRules(&config)
	if change != nil {
		change(&config)
	}
	s, err := NewServer(config)
	if err != nil {
		t.Fatal(err)
	}
	return s, upstream, &denials, clock
}

// exchange handles one packet as a socket's loop does.
func (s *Server) exchange(packet []byte) []byte {
	reply, q := s.begin(packet)
	if q == nil {
		return reply
	}
	if reply, ok := s.claim(q); !ok {
		return reply
	}
	return s.finish(q)
}
