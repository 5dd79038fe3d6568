package names

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"

	"github.com/miekg/dns"
)

// Server answers the queries of one sandbox.
type Server struct {
	config  Config
	table   *table
	rate    *bucket
	denials denials
	pending chan struct{} // lookups that wait for upstream
	places  chan struct{} // connections by TCP

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// NewServer checks config.
func NewServer(config Config) (*Server, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	range6 := config.Range6
	if !config.AAAA {
		range6 = netip.Prefix{}
	}
	table, err := newTable(config.Range, range6, config.Limits.Names)
	if err != nil {
		return nil, err
	}
	now := config.Now()
	ctx, cancel := context.WithCancel(context.Background())
	return &Server{
		config: config, table: table,
		rate:    newBucket(config.Limits.Queries, 2*config.Limits.Queries, now),
		denials: denials{rate: newBucket(config.Limits.Denials, config.Limits.Denials, now)},
		pending: make(chan struct{}, config.Limits.Pending), places: make(chan struct{}, config.Limits.Connections),
		ctx: ctx, cancel: cancel,
	}, nil
}

// NameOf is the name that a synthetic address was given to.
func (s *Server) NameOf(a netip.Addr) (string, bool) { return s.table.name(a) }

// Serve answers on all sockets until Close, and says what ended it before. It closes them. It is called once.
func (s *Server) Serve(udp []*net.UDPConn, tcp []*net.TCPListener) error {
	closeAll := func() {
		for _, conn := range udp {
			conn.Close()
		}
		for _, listener := range tcp {
			listener.Close()
		}
	}
	stop := context.AfterFunc(s.ctx, closeAll)
	defer stop()
	var loops sync.WaitGroup
	ended := make(chan error, len(udp)+len(tcp))
	loop := func(serve func() error) {
		loops.Go(func() {
			ended <- serve()
			s.cancel() // one that ends ends all: half a name server would look like a slow one
		})
	}
	for _, conn := range udp {
		loop(func() error { return s.serveUDP(conn) })
	}
	for _, listener := range tcp {
		loop(func() error { return s.serveTCP(listener) })
	}
	loops.Wait()
	closeAll()
	s.wg.Wait()
	close(ended)
	var errs []error
	for err := range ended {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Close ends Serve. It doesn't wait for it.
func (s *Server) Close() { s.cancel() }

// claim takes a place among the lookups that wait for upstream, which finish gives back. Without one the answer is reply.
func (s *Server) claim(q *query) (reply []byte, ok bool) {
	select {
	case s.pending <- struct{}{}:
		return nil, true
	default:
		s.deny(q, q.name, Match{Rule: q.match.Rule, In: q.match.In, Reason: ReasonPending})
		return s.reply(q, dns.RcodeRefused), false
	}
}

// finish asks upstream.
func (s *Server) finish(q *query) []byte {
	defer func() { <-s.pending }()
	q.upstream = true
	answer, err := s.config.Resolver.Lookup(s.ctx, q.name)
	if err != nil {
		return s.reply(q, dns.RcodeServerFailure)
	}
	return s.answer(q, answer)
}

// Resolve is [Resolver.Lookup] for the relay of this sandbox: the real addresses of name, now. It waits for a place among the sandbox's lookups, so
// that no sandbox can take those of all others, by however many connections.
func (s *Server) Resolve(ctx context.Context, name string) ([]netip.Addr, error) {
	if answer, ok := s.config.Resolver.cached(name, s.config.Now()); ok {
		return slices.Clone(answer.Addrs), nil
	}
	select {
	case s.pending <- struct{}{}:
		defer func() { <-s.pending }()
	case <-ctx.Done():
		return nil, fmt.Errorf("names: lookup of %s: no turn: %w", name, context.Cause(ctx))
	}
	answer, err := s.config.Resolver.Lookup(ctx, name)
	return answer.Addrs, err
}
