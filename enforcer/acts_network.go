package enforcer

import (
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer/network/fence"
)

// NetworkAct is one way that a program may try to get out. What it dials no rules can allow, so that its answer depends on what holds the network and
// not on what policy let out: the address of a cloud's metadata, or what only we answer for.
//
// Multicast and broadcast aren't among them: nobody ever answers those, let out or not. Inside of a fence they are dropped.
type NetworkAct struct {
	Name string
	Kind NetworkKind
	// Address and Port are where it goes. An address with ":" takes a socket of IPv6.
	Address string
	Port    uint16
}

// NetworkKind is what is done with the address.
type NetworkKind int

// The kinds.
const (
	// ActConnect connects, and waits for the end of what it connected to.
	ActConnect NetworkKind = iota
	// ActFastOpen connects by sending: MSG_FASTOPEN. ActFastOpenMessage by sendmsg(2).
	ActFastOpen
	ActFastOpenMessage
	// ActFastOpenConnect connects with TCP_FASTOPEN_CONNECT.
	ActFastOpenConnect
	// ActMPTCP connects a socket of MPTCP, which Landlock takes for no TCP.
	ActMPTCP
	// ActSend sends a datagram, ActPing an echo request by a ping socket.
	ActSend
	ActPing
	// ActAsk asks a resolver something that none of ours may answer, and ActAskStream over TCP.
	ActAsk
	ActAskStream
	// ActMeet has a socket of its own at the address of somebody else, and sends to it: where it meets itself, nothing stands between. ActMeetStream
	// over TCP.
	ActMeet
	ActMeetStream
	// ActTakePort takes the port for itself, on any address.
	ActTakePort
	// ActListen listens on a port that the kernel chooses.
	ActListen
	// ActTransparent has a socket take the addresses of others, ActMark a mark for routing, ActLinkDown the loopback away.
	ActTransparent
	ActMark
	ActLinkDown
	// ActNetlink opens a socket that asks for links and routes.
	ActNetlink
)

// Addresses that no rule opens (metadata4, metadata6), in several spellings, and two of documentation, where UDP goes.
const (
	metadata4 = "169.254.169.254"
	metadata6 = "fd00:ec2::254"
	mapped    = "::ffff:169.254.169.254"
	byNAT64   = "64:ff9b::a9fe:a9fe"
	by6to4    = "2002:a9fe:a9fe::1"
	other4    = "192.0.2.1"
	other6    = "2001:db8::1"
)

// NetworkActs are all of them. What each must come to is a plan's to say.
var NetworkActs = []NetworkAct{
	{"tcp", ActConnect, metadata4, 443},
	{"tcp6", ActConnect, metadata6, 443},
	{"metadata", ActConnect, metadata4, 80},
	{"metadata6", ActConnect, metadata6, 80},
	{"metadata, mapped", ActConnect, mapped, 80},
	{"metadata, NAT64", ActConnect, byNAT64, 80},
	{"metadata, 6to4", ActConnect, by6to4, 80},
	{"DNS over TLS", ActConnect, metadata4, 853},
	{"the relay's port", ActConnect, "127.0.0.1", fence.RelayPort},
	{"the relay's port6", ActConnect, "::1", fence.RelayPort},
	{"fast open", ActFastOpen, metadata4, 443},
	{"fast open6", ActFastOpen, metadata6, 443},
	{"fast open, sendmsg", ActFastOpenMessage, metadata4, 443},
	{"fast open, connect", ActFastOpenConnect, metadata4, 443},
	{"mptcp", ActMPTCP, metadata4, 443},
	{"udp", ActSend, other4, 9},
	{"udp6", ActSend, other6, 9},
	{"udp, mapped", ActSend, mapped, 9},
	{"QUIC", ActSend, metadata4, 443},
	{"QUIC6", ActSend, metadata6, 443},
	{"DNS over QUIC", ActSend, other4, 853},
	{"NTP", ActSend, other4, 123},
	{"ping", ActPing, other4, 0},
	{"ping6", ActPing, other6, 0},
	{"another resolver", ActAsk, other4, 53},
	{"another resolver6", ActAsk, other6, 53},
	{"another resolver, tcp", ActAskStream, other4, 53},
	{"another's address", ActMeet, metadata4, 7001},
	{"another's address, tcp", ActMeetStream, metadata4, 7001},
	{"take the relay's port", ActTakePort, "0.0.0.0", fence.RelayPort},
	{"listen", ActListen, "0.0.0.0", 0},
	{"transparent", ActTransparent, "0.0.0.0", 0},
	{"mark", ActMark, "0.0.0.0", 0},
	{"link down", ActLinkDown, "0.0.0.0", 0},
	{"netlink", ActNetlink, "0.0.0.0", 0},
}

// Family is that of its socket.
func (a NetworkAct) Family() int {
	if strings.Contains(a.Address, ":") {
		return unix.AF_INET6
	}
	return unix.AF_INET
}

func (a NetworkAct) local() bool { return a.Address == "127.0.0.1" || a.Address == "::1" }

func (a NetworkAct) translated() bool { return a.Address == byNAT64 || a.Address == by6to4 }

// connects says whether it connects as everybody does, to a port that may have been granted.
func (a NetworkAct) connects() bool {
	return a.Kind == ActConnect || a.Kind == ActFastOpenConnect || a.Kind == ActAskStream
}
