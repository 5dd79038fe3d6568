package relay

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/sandboxd/sandboxd/enforcer/network"
)

// failure is that the network didn't bring what was allowed.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

// attemptDelay is how long one address is tried before the next is tried beside it (RFC 8305 §5).
const attemptDelay = 250 * time.Millisecond

// connect judges the target, finds its addresses, and dials those that may be dialled, and nothing else.
func (c *conn) connect(ctx context.Context) error {
	s, started := c.server, time.Now()
	match, err := s.allowed(c.target)
	if err != nil {
		return err
	}
	c.match = match
	addresses := []netip.Addr{c.target.addr}
	if c.target.name != "" {
		if addresses, err = s.addresses(ctx, match, c.target); err != nil {
			return err
		}
	}
	remote, dialed, err := s.dialAny(ctx, addresses, c.target.port)
	if err != nil {
		return failure{err}
	}
	s.counts.dialed(time.Since(started))
	c.remote, c.dialed = remote, dialed
	return nil
}

// addresses resolves a name and keeps the addresses that may be dialled. When none of them may, the first one's reason is the answer.
func (s *Server) addresses(ctx context.Context, match network.Match, t target) ([]netip.Addr, error) {
	all, err := s.config.Resolve(ctx, t.name)
	if err != nil {
		return nil, failure{err}
	}
	var checked []netip.Addr
	denied := refuse(reasonNoAddress)
	for i, address := range all {
		if err := s.addressAllowed(match, address, t.port); err == nil {
			checked = append(checked, address)
		} else if i == 0 {
			denied = err
		}
	}
	switch {
	case len(all) == 0:
		return nil, failure{errors.New("the name has no address")}
	case len(checked) == 0:
		return nil, denied
	}
	return interleave(checked), nil
}

// interleave has families take turns, IPv6 first, and keeps the order within each (RFC 8305 §4).
func interleave(addresses []netip.Addr) []netip.Addr {
	if len(addresses) < 2 {
		return addresses
	}
	var six, four, mixed []netip.Addr
	for _, address := range addresses {
		if address.Is4() {
			four = append(four, address)
		} else {
			six = append(six, address)
		}
	}
	for len(six) > 0 || len(four) > 0 {
		if len(six) > 0 {
			mixed, six = append(mixed, six[0]), six[1:]
		}
		if len(four) > 0 {
			mixed, four = append(mixed, four[0]), four[1:]
		}
	}
	return mixed
}

// mostAttempts bounds how many addresses of one name are tried.
const mostAttempts = 16

// dialAny tries addresses one after the other, the next when one fails or takes long, and returns the first connection.
func (s *Server) dialAny(ctx context.Context, addresses []netip.Addr, port uint16) (*net.TCPConn, netip.AddrPort, error) {
	if len(addresses) == 1 {
		address := netip.AddrPortFrom(addresses[0], port)
		remote, err := s.config.Dial(ctx, address)
		return remote, address, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	addresses = addresses[:min(len(addresses), mostAttempts)]
	type attempt struct {
		remote  *net.TCPConn
		address netip.AddrPort
		err     error
	}
	results := make(chan attempt)
	next := time.NewTimer(0)
	defer next.Stop()
	var errs []error
	for tried, open := 0, 0; ; {
		select {
		case <-next.C:
			if tried == len(addresses) {
				continue
			}
			address := netip.AddrPortFrom(addresses[tried], port)
			tried, open = tried+1, open+1
			s.running.Go(func() {
				remote, err := s.config.Dial(ctx, address)
				select {
				case results <- attempt{remote, address, err}:
				case <-ctx.Done(): // another one was first, or it took too long
					if err == nil {
						remote.Close()
					}
				}
			})
			next.Reset(attemptDelay)
		case got := <-results:
			open--
			if got.err == nil {
				return got.remote, got.address, nil
			}
			errs = append(errs, got.err)
			switch {
			case tried < len(addresses):
				next.Reset(0)
			case open == 0:
				return nil, netip.AddrPort{}, errors.Join(errs...)
			}
		case <-ctx.Done():
			return nil, netip.AddrPort{}, ctx.Err()
		}
	}
}
