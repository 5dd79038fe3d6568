package names

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
)

// D19. However long upstream says, an answer is kept for at least MinTTL and at most MaxTTL.
func TestTimesToLive(t *testing.T) {
	const soa = "example.net. %d SOA ns.example.net. a.example.net. 1 2 3 4 %d"
	for _, test := range []struct {
		name    string
		records []string
		want    time.Duration
	}{
		{"as it says", []string{"n. 60 A 192.0.2.1"}, 60 * time.Second},
		{"zero", []string{"n. 0 A 192.0.2.1"}, time.Second},
		{"2^31 is zero", []string{"n. 2147483648 A 192.0.2.1"}, time.Second},
		{"2^32-1 is zero", []string{"n. 4294967295 A 192.0.2.1"}, time.Second},
		{"2^31-1", []string{"n. 2147483647 A 192.0.2.1"}, 5 * time.Minute},
		{"the least of all", []string{"n. 60 A 192.0.2.1", "n. 20 A 192.0.2.2", "n. 30 AAAA 2001:db8::1"}, 20 * time.Second},
		{"a CNAME's too", []string{"n. 10 CNAME m.", "m. 60 A 192.0.2.1"}, 10 * time.Second},
		{"a TXT's not", []string{"n. 60 A 192.0.2.1", "n. 10 TXT a"}, 60 * time.Second},
		{"no addresses, no SOA", []string{}, time.Second},
		{"no addresses, SOA's minimum", []string{fmt.Sprintf(soa, 300, 20)}, 20 * time.Second},
		{"no addresses, SOA's own", []string{fmt.Sprintf(soa, 15, 20)}, 15 * time.Second},
		{"no addresses, for a day", []string{fmt.Sprintf(soa, 86400, 86400)}, 30 * time.Second},
		{"half an answer", []string{"SERVFAIL AAAA", "n. 60 A 192.0.2.1"}, time.Second},
	} {
		clock := newClock()
		r, upstream := newTestResolver(t, zone{"n": test.records}, clock)
		for range 2 {
			if answer, err := r.Lookup(t.Context(), "n"); err != nil || answer.TTL != test.want {
				t.Errorf("%s: %s, %v; want %s", test.name, answer.TTL, err, test.want)
			}
		}
		clock.add(test.want - time.Nanosecond)
		if answer, err := r.Lookup(t.Context(), "n"); err != nil || answer.TTL != time.Nanosecond || upstream.count("n A") != 1 {
			t.Errorf("%s: at the end of its time: %s, %v, asked %d times", test.name, answer.TTL, err, upstream.count("n A"))
		}
		clock.add(time.Nanosecond)
		if _, err := r.Lookup(t.Context(), "n"); err != nil || upstream.count("n A") != 2 {
			t.Errorf("%s: after its time: %v, asked %d times", test.name, err, upstream.count("n A"))
		}
	}
}

