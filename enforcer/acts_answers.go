package enforcer

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer/landlock"
)

// AskedRefused is the answer of our resolver to what it never answers; no errno is called so.
const AskedRefused = "REFUSED"

// answers are those of a network to each family of kinds. None is a time-out: what may not go out is told so at once.
type answers struct {
	// stream is a connection, translated one to an address that stands for another (none: as stream), local one to the relay's port on the loopback, message one
	// by MSG_FASTOPEN, mptcp one of MPTCP.
	stream, translated, local, message, mptcp []string
	// datagram is one, meet one to oneself at the address of another.
	datagram, meet   []string
	ask, askStream   []string
	meetStream, take []string
	listen           []string
	ping, netlink    []string
	// device is what takes a capability over the namespace, on a datagram's socket; option on a stream's.
	device, option []string
}

// networkAnswers are the answers by what holds the network, where Landlock doesn't hold it.
//
// What the acts connect to no rule opens, so the kernel refuses it before anybody accepts. What comes to the relay's own port, or to a translated address of a
// range that a rule names, is accepted first, since the kernel asks nobody before it answers: it ends with a reset. In a kept sandbox whose network lets
// something out, an exec that may not is held by the same relay and resolver, which know its rules besides: there NetworkFence has two answers that are right.
var networkAnswers = map[string]answers{
	NetworkNone: {
		stream: errnos(unix.ENETUNREACH), local: errnos(unix.ECONNREFUSED), message: errnos(unix.ENETUNREACH), mptcp: errnos(unix.EPROTONOSUPPORT, unix.ENETUNREACH),
		datagram: errnos(unix.ENETUNREACH), meet: errnos(unix.EADDRNOTAVAIL),
		ask: errnos(unix.ENETUNREACH), askStream: errnos(unix.ENETUNREACH), meetStream: errnos(unix.EADDRNOTAVAIL),
		ping: errnos(unix.EACCES, unix.ENETUNREACH), device: errnos(unix.EPERM), option: errnos(unix.EPERM),
	},
	NetworkFence: {
		stream: errnos(unix.ECONNREFUSED), translated: errnos(unix.ECONNREFUSED, unix.ECONNRESET), local: errnos(unix.ECONNREFUSED, unix.ECONNRESET),
		message: errnos(unix.ECONNREFUSED), mptcp: errnos(unix.EPROTONOSUPPORT, unix.ECONNREFUSED),
		datagram: errnos(unix.ECONNREFUSED), meet: errnos(unix.ECONNREFUSED),
		ask: append(errnos(unix.ECONNREFUSED), AskedRefused), askStream: append(errnos(unix.ECONNREFUSED), AskedRefused),
		meetStream: errnos(unix.ECONNREFUSED), take: errnos(unix.EADDRINUSE),
		ping: errnos(unix.EACCES, unix.ECONNREFUSED), device: errnos(unix.EPERM), option: errnos(unix.EPERM),
	},
	NetworkRelay: {
		stream: errnos(unix.ECONNREFUSED), translated: errnos(unix.ECONNREFUSED, unix.ECONNRESET), local: errnos(unix.ECONNRESET),
		message: errnos(unix.ECONNREFUSED), mptcp: errnos(unix.EPROTONOSUPPORT, unix.ECONNREFUSED),
		datagram: errnos(unix.ECONNREFUSED), meet: errnos(unix.ECONNREFUSED),
		ask: []string{AskedRefused}, askStream: []string{AskedRefused}, meetStream: errnos(unix.ECONNREFUSED), take: errnos(unix.EADDRINUSE),
		ping: errnos(unix.EACCES, unix.ECONNREFUSED), device: errnos(unix.EPERM), option: errnos(unix.EPERM),
	},
	NetworkFilter: {
		stream: noFamily, local: noFamily, message: noFamily, mptcp: noFamily, datagram: noFamily, meet: noFamily, ask: noFamily, askStream: noFamily,
		meetStream: noFamily, take: noFamily, listen: noFamily, ping: noFamily, netlink: noFamily, device: noFamily, option: noFamily,
	},
	NetworkProxy: {
		stream: denied, local: denied, message: errnos(unix.EOPNOTSUPP), mptcp: noFamily, datagram: noFamily, meet: noFamily, ask: noFamily, askStream: denied,
		meetStream: denied, take: denied, listen: denied, ping: noFamily, netlink: noFamily, device: noFamily, option: errnos(unix.EPERM),
	},
}

