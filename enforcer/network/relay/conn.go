package relay

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandboxd/sandboxd/enforcer/network"
)

// conn is one connection of the sandbox: set up by one goroutine, then carried by one for each way.
type conn struct {
	server *Server
	client *net.TCPConn
	remote *net.TCPConn
	// What follows is written before carried is set, and read by others only after it.
	destination netip.AddrPort
	proxy       bool
	target      target
	match       network.Match
	dialed      netip.AddrPort
	carried     atomic.Bool

	started    time.Time
	generation int64
	// active is when bytes moved last, since the server was made.
	active  atomic.Int64
	out, in atomic.Int64

	// claims are the names that the client of a literal address asked for.
	claimsMu sync.Mutex
	claims   []string

	// answer is set while the server's first answer decides what the client may say next; heard is closed when nothing more comes from the server.
	answer atomic.Pointer[answer]
	heard  chan struct{}

	// bounded: its buffers are.
	bounded atomic.Bool
	// ways still open, of two.
	ways atomic.Int32
	// broken: one end did not end in order. why: we ended it.
	broken atomic.Bool
	why    atomic.Pointer[ending]
}

// ending is why we ended a connection.
type ending struct {
	kind string
	refusal
}

func (c *conn) touch() { c.active.Store(int64(time.Since(c.server.started))) }

// serve judges the connection and dials. It ends before the connection is carried, so that its stack isn't kept.
func (c *conn) serve() {
	up, err := newPump(c, c.client, &c.out)
	if err == nil {
		err = c.setUp(up)
	}
	if err == nil {
		return
	}
	c.client.Close() // a reset, unless something was answered
	if c.remote != nil {
		c.remote.Close()
	}
	c.server.forget(c)
	c.tell(err)
	c.server.running.Done()
}

// setUp goes the way from a destination to bytes that move, or to the reason why they don't.
func (c *conn) setUp(up *pump) error {
	destination, err := c.server.config.Destination(c.client)
	if err != nil {
		return refuse(reasonNoDest)
	}
	c.destination = destination
	if c.server.config.Proxy.IsValid() && destination == c.server.config.Proxy {
		return c.setUpProxy(up)
	}
	if c.target, err = c.server.targetOf(destination); err != nil {
		return err
	}
	if err := c.open(); err != nil {
		return err
	}
	return c.carry(up, &firstLook{c: c}, 0)
}

// open judges the target and connects to it.
func (c *conn) open() error {
	ctx, cancel := context.WithTimeout(c.server.ctx, c.server.config.Limits.Setup)
	defer cancel()
	return c.connect(ctx)
}

// carry starts both ways. The client's first bytes are looked at while the server is already heard: there are protocols in which it speaks first.
func (c *conn) carry(up *pump, first look, skip int64) error {
	if err := up.to(c.remote); err != nil {
		return err
	}
	down, err := newPump(c, c.remote, &c.in)
	if err == nil {
		err = down.to(c.client)
	}
	if err != nil {
		return err
	}
	down.hear = c.hear
	c.touch()
	c.carried.Store(true)
	if c.server.generation.Load() != c.generation { // rules changed since it was judged, and whoever changed them may have passed it by
		if err := c.stillAllowed(); err != nil {
			return err
		}
	}
	c.ways.Store(2)
	go func() { c.ended(c.upstream(up, first, skip), up, c.remote) }()
	go func() {
		err := down.run(-1)
		close(c.heard)
		c.ended(err, down, c.client)
	}()
	return nil
}

// upstream carries what the client says: through a look as long as it has something to judge, then as it is.
func (c *conn) upstream(p *pump, l look, skip int64) error {
	if err := p.run(skip); err != nil {
		return err
	}
	timed := false
	for {
		s, err := step{}, error(nil)
		if p.have > 0 {
			s, err = l.scan(p.buf[:p.have])
		}
		var answer *answer
		if s.answer != nil {
			answer = newAnswer() // before the request that it answers
			c.answer.Store(answer)
		}
		if wrote := p.write(s.pass); wrote != nil {
			return wrote
		}
		if err != nil {
			return err
		}
		if timed && (s.done || p.have == 0 || s.skip > 0 || s.answer != nil) {
			timed = false
			_ = c.client.SetReadDeadline(time.Time{})
		}
		switch {
		case s.done:
			return p.run(-1)
		case s.skip > 0:
			if err := p.run(s.skip); err != nil {
				return err
			}
			continue
		case s.answer != nil:
			l = s.answer(c.switched(answer))
			continue
		case p.have == bufferSize:
			return refuse(reasonLongHTTP)
		case p.have > 0 && !timed:
			timed = true
			_ = c.client.SetReadDeadline(time.Now().Add(c.server.config.Limits.Look))
		}
		if err := c.more(p); err != nil {
			return err
		}
	}
}

// more reads more of what is being judged.
func (c *conn) more(p *pump) error {
	err := p.more(bufferSize)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return refuse(reasonSlow)
	case errors.Is(err, io.EOF) && p.have > 0:
		return refuse(reasonUnfinished)
	}
	return err
}

// ended is the end of one way. An end of file is passed on, so that the other way may go on; anything else ends both.
func (c *conn) ended(err error, p *pump, to *net.TCPConn) {
	p.letGo()
	var denial refusal
	var write errWrite
	switch {
	case errors.Is(err, io.EOF):
		if to.CloseWrite() != nil {
			c.broken.Store(true)
		}
	case errors.As(err, &denial):
		c.end(Denied, denial)
	case errors.As(err, &write) && to == c.remote:
		// The server takes no more, and may have said why just before: the other way brings that, and then ends as well.
		c.broken.Store(true)
	default:
		c.broken.Store(true)
		c.reset()
	}
	if c.ways.Add(-1) > 0 {
		return
	}
	if c.why.Load() == nil && !c.broken.Load() {
		// Both said so themselves: what is still on its way may arrive.
		_ = c.client.SetLinger(-1)
		_ = c.remote.SetLinger(-1)
	}
	c.reset()
	c.server.forget(c)
	c.tellCarried()
	c.server.running.Done()
}

// reset closes both ends. SO_LINGER {1,0}, which stands since they were made, has the kernel send a reset: what was cut must not look complete.
func (c *conn) reset() {
	c.client.Close()
	c.remote.Close()
}

// end ends a carried connection, for a reason; the first counts.
func (c *conn) end(kind string, why refusal) {
	if c.why.CompareAndSwap(nil, &ending{kind, why}) {
		c.reset()
	}
}

// cut is end for those who look at connections from outside. One that is being set up isn't theirs yet; the server's context ends that.
func (c *conn) cut(err error) {
	var why refusal
	if errors.As(err, &why) && c.carried.Load() {
		c.end(Cut, why)
	}
}

const mostClaims = 64

// claim remembers a name that the client of a literal address asked for.
func (c *conn) claim(name string) error {
	c.claimsMu.Lock()
	defer c.claimsMu.Unlock()
	switch {
	case slices.Contains(c.claims, name):
		return nil
	case len(c.claims) >= mostClaims:
		return refuse(reasonClaims)
	}
	c.claims = append(c.claims, name)
	return nil
}
