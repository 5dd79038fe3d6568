package enforcer

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer/landlock"
	"github.com/sandboxd/sandboxd/enforcer/network/fence"
	"github.com/sandboxd/sandboxd/enforcer/seccomp"
	"github.com/sandboxd/sandboxd/policy"
)

// What holds an exec's network ([Plan].Network).
const (
	// NetworkNone: a network namespace of the sandbox's own with a loopback and nothing else, on a host that can't fence one.
	NetworkNone = "none"
	// NetworkFence: a fenced namespace, and rules that let nothing out.
	NetworkFence = "fence"
	// NetworkRelay: a fenced namespace, and a relay that lets out what the rules allow.
	NetworkRelay = "relay"
	// NetworkFilter: the machine's own namespace, and a filter that refuses every socket but local ones.
	NetworkFilter = "filter"
	// NetworkProxy: the machine's own namespace, a filter that leaves clients of TCP only, and Landlock, which lets them connect to the relay's port only.
	NetworkProxy = "proxy"
)

// network chooses what holds the network, by what the sandbox stands in.
func (b *builder) network() error {
	open := !b.decision.Effective.Network.DenyAll()
	if open && b.decision.Effective.Network.Datagrams && b.sandbox.Network.Variant != "" && !b.sandbox.Network.Datagrams() {
		return NoDatagrams()
	}
	switch {
	case open && b.sandbox.Network.Variant == fence.VariantPod:
		// In the container's own namespace, whose link the fence by uid holds. An exec that lets nothing out has the filter, and the fence behind it.
		b.plan.Network = NetworkRelay
		b.plan.Landlock.HandledNet, b.plan.Landlock.Ports = 0, nil
	case !slices.Contains(b.sandbox.Namespaces, "net"):
		b.plan.Network = NetworkFilter
		if open {
			return b.proxied()
		}
	case open && b.sandbox.Network.Variant == "":
		return NoFence(b.host)
	case open:
		// The fence and the relay behind it are what holds then; Landlock's rules for TCP would refuse the sandbox's own loopback, and can't tell one
		// destination from another.
		b.plan.Network = NetworkRelay
		b.plan.Landlock.HandledNet, b.plan.Landlock.Ports = 0, nil
	case b.sandbox.Network.Variant == "":
		b.plan.Network = NetworkNone
	default:
		b.plan.Network = NetworkFence
	}
	return nil
}

// NoDatagrams refuses datagrams where the host can't let them out.
func NoDatagrams() *RefusedError {
	return &RefusedError{Field: "network.datagrams", Lack: "network.datagrams", Message: "datagrams can be let out only of a network namespace of the sandbox's own, by a daemon that may make raw sockets there",
		HowTo: "leave datagrams out, or give the daemon CAP_NET_RAW"}
}

// NoFence refuses a network that lets something out where the host can't hold one.
func NoFence(h Host) *RefusedError {
	if h.Attached {
		return &RefusedError{Field: "network.egress", Lack: networkFence, Message: "this daemon holds no fence by uid (" + h.PodFenceWhy + "), and its relay has no port for programs that ask a proxy",
			HowTo: `give the daemon NET_ADMIN, or start it with --proxy-port, or ask for {"defaultAction":"deny"} without rules that allow`}
	}
	return &RefusedError{
		Field: "network.egress", Lack: networkFence, Message: "this host can't fence a network: " + h.FenceWhy,
		HowTo: howToFence + `, or ask for {"defaultAction":"deny"} without rules that allow`,
	}
}

// proxied is for a network that lets something out where there is no namespace to fence: programs must ask the relay as a proxy, and get no other
// connection. Landlock alone would be no such control, and the filter alone none; and what both leave open has a name that policy must accept.
func (b *builder) proxied() error {
	const field = "network.egress"
	if b.sandbox.ProxyPort == 0 {
		return NoFence(b.host)
	}
	if b.host.LandlockABI < 4 {
		return &RefusedError{Field: field, Lack: "network.landlock", Message: "this kernel's Landlock has no rules for TCP, and this place has no network namespace to fence",
			HowTo: `use Linux 6.7, or a place with user namespaces, or ask for {"defaultAction":"deny"} without rules that allow`}
	}
	err := b.lack(networkDestination, field, fmt.Sprintf("Landlock knows ports and no addresses: what listens on TCP port %d of another host can be reached past the relay", b.sandbox.ProxyPort),
		"use a place with user namespaces or NET_ADMIN, or have policy accept "+networkDestination)
	if err != nil {
		return err
	}
	b.plan.Network = NetworkProxy
	b.plan.Landlock.Ports = []landlock.PortRule{{Port: b.sandbox.ProxyPort, Access: unix.LANDLOCK_ACCESS_NET_CONNECT_TCP}}
	return nil
}

// networkDestination is the lack of a place in which only the port of a connection is held, and not where it goes.
const networkDestination = "network.destination"

// filtersNetwork says whether the seccomp filter is what holds the network, or part of it.
func (b *builder) filtersNetwork() bool { return len(networkRules(b.plan.Network)) > 0 }

// networkRules are what the filter refuses besides its profile.
func networkRules(network string) []seccomp.Rule {
	switch network {
	case NetworkFilter:
		return seccomp.NoSockets()
	case NetworkProxy:
		return seccomp.ClientsOnly()
	}
	return nil
}

// needsFilter refuses to go without a filter, whatever policy accepts: nothing else would stand between the exec and the machine's network.
func (b *builder) needsFilter(profile string) error {
	const message = "the filter is what keeps this exec from the machine's own network: this place has no network namespace for it"
	switch {
	case profile == policy.SeccompUnconfined:
		return &RefusedError{Field: "securityContext.seccompProfile.type", Message: message, HowTo: `set {"type":"RuntimeDefault"}`}
	case !slices.Contains(b.host.SeccompActions, "errno"):
		return &RefusedError{Field: "network", Message: message + ", and this kernel has no filters", HowTo: "use a kernel with CONFIG_SECCOMP_FILTER"}
	}
	return nil
}
