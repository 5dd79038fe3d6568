package main

import (
	"errors"
	"fmt"
	"net/netip"
	"sort"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

var networkActs = []act{
	{"socket", "FAMILY [TYPE PROTOCOL]", "open a socket, by three numbers or one of " + strings.Join(familyNames(), ", "), func(args []string) error {
		f, err := family(args)
		if err != nil {
			return err
		}
		return closing(unix.Socket(f[0], f[1]|unix.SOCK_CLOEXEC, f[2]))
	}},
	{"socketpair", "FAMILY [TYPE PROTOCOL]", "the same for a pair", func(args []string) error {
		f, err := family(args)
		if err != nil {
			return err
		}
		pair, err := unix.Socketpair(f[0], f[1]|unix.SOCK_CLOEXEC, f[2])
		if err != nil {
			return err
		}
		return errors.Join(unix.Close(pair[0]), unix.Close(pair[1]))
	}},
	{"resolve", "NAME [ADDRESS:PORT]", "ask a name server, 9.9.9.9:53 unless given, for an address", func(args []string) error {
		if len(args) == 0 {
			return errors.New("want NAME")
		}
		return onAddress([]string{argument(args, 1, "9.9.9.9:53")}, unix.SOCK_DGRAM, func(fd int, to unix.Sockaddr) error {
			if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 2}); err != nil {
				return err
			}
			if err := unix.Connect(fd, to); err != nil { // as resolvers do, who learn of a refusal that way
				return err
			}
			if _, err := unix.Write(fd, question(args[0])); err != nil {
				return err
			}
			_, err := unix.Read(fd, make([]byte, 512))
			return err
		})
	}},
	{"connect", "ADDRESS:PORT", "TCP connection", func(args []string) error { return onAddress(args, unix.SOCK_STREAM, unix.Connect) }},
	{"bind", "ADDRESS:PORT", "TCP bind", func(args []string) error { return onAddress(args, unix.SOCK_STREAM, unix.Bind) }},
	{"udp", "ADDRESS:PORT", "send a datagram, and hear whether it is refused at once", func(args []string) error {
		return onAddress(args, unix.SOCK_DGRAM, func(fd int, to unix.Sockaddr) error {
			if err := unix.Connect(fd, to); err != nil {
				return err
			}
			if _, err := unix.Write(fd, []byte("probe")); err != nil {
				return err
			}
			if _, _, err := unix.Recvfrom(fd, make([]byte, 512), unix.MSG_DONTWAIT); err != nil && err != unix.EAGAIN {
				return err
			}
			return nil
		})
	}},
	{"fastopen", "ADDRESS:PORT", "connect by sendto(MSG_FASTOPEN), round a filter on connect", func(args []string) error {
		return onAddress(args, unix.SOCK_STREAM, func(fd int, to unix.Sockaddr) error {
			return unix.Sendto(fd, []byte("probe"), unix.MSG_FASTOPEN, to)
		})
	}},
	{"connect-unix", "PATH", "connect to a unix socket; @NAME is an abstract one", func(args []string) error {
		return onPath(args, func(path string) error {
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			return unix.Connect(fd, &unix.SockaddrUnix{Name: path})
		})
	}},
}

// families are domain, type and protocol of socket(2).
var families = map[string][]int{
	"inet":      {unix.AF_INET, unix.SOCK_STREAM, 0},
	"inet6":     {unix.AF_INET6, unix.SOCK_STREAM, 0},
	"udp":       {unix.AF_INET, unix.SOCK_DGRAM, 0},
	"raw":       {unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP},
	"ping":      {unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP},
	"mptcp":     {unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP},
	"packet":    {unix.AF_PACKET, unix.SOCK_RAW, 0},
	"netlink":   {unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE},
	"vsock":     {unix.AF_VSOCK, unix.SOCK_STREAM, 0},
	"alg":       {unix.AF_ALG, unix.SOCK_SEQPACKET, 0},
	"unix":      {unix.AF_UNIX, unix.SOCK_STREAM, 0},
	"bluetooth": {unix.AF_BLUETOOTH, unix.SOCK_SEQPACKET, 0},
	"can":       {unix.AF_CAN, unix.SOCK_RAW, 1},
	"tipc":      {unix.AF_TIPC, unix.SOCK_SEQPACKET, 0},
	"xdp":       {unix.AF_XDP, unix.SOCK_RAW, 0},
	"netfilter": {unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER},
	"audit":     {unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT},
	"kobject":   {unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT},
}

// family reads a name of [families], or the three numbers.
func family(args []string) ([]int, error) {
	if len(args) == 1 && families[args[0]] != nil {
		return families[args[0]], nil
	}
	if len(args) != 3 {
		return nil, fmt.Errorf("want three numbers or one FAMILY of %s", strings.Join(familyNames(), ", "))
	}
	numbers := make([]int, 3)
	for i, text := range args {
		var err error
		if numbers[i], err = strconv.Atoi(text); err != nil {
			return nil, fmt.Errorf("%q is no number", text)
		}
	}
	return numbers, nil
}

// question asks for the IPv4 address of a name (RFC 1035 §4.1).
func question(name string) []byte {
	message := []byte{0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}
	for label := range strings.SplitSeq(name, ".") {
		message = append(append(message, byte(len(label))), label...)
	}
	return append(message, 0, 0, 1, 0, 1)
}

func familyNames() []string {
	var names []string
	for name := range families {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

func onAddress(args []string, kind int, do func(fd int, to unix.Sockaddr) error) error {
	if len(args) != 1 {
		return errors.New("want one ADDRESS:PORT")
	}
	to, err := netip.ParseAddrPort(args[0])
	if err != nil {
		return fmt.Errorf("want a literal ADDRESS:PORT: %w", err)
	}
	family, sockaddr := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()})
	if to.Addr().Is4() {
		family, sockaddr = unix.AF_INET, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}
	}
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return do(fd, sockaddr)
}
