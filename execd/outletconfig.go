package execd

import (
	"context"
	"net"
	"net/netip"
	"strconv"

	"github.com/sandboxd/sandboxd/enforcer/network"
	"github.com/sandboxd/sandboxd/enforcer/network/fence"
	"github.com/sandboxd/sandboxd/enforcer/network/names"
	"github.com/sandboxd/sandboxd/enforcer/network/relay"
	"github.com/sandboxd/sandboxd/execd/audit"
)

// proxyAddress is where programs find the explicit proxy, for those that want one: in the sandbox's own range, where nothing else is.
var proxyAddress = netip.MustParseAddrPort("198.19.255.2:3128")

// namesConfig has the names of a sandbox judged by the rules in force.
func (out *outlet) namesConfig() names.Config {
	c := names.DefaultConfig()
	c.Resolver = out.outlets.resolver
	c.Resolvable = func(name string) names.Match { set := out.judge(); return namesMatch(set, name, set.Resolvable(name)) }
	c.Resolved = func(name string, address netip.Addr) names.Match {
		set := out.judge()
		return namesMatch(set, name, set.Reachable(name, address))
	}
	c.Denied = func(d names.Denial) {
		out.tell(audit.Egress{
			Event: "denied", Name: d.Name, Query: d.Type, Rule: d.Rule, Reason: d.Reason, Suppressed: d.Suppressed,
		})
	}
	c.Observed = out.outlets.metrics.query
	return c
}

// namesMatch is a match in the words of names.
func namesMatch(set network.Set, name string, m network.Match) names.Match {
	return names.Match{Allow: m.Allow, Rule: m.Rule, In: m.In, Reason: m.Reason, Spelled: set.Spells(m, name)}
}

// ownAddresses are never carried to, whatever a rule says: those of the sandbox and of its names, and those of the host's links. What listens there
// takes who comes from the host for one of its own. The loopback's are closed as such.
func ownAddresses() ([]netip.Prefix, error) {
	own := []netip.Prefix{names.DefaultRange, names.DefaultRange6, netip.PrefixFrom(fence.Own4, 32), netip.PrefixFrom(fence.Own6, 128)}
	links, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	for _, link := range links {
		if link.Flags&net.FlagLoopback != 0 {
			continue
		}
		addresses, err := link.Addrs()
		if err != nil {
			return nil, err
		}
		for _, address := range addresses {
			if prefix, err := netip.ParsePrefix(address.String()); err == nil {
				own = append(own, netip.PrefixFrom(prefix.Addr().Unmap(), prefix.Addr().Unmap().BitLen()))
			}
		}
	}
	return own, nil
}

// reach are the addresses that may come to the relay while rules are a sandbox's own: those that the rules open, the explicit proxy's, and where there are names
// those that stand for them. It is a function of the rules alone, so that what the kernel has can be held against them.
func reach(rules *network.Rules) fence.Reach {
	if rules.Spec().DenyAll() {
		return fence.Reach{}
	}
	spans := append(rules.Reach(), [2]netip.Addr{proxyAddress.Addr(), proxyAddress.Addr()})
	if rules.SomeName() {
		for _, names := range []netip.Prefix{names.DefaultRange, names.DefaultRange6} {
			spans = append(spans, [2]netip.Addr{names.Addr(), network.LastOf(names)})
		}
	}
	return fence.Reach{Ranges: spans, Datagrams: rules.Spec().Datagrams}
}

// relayConfig has the connections of a sandbox judged by the rules in force. Names are resolved anew for each.
func (out *outlet) relayConfig(own []netip.Prefix) relay.Config {
	destination, proxy, port := fence.Destination, proxyAddress, uint16(fence.RelayPort)
	switch plan := out.fence.Plan(); plan.Variant {
	case fence.VariantPod: // connections are redirected there, and connection tracking knows from where
		destination = fence.OriginalDestination
	case fence.VariantProxy:
		proxy = plan.ProxyAddress()
		port = proxy.Port()
	}
	return relay.Config{
		Judge:       out.judge,
		NameOf:      func(address netip.Addr) (string, bool) { return out.names.NameOf(address) },
		Resolve:     func(ctx context.Context, name string) ([]netip.Addr, error) { return out.names.Resolve(ctx, name) },
		Destination: destination,
		Proxy:       proxy,
		Port:        port,
		Own:         own,
		Limits:      relay.Limits{Connections: out.outlets.config.SandboxConnections},
		Capacity:    out.outlets.capacity,
		Event:       out.connection,
		Ended:       out.outlets.config.RecordConnections,
		Answer:      out.fence.Answer, DatagramDestination: fence.DatagramDestination,
	}
}

// tell writes down what a program did, unless it is one of ours that was to do it.
func (out *outlet) tell(event audit.Egress) {
	if !out.probed.Load() {
		out.outlets.egress.tell(out.box.id, out.present.only(), event)
	}
}

// connection is told of each connection that was refused, failed or was cut, and of each that ended if that was asked for.
func (out *outlet) connection(e relay.Event) {
	told := audit.Egress{
		Event: e.Kind, Name: e.Name, Rule: e.Rule, Reason: e.Reason, Suppressed: e.Suppressed,
		SentBytes: e.BytesOut, ReceivedBytes: e.BytesIn, DurationSeconds: e.Duration.Seconds(),
	}
	if e.Err != nil {
		told.Reason = sentence(e.Err)
	}
	if e.Datagrams {
		told.Protocol = "udp"
	}
	switch {
	case e.Destination.IsValid():
		told.Destination = e.Destination.String()
	case e.Proxy && e.Name != "": // it asked for a name, and a port
		told.Destination = net.JoinHostPort(e.Name, strconv.Itoa(int(e.Destination.Port())))
	}
	if e.Dialed.IsValid() {
		told.Dialed = e.Dialed.String()
	}
	out.tell(told)
}
