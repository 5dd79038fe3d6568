package relay

import (
	"net/netip"

	"github.com/sandboxd/sandboxd/enforcer/network"
)

// RuleRelay in place of a rule's index: the relay's own checks said no, no rule has a say in it.
const RuleRelay = -3

// target is what a connection is for: a name or an address, and a port.
type target struct {
	name string
	addr netip.Addr
	port uint16
}

// refusal is a no. Reasons are static texts: they are labels of metrics.
type refusal struct {
	rule   int
	reason string
	in     int // of the rules in force, those whose rule it is
}

func (r refusal) Error() string { return r.reason }

func refuse(reason string) error { return refusal{rule: RuleRelay, reason: reason} }

func refused(match network.Match) error { return refusal{match.Rule, match.Reason, match.In} }

// What the relay itself refuses.
const (
	reasonSelf       = "an address of the sandbox itself"
	reasonPort       = "the relay's own port"
	reasonNoDest     = "a connection without a destination"
	reasonFenced     = "refused before the rules allowed it"
	reasonFull       = "too many connections"
	reasonNoAddress  = "the name has no address that may be dialled"
	reasonUnreached  = "allowed, and not reached"
	reasonOtherName  = "the server name of TLS isn't the name that was dialled"
	reasonOtherHost  = "the host of HTTP isn't the name that was dialled"
	reasonOtherPort  = "the port of the HTTP host isn't the port that was dialled"
	reasonClaimed    = "a rule denies the name that the client asks the server for"
	reasonClaims     = "too many names asked of one address"
	reasonNoName     = "a TLS hello without a server name"
	reasonECH        = "a TLS hello with an encrypted part (ECH)"
	reasonBadHello   = "a malformed TLS hello"
	reasonLongHello  = "a TLS hello of more than 16 KiB"
	reasonNotTLS     = "not TLS on port 443"
	reasonNotHTTP    = "neither HTTP nor TLS on port 80"
	reasonPROXY      = "a PROXY protocol header"
	reasonBadHTTP    = "a malformed HTTP request"
	reasonLongHTTP   = "an HTTP head of more than 16 KiB"
	reasonNoHost     = "an HTTP request without a host"
	reasonFraming    = "an HTTP request whose body has no certain length"
	reasonConnect    = "CONNECT inside of a connection"
	reasonUpgrade    = "an HTTP upgrade that isn't the first request of its connection"
	reasonSecond     = "a second request on a proxy connection"
	reasonNotProxied = "not a request for a proxy: want CONNECT name:port, or http://name/ as its target"
	reasonTwoHosts   = "a proxy request whose Host isn't its target"
	reasonBadHTTP2   = "malformed HTTP/2"
	reasonSlow       = "first bytes that took too long"
	reasonUnfinished = "first bytes that ended early"
)

// never are addresses that nothing may be dialled at, whatever a rule says: in the daemon's own namespace they are the daemon's host.
func (s *Server) never(addr netip.Addr) bool {
	addr = addr.Unmap()
	if addr.IsLoopback() || addr.IsUnspecified() || addr.IsMulticast() || !addr.IsValid() {
		return true
	}
	for _, prefix := range s.config.Own {
		if prefix.Contains(addr) {
			return true
		}
	}
	return false
}

// targetOf says what a destination stands for.
func (s *Server) targetOf(destination netip.AddrPort) (target, error) {
	addr, port := destination.Addr().Unmap().WithZone(""), destination.Port()
	if port == s.config.Port {
		return target{}, refuse(reasonPort)
	}
	if name, ok := s.config.NameOf(addr); ok {
		return target{name: name, port: port}, nil
	}
	if s.never(addr) {
		return target{}, refuse(reasonSelf)
	}
	return target{addr: addr, port: port}, nil
}

// allowed asks the rules in force.
func (s *Server) allowed(t target) (network.Match, error) {
	set := s.config.Judge()
	var match network.Match
	if t.name != "" {
		match = set.Name(t.name, t.port)
	} else {
		match = set.Address(t.addr, t.port)
	}
	if !match.Allow {
		return match, refused(match)
	}
	return match, nil
}

// addressAllowed says whether an address that an allowed name resolved to may be dialled.
func (s *Server) addressAllowed(name network.Match, addr netip.Addr, port uint16) error {
	if s.never(addr) {
		return refuse(reasonSelf)
	}
	if match := s.config.Judge().Resolved(name, addr, port); !match.Allow {
		return refused(match)
	}
	return nil
}

// fits says whether what the client says it talks to is what the connection is for.
func (c *conn) fits(said host, other string) error {
	if said.port != 0 && said.port != c.target.port {
		return refuse(reasonOtherPort)
	}
	if c.target.name != "" {
		if said.name != c.target.name {
			return refuse(other)
		}
		return nil
	}
	if said.name == "" {
		if said.addr != c.target.addr {
			return refuse(other)
		}
		return nil
	}
	if err := c.server.claimAllowed(said.name, c.target.port); err != nil {
		return err
	}
	return c.claim(said.name)
}

// claimAllowed is for a name that the client of a literal address asks the server for. The address is allowed by itself, and so is what answers there,
// but for names that a rule denies: dialling their address by hand must not be a way round it.
func (s *Server) claimAllowed(name string, port uint16) error {
	if match := s.config.Judge().Name(name, port); !match.Allow && match.Rule >= 0 {
		return refusal{match.Rule, reasonClaimed, match.In}
	}
	return nil
}
