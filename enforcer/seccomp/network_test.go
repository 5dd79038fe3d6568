package seccomp

import (
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

// TestNetworkRules: what each of the two leaves, on both architectures, call by call.
func TestNetworkRules(t *testing.T) {
	const (
		allowed  = syscall.Errno(0)
		family   = syscall.EAFNOSUPPORT
		flags    = 0o2000000 | 0o4000 // SOCK_CLOEXEC, SOCK_NONBLOCK
		mptcp    = 262
		fastOpen = 0x20000000
		high     = 1 << 32
	)
	for _, row := range []struct {
		name, call             string
		args                   [6]uint64
		noSockets, clientsOnly syscall.Errno
	}{
		{"unix", "socket", [6]uint64{afUnix, sockStream | flags}, allowed, allowed},
		{"unix datagram", "socket", [6]uint64{afUnix, sockDgram}, allowed, allowed},
		{"unix pair", "socketpair", [6]uint64{afUnix, sockStream}, allowed, allowed},
		{"tcp", "socket", [6]uint64{afInet, sockStream | flags, 0}, family, allowed},
		{"tcp by number", "socket", [6]uint64{afInet, sockStream, syscall.IPPROTO_TCP}, family, allowed},
		{"tcp6", "socket", [6]uint64{afInet6, sockStream | flags}, family, allowed},
		{"tcp, high bits", "socket", [6]uint64{high | afInet, high | sockStream}, family, allowed},
		{"udp", "socket", [6]uint64{afInet, sockDgram | flags}, family, family},
		{"udp6", "socket", [6]uint64{afInet6, sockDgram}, family, family},
		{"udp, high bits", "socket", [6]uint64{high | afInet, high | sockDgram}, family, family},
		{"ping", "socket", [6]uint64{afInet, sockDgram, syscall.IPPROTO_ICMP}, family, family},
		{"raw", "socket", [6]uint64{afInet, 3, syscall.IPPROTO_ICMP}, family, family},
		{"mptcp", "socket", [6]uint64{afInet, sockStream, mptcp}, family, family},
		{"mptcp6, high bits", "socket", [6]uint64{afInet6, sockStream, high | mptcp}, family, family},
		{"sctp", "socket", [6]uint64{afInet, sockStream, 132}, family, family},
		{"netlink", "socket", [6]uint64{afNetlink, 3, 0}, family, family},
		{"vsock", "socket", [6]uint64{40, sockStream}, family, family},
		{"packet", "socket", [6]uint64{17, 3}, family, family},
		{"smc", "socket", [6]uint64{43, sockStream}, family, family},
		{"inet pair", "socketpair", [6]uint64{afInet, sockStream}, family, family},
		{"sendto", "sendto", [6]uint64{3, 0, 0, 0x4000}, allowed, allowed},
		{"sendto, fast open", "sendto", [6]uint64{3, 0, 0, fastOpen | 0x4000}, allowed, syscall.EOPNOTSUPP},
		{"sendto, fast open, high bits", "sendto", [6]uint64{3, 0, 0, high | fastOpen}, allowed, syscall.EOPNOTSUPP},
		{"sendmsg, fast open", "sendmsg", [6]uint64{3, 0, fastOpen}, allowed, syscall.EOPNOTSUPP},
		{"sendmmsg, fast open", "sendmmsg", [6]uint64{3, 0, 0, fastOpen}, allowed, syscall.EOPNOTSUPP},
		{"listen", "listen", [6]uint64{3, 1}, allowed, syscall.EACCES},
		{"io_uring", "io_uring_setup", [6]uint64{}, syscall.ENOSYS, syscall.ENOSYS},
		{"connect", "connect", [6]uint64{3}, allowed, allowed},
	} {
		for _, arch := range []string{"amd64", "arm64"} {
			for name, side := range map[string]struct {
				rules []Rule
				want  syscall.Errno
			}{"no sockets": {NoSockets(), row.noSockets}, "clients only": {ClientsOnly(), row.clientsOnly}} {
				program, err := Compile(mustDefault(t, arch), arch, side.rules...)
				if err != nil {
					t.Fatal(err)
				}
				nr, _ := Number(arch, row.call)
				action := Action(program.Run(AuditArch(arch), uint64(nr), row.args))
				got, fails := action.Errno()
				if fails != (side.want != 0) || fails && got != side.want {
					t.Errorf("%s, %s, %s: %v, want %v", arch, name, row.name, action, side.want)
				}
			}
		}
	}
}

// TestNetworkRulesTighten: with them a filter allows nothing that it doesn't allow without.
func TestNetworkRulesTighten(t *testing.T) {
	const arch = "amd64"
	for name, rules := range map[string][]Rule{"no sockets": NoSockets(), "clients only": ClientsOnly()} {
		for profile, p := range map[string]Profile{"default": mustDefault(t, arch), "allow all": {Default: Allow}} {
			p.Kernel = "6.18.0"
			wide, err := Compile(p, arch)
			if err != nil {
				t.Fatal(err)
			}
			tight, err := Compile(p, arch, rules...)
			if err != nil {
				t.Fatal(err)
			}
			rapid.Check(t, func(t *rapid.T) {
				var args [6]uint64
				for i := range args {
					args[i] = rapid.OneOf(rapid.Uint64Range(0, 48), rapid.Uint64()).Draw(t, "arg")
				}
				for nr := range 500 {
					if tight.Allows(arch, nr, args) && !wide.Allows(arch, nr, args) {
						t.Fatalf("%s under %s: %s%v is allowed with them alone", name, profile, Name(arch, nr), args)
					}
				}
			})
		}
	}
}
