package fence

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// NamesPort is where questions to name servers arrive in a pod.
const NamesPort = 15053

// PodSpec is who is who in a network namespace that is shared and has a link.
type PodSpec struct {
	// Runner are the uids whose traffic is fenced. Every socket that such a process makes is theirs for good, whoever uses it.
	Runner []uint32
	// Allowed are the uids that may send to the network: the daemon's, and those of containers beside it. Any other may not.
	Allowed []uint32
	// Ports are TCP ports that others may connect to from outside, on which the runner must not reach the daemon.
	Ports []uint16
	// Persist has the table owned by the socket that makes it: nobody else may change it while the daemon lives, and it stays when the daemon is gone
	// (Linux 6.9).
	Persist bool
	IPv6    bool
}

// Flags of a table. The owner's alone would vanish with its socket, and leave everything open.
const (
	tableOwner   = 0x2
	tablePersist = 0x4
)

// The priorities of the chains. Before any nat chain of others, which has -100: the first that redirects wins. But not before connection tracking, which
// has -200. After everything that changes where a packet goes: the last look.
const (
	priorityBeforeNAT = -110
	priorityFilter    = 0
	priorityLast      = 300
)

// Pod is the fence of a namespace that others share, by uid: what the runner sends by TCP goes to the relay, its questions to the names' sockets, and all
// else is refused. Policy is drop everywhere, so that who isn't named is out.
func Pod(s PodSpec) (Plan, error) {
	if len(s.Runner) == 0 {
		return Plan{}, fmt.Errorf("fence: a pod needs the runner's uid")
	}
	for _, uid := range s.Allowed {
		if slices.Contains(s.Runner, uid) {
			return Plan{}, fmt.Errorf("fence: uid %d is the runner's and may send to the network: give them different ones", uid)
		}
	}
	p := Plan{Variant: VariantPod, Sockets: netlinkSockets()}
	flags := uint32(0)
	if s.Persist {
		flags = tableOwner | tablePersist
	}
	lines := [][]byte{newTable(flags),
		baseChain("nat_out", "nat", unix.NF_INET_LOCAL_OUT, priorityBeforeNAT, 1 /* NF_ACCEPT */),
		baseChain("in", "filter", unix.NF_INET_LOCAL_IN, priorityFilter, 0),
		baseChain("out", "filter", unix.NF_INET_LOCAL_OUT, priorityFilter, 0),
		chain("runner"), // in the order of its rules below, which is how they are read back
		baseChain("post", "filter", unix.NF_INET_POST_ROUTING, priorityLast, 1),
	}
	for _, uid := range s.Runner {
		lines = append(lines,
			rule("nat_out", owner(uid), udp(), toPort(53), redirect(NamesPort)),
			rule("nat_out", owner(uid), tcp(), toPort(53), redirect(NamesPort)),
			rule("nat_out", owner(uid), notLocal(), tcp(), redirect(RelayPort)))
	}
	lines = append(lines, s.in()...)
	for _, uid := range s.Runner {
		lines = append(lines, rule("out", owner(uid), goTo("runner")))
	}
	for _, uid := range s.Allowed {
		lines = append(lines, rule("out", owner(uid), accept()))
	}
	// What has no owner any more: resets, the end of a connection.
	lines = append(lines, rule("out", conntrack(unix.NFT_CT_STATE, established), accept()))
	lines = append(lines, neighbours("out")...)
	lines = append(lines, s.runner()...)
	for _, uid := range s.Runner {
		// SO_BINDTODEVICE takes no capability: after the redirect the packet would leave by that device, and in the output hook its device is still the old
		// route's. Only here is it the true one. There is no way to answer from here.
		lines = append(lines, rule("post", owner(uid), notLoopback(), drop()))
	}
	p.Netfilter = transaction(lines...)
	p.Sockets = append(p.Sockets, podSockets(s.IPv6)...)
	return p, nil
}

