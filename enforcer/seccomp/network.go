package seccomp

import "syscall"

// What a filter refuses where nothing else stands between a process and the machine's own network: no namespace, no fence. Arguments are all that a
// filter sees, so these rules know families, types and flags, and no address.

// msgFastOpen is MSG_FASTOPEN: a connection without connect(2), which Landlock isn't asked about.
const msgFastOpen = 0x20000000

// NoSockets refuses every socket but local ones (AF_UNIX).
func NoSockets() []Rule {
	return []Rule{{Action: Errno(syscall.EAFNOSUPPORT), Calls: []string{"socket", "socketpair"}, Tests: []Test{{Op: NotEqual, Mask: low, Value: afUnix}}}}
}

// ClientsOnly refuses every socket but local ones and clients of plain TCP, whose connect(2) Landlock judges. Each rule closes a way around that
// judgement: Landlock knows bind and connect of TCP, and nothing of the rest.
func ClientsOnly() []Rule {
	refused := Errno(syscall.EAFNOSUPPORT)
	rules := []Rule{
		{Action: refused, Calls: []string{"socket"}, Tests: []Test{
			{Op: NotEqual, Mask: low, Value: afUnix}, {Op: NotEqual, Mask: low, Value: afInet}, {Op: NotEqual, Mask: low, Value: afInet6},
		}},
		{Action: refused, Calls: []string{"socketpair"}, Tests: []Test{{Op: NotEqual, Mask: low, Value: afUnix}}},
		// A socket that was never bound listens on a port that the kernel chooses. Servers of AF_UNIX go with it: the call doesn't say of which family its
		// descriptor is.
		{Action: Errno(syscall.EACCES), Calls: []string{"listen"}},
	}
	for _, family := range [...]uint64{afInet, afInet6} {
		rules = append(rules,
			// UDP, ping, raw. The type's upper bits are SOCK_CLOEXEC and SOCK_NONBLOCK.
			Rule{Action: refused, Calls: []string{"socket"}, Tests: []Test{
				{Op: Equal, Mask: low, Value: family}, {Arg: 1, Op: NotEqual, Mask: typeMask, Value: sockStream},
			}},
			// MPTCP, SCTP and SMC are streams too, and none is TCP to Landlock.
			Rule{Action: refused, Calls: []string{"socket"}, Tests: []Test{
				{Op: Equal, Mask: low, Value: family}, {Arg: 2, Op: NotEqual, Mask: low, Value: 0}, {Arg: 2, Op: NotEqual, Mask: low, Value: syscall.IPPROTO_TCP},
			}},
		)
	}
	for _, flags := range [...]struct {
		call string
		arg  uint8
	}{{"sendto", 3}, {"sendmsg", 2}, {"sendmmsg", 3}} {
		rules = append(rules, Rule{
			Action: Errno(syscall.EOPNOTSUPP), Calls: []string{flags.call}, Tests: []Test{{Arg: flags.arg, Op: NotEqual, Mask: msgFastOpen, Value: 0}},
		})
	}
	return rules
}
