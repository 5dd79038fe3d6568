package relay

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandboxd/sandboxd/enforcer/network"
)

// Config is what a Server works with. Judge, NameOf, Resolve and Capacity are needed.
type Config struct {
	// Judge gives the rules in force. It is asked again for each step, and once for each live connection after [Server.Tighten].
	Judge func() network.Set
	// NameOf says which name a synthetic address stands for.
	NameOf func(netip.Addr) (string, bool)
	// Resolve gives the addresses of a name, now. They are judged one by one.
	Resolve func(ctx context.Context, name string) ([]netip.Addr, error)
	// Destination is where a connection was dialled to; nil: its local address, which is that where connections come by tproxy.
	Destination func(*net.TCPConn) (netip.AddrPort, error)
	// Dial connects to a checked address; nil: in the caller's network. Another one than that sets SO_LINGER {1,0} before it connects.
	Dial func(ctx context.Context, address netip.AddrPort) (*net.TCPConn, error)
	// Answer sends a datagram into the sandbox, as if from where its own was for; DatagramDestination says where that is, of what came beside a datagram; both are for
	// [Server.ServeDatagrams]. DialDatagrams is Dial for these; nil: in the caller's network.
	Answer              func(from, to netip.AddrPort, data []byte) error
	DatagramDestination func(control []byte) (netip.AddrPort, error)
	DialDatagrams       func(ctx context.Context, address netip.AddrPort) (*net.UDPConn, error)
	// Proxy is the destination that speaks as an explicit proxy. Invalid: none does.
	Proxy netip.AddrPort
	// Port is the relay's own: nothing may be dialled there by way of it.
	Port uint16
	// Own are addresses that are never carried anywhere, whatever a rule says: those of the sandbox, the range of synthetic ones, those of the host.
	Own    []netip.Prefix
	Limits Limits
	// Capacity is shared by all servers of a process.
	Capacity *Capacity
	// Event is told of connections. It is called by the connection's goroutine and should hand on and return. nil: nobody is told.
	Event func(Event)
	// Ended asks for an event for each connection that ended by itself.
	Ended bool
}

// Limits bound a server and its connections. Zero is the default that each field names.
type Limits struct {
	// Connections at one time, those being set up included: 1,024. One more is reset.
	Connections int
	// Look is how long what a client says first may take from its first byte until it can be judged: 10 s.
	Look time.Duration
	// Setup is how long resolving and dialling may take together: 15 s.
	Setup time.Duration
	// Idle is how long no byte may move either way: 15 min. Total is how long a connection may last: 24 h. Both end in a reset.
	Idle, Total time.Duration
	// Flows of datagrams at one time: 256. FlowIdle is how long one may be unused until its socket is closed: 60 s.
	Flows    int
	FlowIdle time.Duration
}

func (l *Limits) setDefaults() error {
	if l.Connections < 0 || l.Look < 0 || l.Setup < 0 || l.Idle < 0 || l.Total < 0 || l.Flows < 0 || l.FlowIdle < 0 {
		return fmt.Errorf("relay: limits: a negative one: %+v", *l)
	}
	for _, limit := range []struct {
		value  *time.Duration
		preset time.Duration
	}{{&l.Look, 10 * time.Second}, {&l.Setup, 15 * time.Second}, {&l.Idle, 15 * time.Minute}, {&l.Total, 24 * time.Hour}, {&l.FlowIdle, time.Minute}} {
		if *limit.value == 0 {
			*limit.value = limit.preset
		}
	}
	if l.Connections == 0 {
		l.Connections = 1024
	}
	if l.Flows == 0 {
		l.Flows = 256
	}
	return nil
}

// Server carries the connections of one sandbox.
type Server struct {
	config Config
	// ctx ends with the server.
	ctx    context.Context
	cancel context.CancelFunc
	// started is what conn.active counts from.
	started time.Time
	// generation is that of the rules: Tighten raises it before it looks at what is live.
	generation atomic.Int64

	mu        sync.Mutex
	listeners map[*net.TCPListener]bool
	live      map[*conn]bool
	flows     map[flowKey]*flow
	closed    bool

	// pipes in use.
	pipes atomic.Int64

	running sync.WaitGroup
	counts  counts
	// untold bounds Denied and Failed events.
	untold bucket
}

