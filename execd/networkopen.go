package execd

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"

	"github.com/sandboxd/sandboxd/enforcer/network/names"
	"github.com/sandboxd/sandboxd/enforcer/network/relay"
)

// openNetwork sets up what the outlets of all sandboxes share. It asks and dials nothing.
func (s *Service) openNetwork() error {
	s.egress = newEgress(s)
	upstreams, err := s.config.upstreams()
	if err != nil {
		return err
	}
	o := &outlets{
		config: s.config, logger: s.logger, egress: s.egress, metrics: newNetworkMetrics(s.relayStats),
		changed: func(box *sandbox) { s.lookAtSandbox(box) },
	}
	resolver := names.DefaultResolverConfig(upstreams...)
	resolver.Observed = o.metrics.lookup
	if o.resolver, err = names.NewResolver(resolver); err != nil {
		return err
	}
	if o.capacity, err = relay.NewCapacity(s.config.NetworkConnections); err != nil {
		if s.config.NetworkConnections > 0 || !errors.Is(err, relay.ErrDescriptors) {
			return err
		}
		s.logger.Warn("network: nothing can be let out", "error", err)
		o.lack = err
	}
	s.sandboxes.outlets = o
	return nil
}

// upstreams are the resolvers that names are asked of: those that were said, else the host's own. There is no other.
func (c Config) upstreams() ([]netip.AddrPort, error) {
	if len(c.Resolvers) > 0 || c.ResolvConf == "" {
		return c.Resolvers, nil
	}
	file, err := os.Open(c.ResolvConf)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // a host without names
	}
	if err != nil {
		return nil, fmt.Errorf("config: ResolvConf: %w", err)
	}
	defer file.Close()
	upstreams, err := names.ParseResolvConf(file)
	if err != nil {
		return nil, fmt.Errorf("config: ResolvConf %s: %w", c.ResolvConf, err)
	}
	return upstreams, nil
}

// relayStats are those of the relays that serve.
func (s *Service) relayStats() []relay.Stats {
	var all []relay.Stats
	for _, box := range s.sandboxes.alive(nil) {
		if box.outlet != nil {
			all = append(all, box.outlet.stats())
		}
	}
	return all
}
