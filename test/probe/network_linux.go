package main

import (
	"errors"
	"fmt"
	"net/netip"
	"sort"
	"strings"

	"golang.org/x/sys/unix"
)

var networkActs = []act{
	{"socket", "FAMILY", "open a socket: " + strings.Join(familyNames(), ", "), func(args []string) error {
		if len(args) != 1 || families[args[0]] == nil {
			return fmt.Errorf("want one FAMILY of %s", strings.Join(familyNames(), ", "))
		}
		f := families[args[0]]
		return closing(unix.Socket(f[0], f[1]|unix.SOCK_CLOEXEC, f[2]))
	}},
	{"connect", "ADDRESS:PORT", "TCP connection", func(args []string) error { return onAddress(args, unix.SOCK_STREAM, unix.Connect) }},
	{"bind", "ADDRESS:PORT", "TCP bind", func(args []string) error { return onAddress(args, unix.SOCK_STREAM, unix.Bind) }},
	{"udp", "ADDRESS:PORT", "send a datagram", func(args []string) error {
		return onAddress(args, unix.SOCK_DGRAM, func(fd int, to unix.Sockaddr) error { return unix.Sendto(fd, []byte("probe"), 0, to) })
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