// New makes a server that listens nowhere yet.
func New(config Config) (*Server, error) {
	if config.Judge == nil || config.NameOf == nil || config.Resolve == nil || config.Capacity == nil {
		return nil, errors.New("relay: Judge, NameOf, Resolve and Capacity are needed")
	}
	if err := config.Limits.setDefaults(); err != nil {
		return nil, err
	}
	if config.Destination == nil {
		config.Destination = localAddress
	}
	if config.Dial == nil {
		config.Dial = dial
	}
	if config.DialDatagrams == nil {
		config.DialDatagrams = dialDatagrams
	}
	if config.Event == nil {
		config.Event = func(Event) {}
	}
	s := &Server{config: config, started: time.Now(), listeners: map[*net.TCPListener]bool{}, live: map[*conn]bool{}, flows: map[flowKey]*flow{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.running.Go(s.expire)
	return s, nil
}

func localAddress(c *net.TCPConn) (netip.AddrPort, error) {
	address, ok := c.LocalAddr().(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}, errors.New("relay: no local address")
	}
	return address.AddrPort(), nil
}

// Serve accepts connections until the server or the listener is closed; it closes the listener. One server may serve several.
func (s *Server) Serve(l *net.TCPListener) error {
	if err := listenerLingers(l); err != nil {
		l.Close()
		return err
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		l.Close()
		return net.ErrClosed
	}
	s.listeners[l] = true
	s.mu.Unlock()
	defer func() {
		l.Close()
		s.mu.Lock()
		delete(s.listeners, l)
		s.mu.Unlock()
	}()
	for pause := time.Duration(0); ; {
		client, err := l.AcceptTCP()
		if err == nil {
			pause = 0
			s.accepted(client)
			continue
		}
		if s.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
			return net.ErrClosed
		}
		// Out of descriptors or memory: what waits in the backlog is still there. Trying at once again would only take a processor from whoever frees one.
		pause = min(max(2*pause, 5*time.Millisecond), time.Second)
		select {
		case <-s.ctx.Done():
		case <-time.After(pause):
		}
	}
}

// accepted makes a connection one of ours, or resets it when there is no room.
func (s *Server) accepted(client *net.TCPConn) {
	_ = client.SetLinger(0) // it may have come before the listener had it
	c := &conn{server: s, client: client, started: time.Now(), generation: s.generation.Load(), heard: make(chan struct{})}
	c.touch()
	s.counts.with(func(stats *Stats) { stats.Accepted++ })
	if !s.config.Capacity.take() {
		s.full(c)
		return
	}
	s.mu.Lock()
	room, closed := len(s.live) < s.config.Limits.Connections, s.closed
	if room && !closed {
		s.live[c] = true
		s.running.Add(1)
	}
	s.mu.Unlock()
	if !room || closed {
		s.config.Capacity.give()
		s.full(c)
		return
	}
	go c.serve()
}

func (s *Server) full(c *conn) {
	c.destination, _ = s.config.Destination(c.client)
	c.client.Close()
	s.counts.with(func(stats *Stats) { stats.Full++ })
	c.denied(refusal{rule: RuleRelay, reason: reasonFull})
}

// forget takes a connection that has ended from the live ones.
func (s *Server) forget(c *conn) {
	s.mu.Lock()
	delete(s.live, c)
	s.counts.with(func(stats *Stats) {
		stats.BytesOut += c.out.Load()
		stats.BytesIn += c.in.Load()
	})
	s.mu.Unlock()
	s.config.Capacity.give()
}

func (s *Server) snapshot() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	live := make([]*conn, 0, len(s.live))
	for c := range s.live {
		live = append(live, c)
	}
	return live
}

// Close stops accepting, cuts what is live, and returns when nothing of the server runs any more.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	for l := range s.listeners {
		l.Close()
	}
	s.mu.Unlock()
	s.cancel()
	for _, c := range s.snapshot() {
		c.cut(refusal{rule: RuleRelay, reason: reasonStopped})
		c.client.Close() // also where nothing is carried yet
	}
	for _, f := range s.allFlows() {
		f.cut(refusal{rule: RuleRelay, reason: reasonStopped})
	}
	s.running.Wait()
}
