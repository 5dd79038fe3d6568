package relay

import (
	"errors"
	"time"
)

// event is what there is to say of a connection.
func (c *conn) event(kind string, why refusal) Event {
	return Event{
		Kind: kind, Name: c.target.name, Destination: c.destination, Proxy: c.proxy, Dialed: c.dialed, Rule: why.rule, In: why.in, Reason: why.reason,
		BytesOut: c.out.Load(), BytesIn: c.in.Load(), Duration: time.Since(c.started),
	}
}

// tell is for a connection that was never carried.
func (c *conn) tell(err error) {
	var denial refusal
	var failed failure
	switch {
	case errors.As(err, &denial):
		c.denied(denial)
	case errors.As(err, &failed):
		c.server.counts.with(func(s *Stats) { s.Failed++ })
		event := c.event(Failed, refusal{c.match.Rule, reasonUnreached, c.match.In})
		event.Err = failed.error
		c.server.bounded(event)
	default: // the client left
		c.server.counts.with(func(s *Stats) { s.Ended++ })
	}
}

// tellCarried is for one that was.
func (c *conn) tellCarried() {
	why := c.why.Load()
	switch {
	case why == nil:
		c.server.counts.with(func(s *Stats) { s.Ended++ })
		if c.server.config.Ended {
			c.server.config.Event(c.event(Ended, refusal{c.match.Rule, c.match.Reason, c.match.In}))
		}
	case why.kind == Denied:
		c.denied(why.refusal)
	default:
		c.server.counts.with(func(s *Stats) { s.Cut++ })
		c.server.config.Event(c.event(Cut, why.refusal))
	}
}

func (c *conn) denied(why refusal) {
	c.server.counts.denied(why.rule)
	c.server.bounded(c.event(Denied, why))
}

// bounded tells events that a sandbox can cause as often as it likes.
func (s *Server) bounded(event Event) {
	if tell, suppressed := s.untold.take(time.Now()); tell {
		event.Suppressed = suppressed
		s.config.Event(event)
	}
}
