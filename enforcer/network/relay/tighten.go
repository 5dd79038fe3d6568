package relay

import "time"

// Why a connection was cut, beside what rules say.
const (
	reasonStopped = "the sandbox's network ended"
	reasonIdle    = "no byte moved for too long"
	reasonTotal   = "the connection lasted too long"
)

// Tighten judges live connections by the rules that Judge gives now, and cuts those that they don't allow. What is still allowed isn't touched. A
// connection that is being set up meanwhile is judged again before it carries anything.
func (s *Server) Tighten() {
	s.generation.Add(1)
	for _, c := range s.snapshot() {
		if !c.carried.Load() {
			continue // it looks at the generation itself, after it has said that it carries
		}
		if err := c.stillAllowed(); err != nil {
			c.cut(err)
		}
	}
	s.tightenFlows()
}

// stillAllowed judges a connection as if it were made now, with the address that it was made to.
func (c *conn) stillAllowed() error {
	match, err := c.server.allowed(c.target)
	if err != nil {
		return err
	}
	if c.target.name != "" {
		return c.server.addressAllowed(match, c.dialed.Addr(), c.target.port)
	}
	c.claimsMu.Lock()
	defer c.claimsMu.Unlock()
	for _, name := range c.claims {
		if err := c.server.claimAllowed(name, c.target.port); err != nil {
			return err
		}
	}
	return nil
}

// expire cuts connections that have reached a limit. One look at all of them now and then is cheaper than two timers for each.
func (s *Server) expire() {
	limits := s.config.Limits
	ticker := time.NewTicker(min(max(min(limits.Idle, limits.FlowIdle, limits.Total)/16, 10*time.Millisecond), 30*time.Second))
	defer ticker.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-ticker.C:
		}
		now := time.Since(s.started)
		for _, c := range s.snapshot() {
			switch {
			case !c.carried.Load(): // Setup and Look bound it
			case now-time.Duration(c.active.Load()) > limits.Idle:
				c.cut(refusal{rule: RuleRelay, reason: reasonIdle})
			case time.Since(c.started) > limits.Total:
				c.cut(refusal{rule: RuleRelay, reason: reasonTotal})
			}
		}
		s.expireFlows(now)
	}
}
