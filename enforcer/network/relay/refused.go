package relay

import (
	"errors"
	"net/netip"
)

// Refused is for a connection that never came: the kernel refused it at an address that no rule opens, and told of it. It is judged as if it had come,
// so that what is told of it is the same. lost are others before it that the kernel couldn't tell of; they are counted as suppressed.
func (s *Server) Refused(destination netip.AddrPort, lost int) {
	why := refusal{rule: RuleRelay, reason: reasonFenced}
	t, err := s.targetOf(destination)
	if err == nil {
		_, err = s.allowed(t)
	}
	errors.As(err, &why)
	s.counts.denied(why.rule)
	s.untold.missed(lost)
	s.bounded(Event{Kind: Denied, Name: t.name, Destination: destination, Rule: why.rule, In: why.in, Reason: why.reason})
}