// Bits of a connection's state and status (linux/netfilter/nf_conntrack_common.h).
const (
	established = 1<<1 | 1<<2 // NF_CT_STATE_BIT(IP_CT_ESTABLISHED), and of IP_CT_RELATED
	destination = 1 << 5      // IPS_DST_NAT
)

// in is what may come from outside: answers, neighbours, and who asks for the daemon's ports.
func (s PodSpec) in() [][]byte {
	lines := [][]byte{
		rule("in", meta(unix.NFT_META_IIF, native.AppendUint32(nil, loopbackIndex)), accept()),
		rule("in", conntrack(unix.NFT_CT_STATE, established), accept()),
	}
	lines = append(lines, neighbours("in")...)
	for _, number := range s.Ports {
		lines = append(lines, rule("in", tcp(), toPort(number), accept()))
	}
	return lines
}

// runner is what the runner may send. The daemon's own ports are closed to it, except by redirection: what arrives there must say where it wanted to.
func (s PodSpec) runner() [][]byte {
	redirected := func(protocol [][]byte, port uint16) []byte {
		return rule("runner", conntrack(unix.NFT_CT_STATUS, destination), protocol, toPort(port), accept())
	}
	lines := [][]byte{redirected(tcp(), RelayPort), redirected(tcp(), NamesPort), redirected(udp(), NamesPort)}
	for _, number := range append([]uint16{RelayPort, NamesPort}, s.Ports...) {
		lines = append(lines, rule("runner", tcp(), toPort(number), rejectReset()))
	}
	return append(lines,
		rule("runner", udp(), toPort(NamesPort), reject(unix.NFT_REJECT_ICMPX_PORT_UNREACH)),
		rule("runner", meta(unix.NFT_META_OIF, native.AppendUint32(nil, loopbackIndex)), accept()),
		rule("runner", tcp(), rejectReset()),
		rule("runner", reject(unix.NFT_REJECT_ICMPX_ADMIN_PROHIBITED)))
}

// neighbours lets IPv6 find them: solicitations and advertisements.
func neighbours(chain string) [][]byte {
	var lines [][]byte
	for _, kind := range []byte{135, 136} {
		lines = append(lines, rule(chain, meta(unix.NFT_META_L4PROTO, []byte{unix.IPPROTO_ICMPV6}), payload(unix.NFT_PAYLOAD_TRANSPORT_HEADER, 0, []byte{kind}), accept()))
	}
	return lines
}

// podSockets are on the loopback, which redirection in the output hook leads to: answers from a wildcard socket would come from another address.
//
// The namespace outlives the daemon, and so do the ends of its connections, for a minute (TIME_WAIT): without SO_REUSEADDR no relay could follow another. With it
// somebody else could have the port too while ours doesn't listen. Then nobody has a socket there: what is let out is served before it is.
func podSockets(withIPv6 bool) []Socket {
	again := []Option{{unix.SOL_SOCKET, unix.SO_REUSEADDR, 1}}
	all := []Socket{
		{Name: socketRelay4, Domain: unix.AF_INET, Type: unix.SOCK_STREAM, Options: again, Address: "127.0.0.1:15001"},
		{Name: socketNames, Domain: unix.AF_INET, Type: unix.SOCK_DGRAM, Address: "127.0.0.1:15053"},
		{Name: socketNamesTCP, Domain: unix.AF_INET, Type: unix.SOCK_STREAM, Options: again, Address: "127.0.0.1:15053"},
	}
	if withIPv6 {
		only6 := []Option{{unix.SOL_IPV6, unix.IPV6_V6ONLY, 1}}
		stream6 := append(slices.Clone(only6), again...)
		all = append(all,
			Socket{Name: socketRelay6, Domain: unix.AF_INET6, Type: unix.SOCK_STREAM, Options: stream6, Address: "[::1]:15001"},
			Socket{Name: socketNames6, Domain: unix.AF_INET6, Type: unix.SOCK_DGRAM, Options: only6, Address: "[::1]:15053"},
			Socket{Name: socketNamesTCP6, Domain: unix.AF_INET6, Type: unix.SOCK_STREAM, Options: stream6, Address: "[::1]:15053"})
	}
	return all
}
