package names

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sync/singleflight"
)

// ResolverConfig is what a Resolver is made of. [DefaultResolverConfig] has values for all but Upstreams.
type ResolverConfig struct {
	// Upstreams are recursive resolvers, asked in this order. None means that nothing resolves: there is no other place to ask, ever.
	Upstreams []netip.AddrPort
	// Try bounds one question to one upstream, Timeout a whole lookup.
	Try, Timeout time.Duration
	// MinTTL and MaxTTL bound how long an answer is kept, whatever upstream says; NegativeTTL how long one without addresses is at most.
	MinTTL, MaxTTL, NegativeTTL time.Duration
	// Entries is how many answers are kept, Concurrent how many names are looked up at a time.
	Entries, Concurrent int
	// Now is time.Now.
	Now func() time.Time
	// Observed, if there is one, is told of each lookup's end.
	Observed func(Lookup)
}

// Lookup is how one lookup went, for metrics.
type Lookup struct {
	Cached bool
	Failed bool
	Took   time.Duration
}

// DefaultResolverConfig has the values that sandboxd uses.
func DefaultResolverConfig(upstreams ...netip.AddrPort) ResolverConfig {
	return ResolverConfig{
		Upstreams: upstreams,
		Try:       2 * time.Second, Timeout: 5 * time.Second,
		MinTTL: time.Second, MaxTTL: 5 * time.Minute, NegativeTTL: 30 * time.Second,
		Entries: 10_000, Concurrent: 512, // of two sockets each
		Now: time.Now,
	}
}

func (c ResolverConfig) check() error {
	switch {
	case slices.ContainsFunc(c.Upstreams, func(a netip.AddrPort) bool { return !a.IsValid() || a.Port() == 0 }):
		return fmt.Errorf("names: upstreams %v: want an address and a port each", c.Upstreams)
	case c.Try <= 0 || c.Timeout < c.Try:
		return fmt.Errorf("names: try %s, timeout %s: want 0 < try <= timeout", c.Try, c.Timeout)
	case c.MinTTL <= 0 || c.NegativeTTL < c.MinTTL || c.MaxTTL < c.NegativeTTL:
		return fmt.Errorf("names: time to live %s, %s, %s: want 0 < min <= negative <= max", c.MinTTL, c.NegativeTTL, c.MaxTTL)
	case c.Entries <= 0 || c.Concurrent <= 0:
		return fmt.Errorf("names: entries %d, concurrent %d: want more than 0", c.Entries, c.Concurrent)
	case c.Now == nil:
		return errors.New("names: no clock")
	}
	return nil
}

// Answer is what upstream says of a name.
type Answer struct {
	// Exists is false for NXDOMAIN. A name that exists may have no addresses.
	Exists bool
	// Addrs are of both families, in upstream's order, as they came: nothing is left out, since each user judges them.
	Addrs []netip.Addr
	// TTL is how long this holds from now on, between MinTTL and MaxTTL when it is new.
	TTL time.Duration
}

// ErrNoUpstream: no name server was configured, so that nothing resolves.
var ErrNoUpstream = errors.New("names: no name server is configured; name one, or a resolv.conf that does")

var errClosed = errors.New("names: resolver is closed")

// Resolver asks upstream, for all sandboxes together: equal questions at a time are one, and answers are kept for as long as they say, within bounds.
type Resolver struct {
	config  ResolverConfig
	ask     func(ctx context.Context, upstream netip.AddrPort, name string, kind uint16) (*dns.Msg, error)
	ctx     context.Context
	cancel  context.CancelFunc
	slots   chan struct{}
	flights singleflight.Group

	mu     sync.Mutex // guards what follows
	kept   map[string]entry
	closed bool
	wg     sync.WaitGroup
}

type entry struct {
	answer  Answer
	expires time.Time
}

// NewResolver checks config.
func NewResolver(config ResolverConfig) (*Resolver, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	config.Upstreams = slices.Clone(config.Upstreams)
	ctx, cancel := context.WithCancel(context.Background())
	return &Resolver{
		config: config, ask: ask, ctx: ctx, cancel: cancel,
		slots: make(chan struct{}, config.Concurrent), kept: map[string]entry{},
	}, nil
}

// Close ends what is under way and waits for it. What isn't kept fails from then on.
func (r *Resolver) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel()
	r.wg.Wait()
}

