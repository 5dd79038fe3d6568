package relay

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandboxd/sandboxd/enforcer/network"
)

// What datagrams are refused for, beside what connections are.
const (
	reasonDatagrams = "datagrams aren't let out"
	reasonFlows     = "too many flows of datagrams"
)

const (
	mostDatagram = 1 << 16
	// mostQueued are the datagrams of a flow that wait while it is set up or its socket is full. More are lost, as datagrams are.
	mostQueued = 16
)

// flow are the datagrams between a socket inside and one destination. It is judged as a connection is, by name or address and port; what is in a datagram isn't
// looked at, since nothing there says in clear which name it is for.
type flow struct {
	server              *Server
	client, destination netip.AddrPort
	target              target
	match               network.Match
	started             time.Time
	generation          int64
	queue               chan []byte
	active              atomic.Int64 // as conn.active
	out, in             atomic.Int64

	// mu guards what set-up makes and what ends it.
	mu     sync.Mutex
	remote *net.UDPConn
	dialed netip.AddrPort
	why    *ending
	done   chan struct{}
}

type flowKey struct{ client, destination netip.AddrPort }

// ServeDatagrams carries the datagrams that come to a socket until the server or the socket is closed; it closes the socket.
func (s *Server) ServeDatagrams(socket *net.UDPConn) error {
	defer socket.Close()
	if s.config.Answer == nil || s.config.DatagramDestination == nil {
		return errors.New("relay: datagrams take Answer and DatagramDestination")
	}
	stop := context.AfterFunc(s.ctx, func() { socket.Close() })
	defer stop()
	data, control := make([]byte, mostDatagram), make([]byte, 128)
	for errorsInARow := 0; ; {
		n, controlled, _, client, err := socket.ReadMsgUDPAddrPort(data, control)
		switch {
		case s.ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			return net.ErrClosed
		case err != nil:
			if errorsInARow++; errorsInARow == 100 { // a busy loop otherwise
				return err
			}
			continue
		}
		errorsInARow = 0
		destination, err := s.config.DatagramDestination(control[:controlled])
		if err != nil {
			s.deniedDatagram(target{}, netip.AddrPort{}, refuse(reasonNoDest))
			continue
		}
		client = netip.AddrPortFrom(client.Addr().Unmap(), client.Port())
		if f := s.flow(flowKey{client, destination}); f != nil {
			select {
			case f.queue <- append([]byte(nil), data[:n]...):
			default:
			}
		}
	}
}

// flow finds a flow, or begins it where the rules let it; else nil.
func (s *Server) flow(k flowKey) *flow {
	s.mu.Lock()
	f, closed, flows := s.flows[k], s.closed, len(s.flows)
	s.mu.Unlock()
	if f != nil || closed {
		return f
	}
	generation := s.generation.Load()
	t, match, err := s.datagramAllowed(k.destination)
	if err == nil && (flows >= s.config.Limits.Flows || !s.config.Capacity.take()) {
		err = refuse(reasonFlows)
		s.counts.with(func(stats *Stats) { stats.Full++ })
	}
	if err != nil {
		s.deniedDatagram(t, k.destination, err)
		return nil
	}
	f = &flow{server: s, client: k.client, destination: k.destination, target: t, match: match, started: time.Now(), generation: generation,
		queue: make(chan []byte, mostQueued), done: make(chan struct{})}
	f.touch()
	s.counts.with(func(stats *Stats) { stats.Accepted++ })
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		s.config.Capacity.give()
		return nil
	}
	s.flows[k] = f
	s.running.Add(1)
	s.mu.Unlock()
	go f.run()
	return f
}

func (f *flow) touch() { f.active.Store(int64(time.Since(f.server.started))) }

// datagramAllowed asks the rules in force about a destination.
func (s *Server) datagramAllowed(destination netip.AddrPort) (target, network.Match, error) {
	t, err := s.targetOf(destination)
	if err != nil {
		return t, network.Match{}, err
	}
	if !s.config.Judge().Datagrams() {
		return t, network.Match{}, refuse(reasonDatagrams)
	}
	match, err := s.allowed(t)
	return t, match, err
}

// stillAllowed judges a flow as if it began now, with the address that it has.
func (f *flow) stillAllowed() error {
	t, match, err := f.server.datagramAllowed(f.destination)
	if err == nil && t != f.target {
		err = refuse(reasonSelf)
	}
	f.mu.Lock()
	dialed := f.dialed
	f.mu.Unlock()
	if err == nil && t.name != "" && dialed.IsValid() {
		err = f.server.addressAllowed(match, dialed.Addr(), t.port)
	}
	return err
}

// run sets a flow up, and carries it until it ends.
func (f *flow) run() {
	s := f.server
	defer s.running.Done()
	err := f.open()
	if err == nil && s.generation.Load() != f.generation { // rules changed since it was judged, and whoever changed them may have passed it by
		err = f.stillAllowed()
	}
	if err != nil {
		f.end(Denied, refusal{})
		f.forget()
		f.tell(err)
		return
	}
	s.running.Go(f.answers)
	for {
		select {
		case data := <-f.queue:
			f.touch()
			if n, err := f.remote.Write(data); err == nil {
				f.out.Add(int64(n))
			}
			continue
		case <-f.done:
		}
		break
	}
	f.forget()
	f.tellEnd()
}

