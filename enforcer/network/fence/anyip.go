package fence

import (
	"net/netip"

	"golang.org/x/sys/unix"
)

// RelayPort is where every TCP connection arrives that isn't for the namespace itself.
const RelayPort = 15001

// Own4 and Own6 are the addresses of a sandbox: what its connections come from, unless they choose another.
var (
	Own4 = netip.MustParseAddr("198.19.255.1")
	Own6 = netip.MustParseAddr("fd5a::1")
)

// AnyIP is the fence of a namespace of its own. withIPv6 is false where the kernel has no IPv6, and withLog where it can't tell of what it refuses by itself
// (nfnetlink_log).
func AnyIP(withIPv6, withLog bool) Plan {
	p := Plan{Variant: VariantAnyIP, Sockets: netlinkSockets()}
	// The loopback first: addresses and routes are its. The source in the routes matters: without it the source would be the destination itself, and
	// a connection to a port of the ephemeral range could meet itself.
	p.Route = [][]byte{linkUp(loopbackIndex), newAddress(Own4), localDefault(Own4), noMulticast(unix.AF_INET)}
	lines := [][]byte{
		newTable(0),
		newSet(reach4, typeIPv4, 4, 1),
		newSet(reach6, typeIPv6, 16, 2),
		newSet(datagrams4, typeIPv4, 4, 3),
		newSet(datagrams6, typeIPv6, 16, 4),
		baseChain("pre", "filter", unix.NF_INET_PRE_ROUTING, priorityMangle, 0 /* NF_DROP */),
		// The relay's own port: what is sent there says of no other place that it is for.
		rule("pre", udp(), toPort(RelayPort), reject(unix.NFT_REJECT_ICMPX_PORT_UNREACH)),
		rule("pre", to4(127), accept()), // own loopback, and replies to it
		rule("pre", to4(Own4.AsSlice()...), accept()),
	}
	if withIPv6 {
		p.Route = append(p.Route, newAddress(Own6), localDefault(Own6), noMulticast(unix.AF_INET6))
		lines = append(lines, rule("pre", to6(netip.IPv6Loopback().AsSlice()), accept()), rule("pre", to6(Own6.AsSlice()), accept()))
	}
	lines = append(lines, rule("pre", tcp(), toPort(53), accept()), rule("pre", toReached(reach4), tcp(), tproxy(unix.NFPROTO_IPV4, RelayPort), accept()))
	if withIPv6 {
		lines = append(lines, rule("pre", toReached(reach6), tcp(), tproxy(unix.NFPROTO_IPV6, RelayPort), accept()))
	}
	lines = append(lines, rule("pre", udp(), toPort(53), accept()), rule("pre", toReached(datagrams4), udp(), tproxy(unix.NFPROTO_IPV4, RelayPort), accept()))
	if withIPv6 {
		lines = append(lines, rule("pre", toReached(datagrams6), udp(), tproxy(unix.NFPROTO_IPV6, RelayPort), accept()))
	}
	if withLog {
		lines = append(lines, rule("pre", tcp(), opening(), logRefused()))
		p.Sockets = append(p.Sockets, Socket{Name: socketRefused, Domain: unix.AF_NETLINK, Type: unix.SOCK_RAW | unix.SOCK_NONBLOCK, Protocol: unix.NETLINK_NETFILTER})
	}
	lines = append(lines,
		rule("pre", tcp(), rejectReset()), // what nobody may reach, and all while nobody listens on the relay's port
		// QUIC, ping and the rest. Administratively prohibited would be EHOSTUNREACH or EACCES to them, and this is ECONNREFUSED at once.
		rule("pre", reject(unix.NFT_REJECT_ICMPX_PORT_UNREACH)))
	lines = append(lines, noGroups(withIPv6)...)
	p.Netfilter = transaction(lines...)
	// Never SO_REUSEPORT: another listener on the same port would get a share of the connections. Nor SO_REUSEADDR: a socket that is bound and
	// doesn't listen yet would let another have its port.
	stream := func(name string, domain int, address string, options ...Option) {
		p.Sockets = append(p.Sockets, Socket{Name: name, Domain: domain, Type: unix.SOCK_STREAM, Options: options, Address: address})
	}
	transparent4, only6 := Option{unix.SOL_IP, unix.IP_TRANSPARENT, 1}, Option{unix.SOL_IPV6, unix.IPV6_V6ONLY, 1}
	stream(socketRelay4, unix.AF_INET, "0.0.0.0:15001", transparent4)
	// What has come says where it was for. An answer comes from there, which takes a socket that writes whole packets; of IPPROTO_RAW it hears none.
	p.Sockets = append(p.Sockets,
		Socket{Name: socketDatagrams4, Domain: unix.AF_INET, Type: unix.SOCK_DGRAM, Address: "0.0.0.0:15001", Options: []Option{transparent4, {unix.SOL_IP, unix.IP_RECVORIGDSTADDR, 1}}},
		Socket{Name: socketAnswer4, Domain: unix.AF_INET, Type: unix.SOCK_RAW, Protocol: unix.IPPROTO_RAW})
	domain, wildcard := unix.AF_INET, "0.0.0.0:53"
	var both []Option
	if withIPv6 {
		transparent6 := Option{unix.SOL_IPV6, unix.IPV6_TRANSPARENT, 1}
		stream(socketRelay6, unix.AF_INET6, "[::]:15001", only6, transparent6)
		p.Sockets = append(p.Sockets,
			Socket{Name: socketDatagrams6, Domain: unix.AF_INET6, Type: unix.SOCK_DGRAM, Address: "[::]:15001", Options: []Option{only6, transparent6, {unix.SOL_IPV6, unix.IPV6_RECVORIGDSTADDR, 1}}},
			Socket{Name: socketAnswer6, Domain: unix.AF_INET6, Type: unix.SOCK_RAW, Protocol: unix.IPPROTO_RAW})
		domain, wildcard, both = unix.AF_INET6, "[::]:53", []Option{{unix.SOL_IPV6, unix.IPV6_V6ONLY, 0}}
	}
	stream(socketNamesTCP, domain, wildcard, both...)
	p.Sockets = append(p.Sockets, Socket{Name: socketNames, Domain: domain, Type: unix.SOCK_DGRAM, Options: both, Address: wildcard})
	return p
}