// Lookup says what upstream says of name, which is a host name in lower case without a dot at its end. An error means that nobody knows, which is
// never the same as a name that doesn't exist.
func (r *Resolver) Lookup(ctx context.Context, name string) (Answer, error) {
	if same, reason := canonical(name); same != name || reason != "" {
		return Answer{}, fmt.Errorf("names: lookup of %q: not a canonical host name", name)
	}
	start := r.config.Now()
	if answer, ok := r.cached(name, start); ok {
		r.observe(Lookup{Cached: true, Took: r.config.Now().Sub(start)})
		answer.Addrs = slices.Clone(answer.Addrs)
		return answer, nil
	}
	answer, err := r.join(ctx, name)
	r.observe(Lookup{Failed: err != nil, Took: r.config.Now().Sub(start)})
	return answer, err
}

func (r *Resolver) observe(lookup Lookup) {
	if r.config.Observed != nil {
		r.config.Observed(lookup)
	}
}

// join waits for the flight of name, and starts it if there is none. Who goes away leaves it to the others, and to the cache.
func (r *Resolver) join(ctx context.Context, name string) (Answer, error) {
	flight := r.flights.DoChan(name, func() (any, error) { return r.fly(name) })
	select {
	case <-ctx.Done():
		return Answer{}, fmt.Errorf("names: lookup of %s: %w", name, context.Cause(ctx))
	case result := <-flight:
		if result.Err != nil {
			return Answer{}, result.Err
		}
		answer := result.Val.(Answer)
		answer.Addrs = slices.Clone(answer.Addrs)
		return answer, nil
	}
}

func (r *Resolver) fly(name string) (Answer, error) {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return Answer{}, errClosed
	}
	r.wg.Add(1)
	r.mu.Unlock()
	defer r.wg.Done()

	// The flight before this one may have landed between the look into the cache and the start.
	if answer, ok := r.cached(name, r.config.Now()); ok {
		return answer, nil
	}
	ctx, cancel := context.WithTimeout(r.ctx, r.config.Timeout)
	defer cancel()
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return Answer{}, fmt.Errorf("names: lookup of %s: no turn within %s: %w", name, r.config.Timeout, ctx.Err())
	}
	answer, err := r.both(ctx, name)
	if err != nil {
		return Answer{}, err
	}
	r.keep(name, answer)
	return answer, nil
}

// both asks for A and AAAA at once. One of them is enough if it has addresses: there are name servers that fail for every AAAA. What is known of
// half a name isn't kept for long.
func (r *Resolver) both(ctx context.Context, name string) (Answer, error) {
	var four, six found
	var err4, err6 error
	var wg sync.WaitGroup
	wg.Go(func() { six, err6 = r.each(ctx, name, dns.TypeAAAA) })
	four, err4 = r.each(ctx, name, dns.TypeA)
	wg.Wait()
	addrs := slices.Concat(four.addrs, six.addrs)
	if err := errors.Join(err4, err6); err != nil && len(addrs) == 0 {
		return Answer{}, fmt.Errorf("names: lookup of %s: %w", name, err)
	}
	answer := Answer{Exists: four.exists || six.exists, Addrs: addrs}
	switch {
	case len(addrs) == 0:
		answer.TTL = min(four.ttl, six.ttl, r.config.NegativeTTL)
	case err4 != nil || err6 != nil:
		answer.TTL = r.config.MinTTL
	case len(four.addrs) == 0:
		answer.TTL = six.ttl
	case len(six.addrs) == 0:
		answer.TTL = four.ttl
	default:
		answer.TTL = min(four.ttl, six.ttl)
	}
	answer.TTL = max(r.config.MinTTL, min(answer.TTL, r.config.MaxTTL))
	return answer, nil
}

// each asks the upstreams in turn until one knows, twice around.
func (r *Resolver) each(ctx context.Context, name string, kind uint16) (found, error) {
	err := ErrNoUpstream
	for range 2 {
		for _, upstream := range r.config.Upstreams {
			if ctx.Err() != nil {
				return found{}, errors.Join(err, ctx.Err())
			}
			var result found
			if result, err = r.try(ctx, upstream, name, kind); err == nil {
				return result, nil
			}
		}
	}
	return found{}, err
}

func (r *Resolver) try(ctx context.Context, upstream netip.AddrPort, name string, kind uint16) (found, error) {
	ctx, cancel := context.WithTimeout(ctx, r.config.Try)
	defer cancel()
	reply, err := r.ask(ctx, upstream, name, kind)
	if err != nil {
		return found{}, err
	}
	return read(reply)
}