// open finds an address that may be sent to, and a socket for it.
func (f *flow) open() error {
	s := f.server
	ctx, cancel := context.WithTimeout(s.ctx, s.config.Limits.Setup)
	defer cancel()
	addresses := []netip.Addr{f.target.addr}
	if f.target.name != "" {
		var err error
		if addresses, err = s.addresses(ctx, f.match, f.target); err != nil {
			return err
		}
	}
	var errs []error
	for _, address := range addresses {
		at := netip.AddrPortFrom(address, f.target.port)
		remote, err := s.config.DialDatagrams(ctx, at)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.remote, f.dialed = remote, at
		if f.why != nil { // ended meanwhile
			remote.Close()
			return *f.why
		}
		return nil
	}
	return failure{errors.Join(errs...)}
}

// answers hands on what comes back.
func (f *flow) answers() {
	buffer := make([]byte, mostDatagram)
	for {
		n, err := f.remote.Read(buffer)
		select {
		case <-f.done:
			return
		default:
		}
		if err != nil { // that nobody is there, says one that was sent before; others may hear
			if errors.Is(err, net.ErrClosed) {
				return
			}
			continue
		}
		f.touch()
		f.in.Add(int64(n))
		_ = f.server.config.Answer(f.destination, f.client, buffer[:n]) // who asked may be gone
	}
}

func (e ending) Error() string { return e.reason }

// end ends a flow, for a reason; the first counts.
func (f *flow) end(kind string, why refusal) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.why != nil {
		return
	}
	f.why = &ending{kind, why}
	close(f.done)
	if f.remote != nil {
		f.remote.Close()
	}
}

func (f *flow) cut(err error) {
	var why refusal
	if errors.As(err, &why) {
		f.end(Cut, why)
	}
}

func (f *flow) forget() {
	s := f.server
	s.mu.Lock()
	delete(s.flows, flowKey{f.client, f.destination})
	s.counts.with(func(stats *Stats) {
		stats.BytesOut += f.out.Load()
		stats.BytesIn += f.in.Load()
	})
	s.mu.Unlock()
	s.config.Capacity.give()
}

// allFlows are those that are there now.
func (s *Server) allFlows() []*flow {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*flow, 0, len(s.flows))
	for _, f := range s.flows {
		all = append(all, f)
	}
	return all
}

// tightenFlows is [Server.Tighten] for flows. One that is being set up looks at the generation itself.
func (s *Server) tightenFlows() {
	for _, f := range s.allFlows() {
		if err := f.stillAllowed(); err != nil {
			f.cut(err)
		}
	}
}

// expireFlows ends those whose sockets haven't been used for long, and cuts those that lasted too long.
func (s *Server) expireFlows(now time.Duration) {
	for _, f := range s.allFlows() {
		switch {
		case now-time.Duration(f.active.Load()) > s.config.Limits.FlowIdle:
			f.end(Ended, refusal{f.match.Rule, f.match.Reason, f.match.In})
		case time.Since(f.started) > s.config.Limits.Total:
			f.cut(refusal{rule: RuleRelay, reason: reasonTotal})
		}
	}
}

func (f *flow) event(kind string, why refusal) Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	return Event{Kind: kind, Datagrams: true, Name: f.target.name, Destination: f.destination, Dialed: f.dialed, Rule: why.rule, In: why.in, Reason: why.reason,
		BytesOut: f.out.Load(), BytesIn: f.in.Load(), Duration: time.Since(f.started)}
}

// tell is for a flow that was never carried.
func (f *flow) tell(err error) {
	var denial refusal
	var failed failure
	switch {
	case errors.As(err, &denial):
		f.server.counts.denied(denial.rule)
		f.server.bounded(f.event(Denied, denial))
	case errors.As(err, &failed):
		f.server.counts.with(func(s *Stats) { s.Failed++ })
		event := f.event(Failed, refusal{f.match.Rule, reasonUnreached, f.match.In})
		event.Err = failed.error
		f.server.bounded(event)
	default:
		f.tellEnd()
	}
}

// tellEnd is for one that has ended.
func (f *flow) tellEnd() {
	s := f.server
	if f.why.kind == Cut {
		s.counts.with(func(stats *Stats) { stats.Cut++ })
		s.config.Event(f.event(Cut, f.why.refusal))
		return
	}
	s.counts.with(func(stats *Stats) { stats.Ended++ })
	if s.config.Ended {
		s.config.Event(f.event(Ended, f.why.refusal))
	}
}

func (s *Server) deniedDatagram(t target, destination netip.AddrPort, err error) {
	var why refusal
	errors.As(err, &why)
	s.counts.denied(why.rule)
	s.bounded(Event{Kind: Denied, Datagrams: true, Name: t.name, Destination: destination, Rule: why.rule, In: why.in, Reason: why.reason})
}