// podAnswers are those of NetworkRelay where the fence is one by uid in a container's own namespace: it refuses before anything leaves, and what listens on the
// loopback there is the container's own to reach, but for the daemon's ports.
var podAnswers = answers{
	stream: errnos(unix.ECONNRESET, unix.ECONNREFUSED, unix.ENETUNREACH), local: errnos(unix.ECONNREFUSED), message: errnos(unix.ECONNRESET, unix.ECONNREFUSED, unix.ENETUNREACH),
	mptcp:    errnos(unix.EPROTONOSUPPORT, unix.ECONNRESET, unix.ECONNREFUSED, unix.ENETUNREACH),
	datagram: errnos(unix.EPERM, unix.ENETUNREACH), meet: errnos(unix.EADDRNOTAVAIL),
	ask: append(errnos(unix.ECONNREFUSED, unix.ENETUNREACH), AskedRefused), askStream: append(errnos(unix.ECONNREFUSED, unix.ENETUNREACH), AskedRefused),
	meetStream: errnos(unix.EADDRNOTAVAIL), take: errnos(unix.EADDRINUSE), ping: errnos(unix.EACCES, unix.EPERM, unix.ENETUNREACH), device: errnos(unix.EPERM), option: errnos(unix.EPERM),
}

var noFamily, denied = errnos(unix.EAFNOSUPPORT), errnos(unix.EACCES)

func errnos(list ...unix.Errno) []string {
	var names []string
	for _, errno := range list {
		names = append(names, unix.ErrnoName(errno))
	}
	return names
}

// landlocked are the answers where Landlock is asked first.
func (a answers) landlocked(net uint64) answers {
	if net&unix.LANDLOCK_ACCESS_NET_CONNECT_TCP != 0 {
		a.stream, a.translated, a.local, a.askStream = denied, denied, denied, denied
		a.message = append(slices.Clone(a.message), denied...) // kernels differ in whether Landlock is asked
	}
	if net&unix.LANDLOCK_ACCESS_NET_BIND_TCP != 0 {
		a.meetStream, a.take = denied, denied
	}
	if net&unix.LANDLOCK_ACCESS_NET_CONNECT_SEND_UDP != 0 {
		a.datagram, a.ask = denied, denied
	}
	if net&unix.LANDLOCK_ACCESS_NET_BIND_UDP != 0 {
		a.meet = denied
	}
	return a
}

// of is the answer to one act; none: the plan doesn't forbid it.
func (a answers) of(act NetworkAct) []string {
	switch act.Kind {
	case ActConnect, ActFastOpenConnect:
		if act.local() {
			return a.local
		}
		if act.translated() && len(a.translated) > 0 {
			return a.translated
		}
		return a.stream
	case ActFastOpen, ActFastOpenMessage:
		return a.message
	case ActMPTCP:
		return a.mptcp
	case ActSend:
		return a.datagram
	case ActPing:
		return a.ping
	case ActAsk:
		return a.ask
	case ActAskStream:
		return a.askStream
	case ActMeet:
		return a.meet
	case ActMeetStream:
		return a.meetStream
	case ActTakePort:
		return a.take
	case ActListen:
		return a.listen
	case ActNetlink:
		return a.netlink
	case ActLinkDown:
		return a.device
	default:
		return a.option
	}
}

// networkActs are those that a plan forbids, with its own answers.
func networkActs(p Plan) []Act {
	by, known := networkAnswers[p.Network]
	if !known {
		return nil
	}
	if p.Attached && p.Network == NetworkRelay {
		by = podAnswers
	}
	if p.Network != NetworkFilter && p.Network != NetworkProxy { // theirs have Landlock's in them
		by = by.landlocked(p.Landlock.HandledNet)
	}
	var acts []Act
	for _, act := range NetworkActs {
		want := by.of(act)
		granted := act.connects() && slices.ContainsFunc(p.Landlock.Ports, func(rule landlock.PortRule) bool { return rule.Port == act.Port })
		if len(want) == 0 || granted {
			continue
		}
		if act.Family() == unix.AF_INET6 {
			want = append(slices.Clone(want), noFamily...) // a kernel without IPv6
		}
		acts = append(acts, Act{Name: "network." + act.Name, Want: want})
	}
	return acts
}

// NetworkActOf finds the act of that name, "network." left off.
func NetworkActOf(name string) (NetworkAct, bool) {
	i := slices.IndexFunc(NetworkActs, func(a NetworkAct) bool { return a.Name == name })
	if i < 0 {
		return NetworkAct{}, false
	}
	return NetworkActs[i], true
}