func TestLookup(t *testing.T) {
	chain := []string{"chain.example.net. 60 CNAME c1.example.net."}
	for i := range 20 {
		chain = append(chain, fmt.Sprintf("c%d.example.net. 60 CNAME c%d.example.net.", i+1, i+2))
	}
	z := zone{
		"both.example.net":  {"both.example.net. 60 A 192.0.2.1", "both.example.net. 60 AAAA ::ffff:10.0.0.1"},
		"loop.example.net":  {"loop.example.net. 60 CNAME loop.example.net."},
		"chain.example.net": append(chain, "c21.example.net. 60 A 192.0.2.1"),
		"fails.example.net": {"SERVFAIL"},
		"half.example.net":  {"SERVFAIL AAAA"},
		"class.example.net": {"class.example.net. 60 CH A 192.0.2.1"},
		"UPPER":             nil,
	}
	for _, test := range []struct{ name, want string }{
		{"both.example.net", "[192.0.2.1 ::ffff:10.0.0.1]"}, // mapped stays mapped: it is judged as what it is
		{"missing.example.net", "missing"},
		{"loop.example.net", "[]"},
		{"chain.example.net", "[]"},
		{"fails.example.net", "names: lookup of fails.example.net: fails.example.net.: upstream says SERVFAIL"},
		{"half.example.net", "names: lookup of half.example.net: half.example.net.: upstream says SERVFAIL"},
		{"UPPER", `names: lookup of "UPPER": not a canonical host name`},
		{"dot.example.net.", `names: lookup of "dot.example.net.": not a canonical host name`},
		{"", `names: lookup of "": not a canonical host name`},
	} {
		r, _ := newTestResolver(t, z, newClock())
		answer, err := r.Lookup(t.Context(), test.name)
		got := fmt.Sprint(answer.Addrs)
		if err != nil {
			got, _, _ = strings.Cut(err.Error(), "\n")
		} else if !answer.Exists {
			got = "missing"
		}
		if got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// Nothing configured is nothing asked: no default, no fallback.
func TestWithoutUpstreamsNothingResolves(t *testing.T) {
	config := DefaultResolverConfig()
	r, err := NewResolver(config)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	r.ask = func(context.Context, netip.AddrPort, string, uint16) (*dns.Msg, error) {
		t.Error("somebody was asked")
		return nil, errors.New("nobody")
	}
	if _, err := r.Lookup(t.Context(), "example.net"); !errors.Is(err, ErrNoUpstream) {
		t.Error(err)
	}
}

func TestUpstreamsInTurn(t *testing.T) {
	z := zone{"n": {"n. 60 A 192.0.2.1"}}
	config := DefaultResolverConfig(netip.MustParseAddrPort("192.0.2.1:53"), netip.MustParseAddrPort("192.0.2.2:53"))
	r, err := NewResolver(config)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var mu sync.Mutex
	var asked []string
	r.ask = func(_ context.Context, upstream netip.AddrPort, name string, kind uint16) (*dns.Msg, error) {
		if kind == dns.TypeA {
			mu.Lock()
			asked = append(asked, upstream.Addr().String())
			mu.Unlock()
		}
		if upstream.Addr() == config.Upstreams[0].Addr() {
			return zone{"n": {"SERVFAIL"}}.reply(name, kind)
		}
		return z.reply(name, kind)
	}
	if answer, err := r.Lookup(t.Context(), "n"); err != nil || len(answer.Addrs) != 1 {
		t.Error(answer, err)
	}
	// A name that is missing is an answer; the next isn't asked.
	if answer, err := r.Lookup(t.Context(), "missing"); err != nil || answer.Exists {
		t.Error(answer, err)
	}
	if diff := cmp.Diff([]string{"192.0.2.1", "192.0.2.2", "192.0.2.1"}, asked); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestEqualLookupsAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, upstream := newTestResolver(t, zone{"n": {"n. 60 A 192.0.2.1"}}, newClock())
		answered := make(chan struct{})
		ask := r.ask
		r.ask = func(ctx context.Context, server netip.AddrPort, name string, kind uint16) (*dns.Msg, error) {
			<-answered
			return ask(ctx, server, name, kind)
		}
		var wg sync.WaitGroup
		impatient, cancel := context.WithCancel(t.Context())
		wg.Go(func() {
			if _, err := r.Lookup(impatient, "n"); !errors.Is(err, context.Canceled) {
				t.Error("the impatient one:", err)
			}
		})
		for range 100 {
			wg.Go(func() {
				if answer, err := r.Lookup(t.Context(), "n"); err != nil || len(answer.Addrs) != 1 {
					t.Error(answer, err)
				} else {
					answer.Addrs[0] = netip.Addr{} // their own
				}
			})
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(answered)
		wg.Wait()
		if upstream.count("n A") != 1 || upstream.count("n AAAA") != 1 {
			t.Errorf("asked %v", upstream.asked)
		}
		r.Close()
	})
}

func TestLookupsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := DefaultResolverConfig(netip.MustParseAddrPort("192.0.2.1:53"))
		config.Concurrent = 1
		r, err := NewResolver(config)
		if err != nil {
			t.Fatal(err)
		}
		r.ask = func(ctx context.Context, _ netip.AddrPort, name string, kind uint16) (*dns.Msg, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		start := time.Now()
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				if _, err := r.Lookup(t.Context(), fmt.Sprint("n", i)); err == nil {
					t.Error("an answer from nowhere")
				}
			})
		}
		wg.Wait()
		if took := time.Since(start); took != config.Timeout && took != 2*config.Try {
			t.Errorf("took %s, at most %s", took, config.Timeout)
		}
		// Close ends what is under way, and what comes after.
		wg.Go(func() {
			if _, err := r.Lookup(t.Context(), "n"); err == nil {
				t.Error("an answer from nowhere")
			}
		})
		synctest.Wait()
		start = time.Now()
		r.Close()
		wg.Wait()
		if took := time.Since(start); took != 0 {
			t.Errorf("Close took %s", took)
		}
		if _, err := r.Lookup(t.Context(), "n"); !errors.Is(err, errClosed) {
			t.Error(err)
		}
	})
}

func TestCacheIsBounded(t *testing.T) {
	clock := newClock()
	r, _ := newTestResolver(t, zone{}, clock)
	r.config.Entries = 20
	for i := range 200 {
		clock.add(time.Millisecond)
		if _, err := r.Lookup(t.Context(), fmt.Sprint("n", i)); err != nil {
			t.Fatal(err)
		}
		if len(r.kept) > 20 {
			t.Fatalf("%d answers are kept", len(r.kept))
		}
	}
	if _, ok := r.cached("n199", clock.Now()); !ok {
		t.Error("the newest isn't kept")
	}
}

func TestResolverConfig(t *testing.T) {
	for _, change := range []func(*ResolverConfig){
		func(c *ResolverConfig) { c.Upstreams = []netip.AddrPort{{}} },
		func(c *ResolverConfig) { c.Try = 0 },
		func(c *ResolverConfig) { c.Timeout = c.Try - 1 },
		func(c *ResolverConfig) { c.MinTTL = 0 },
		func(c *ResolverConfig) { c.NegativeTTL = c.MaxTTL + 1 },
		func(c *ResolverConfig) { c.Entries = 0 },
		func(c *ResolverConfig) { c.Concurrent = 0 },
		func(c *ResolverConfig) { c.Now = nil },
	} {
		config := DefaultResolverConfig(netip.MustParseAddrPort("192.0.2.1:53"))
		change(&config)
		if _, err := NewResolver(config); err == nil {
			t.Errorf("%+v is taken", config)
		}
	}
}