// noGroups refuses multicast and broadcast where they are sent, which is EPERM at once. Without a route there is ENETUNREACH, but not for a socket that names a
// device or has an address of its own: what that sends needs no route, and nobody is told of a refusal behind it (RFC 1122 §3.2.2).
func noGroups(withIPv6 bool) [][]byte {
	lines := [][]byte{
		baseChain("out", "filter", unix.NF_INET_LOCAL_OUT, priorityMangle, 1 /* NF_ACCEPT */),
		rule("out", toMulticast4(), drop()),
		rule("out", to4(255, 255, 255, 255), drop()),
	}
	if withIPv6 {
		lines = append(lines, rule("out", to6([]byte{0xff}), drop()))
	}
	return lines
}

// priorityMangle is that of the mangle table's hooks: before the routing decision, after connection tracking.
const priorityMangle = -150

// netlinkSockets come first: what is sent goes through them. Those that watch only listen.
func netlinkSockets() []Socket {
	return []Socket{
		{Name: socketRoute, Domain: unix.AF_NETLINK, Type: unix.SOCK_RAW, Protocol: unix.NETLINK_ROUTE},
		{Name: socketNetfilter, Domain: unix.AF_NETLINK, Type: unix.SOCK_RAW, Protocol: unix.NETLINK_NETFILTER},
		{Name: socketWatchRoute, Domain: unix.AF_NETLINK, Type: unix.SOCK_RAW | unix.SOCK_NONBLOCK, Protocol: unix.NETLINK_ROUTE, Options: groups(
			unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE,
			unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE, unix.RTNLGRP_TC)},
		{Name: socketWatchNetfilter, Domain: unix.AF_NETLINK, Type: unix.SOCK_RAW | unix.SOCK_NONBLOCK, Protocol: unix.NETLINK_NETFILTER,
			Options: groups(unix.NFNLGRP_NFTABLES)},
	}
}

func groups(numbers ...int) []Option {
	var options []Option
	for _, number := range numbers {
		options = append(options, Option{unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, number})
	}
	return options
}
