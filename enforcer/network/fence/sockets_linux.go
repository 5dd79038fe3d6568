package fence

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// observeSockets asks each socket what it is, and where it lives.
func (f *Fence) observeSockets(s *State) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return errClosed
	}
	for i, socket := range f.plan.Sockets {
		var inode uint64
		var line string
		var inner error
		err := control(f.files[i], func(fd int) {
			if f.plan.Variant != VariantProxy { // made in the daemon's own namespace, over which it has no rights
				inode, inner = namespaceOf(fd)
			}
			if inner == nil {
				line, inner = socketText(fd, socket)
			}
		})
		if err := errors.Join(err, inner); err != nil {
			return fmt.Errorf("fence: socket %s: %w", socket.Name, err)
		}
		s.Namespaces = append(s.Namespaces, inode)
		s.Sockets = append(s.Sockets, line)
	}
	return nil
}

// namespaceOf is the inode number of a socket's network namespace, by the kernel's word for the socket (SIOCGSKNS). It takes CAP_NET_ADMIN over
// that namespace, which whoever made its user namespace has.
func namespaceOf(fd int) (uint64, error) {
	namespace, err := unix.IoctlRetInt(fd, unix.SIOCGSKNS)
	if err != nil {
		return 0, os.NewSyscallError("SIOCGSKNS", err)
	}
	defer unix.Close(namespace)
	var stat unix.Stat_t
	if err := unix.Fstat(namespace, &stat); err != nil {
		return 0, os.NewSyscallError("fstat", err)
	}
	return stat.Ino, nil
}

// socketText is one socket's line: "names tcp :53 v6only=0". Options are those of the plan. Whether it listens is the daemon's own doing.
func socketText(fd int, s Socket) (string, error) {
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil {
		return "", os.NewSyscallError("SO_TYPE", err)
	}
	domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil {
		return "", os.NewSyscallError("SO_DOMAIN", err)
	}
	protocol, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PROTOCOL)
	if err != nil {
		return "", os.NewSyscallError("SO_PROTOCOL", err)
	}
	line := fmt.Sprintf("%s domain=%d type=%d protocol=%d", s.Name, domain, kind, protocol)
	if domain == unix.AF_NETLINK {
		address, err := unix.Getsockname(fd)
		if err != nil {
			return "", os.NewSyscallError("getsockname", err)
		}
		netlink, ok := address.(*unix.SockaddrNetlink)
		if !ok {
			return "", fmt.Errorf("getsockname: %T of a netlink socket", address)
		}
		return line + groupsText(netlink.Groups), nil
	}
	if kind == unix.SOCK_RAW { // it has no port, and listens to nothing
		return line, nil
	}
	for name, option := range map[string]int{"SO_REUSEADDR": unix.SO_REUSEADDR, "SO_REUSEPORT": unix.SO_REUSEPORT} {
		value, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, option)
		if err != nil {
			return "", os.NewSyscallError(name, err)
		}
		if value != 0 && !slices.Contains(s.Options, Option{unix.SOL_SOCKET, option, value}) {
			line += " " + name
		}
	}
	for _, option := range s.Options {
		value, err := unix.GetsockoptInt(fd, option.Level, option.Name)
		if err != nil {
			return "", fmt.Errorf("option %d of level %d: %w", option.Name, option.Level, err)
		}
		line += fmt.Sprintf(" %d.%d=%d", option.Level, option.Name, value)
	}
	at, err := boundTo(fd)
	if err != nil {
		return "", err
	}
	return line + " " + at, nil
}

func boundTo(fd int) (string, error) {
	address, err := unix.Getsockname(fd)
	if err != nil {
		return "", os.NewSyscallError("getsockname", err)
	}
	return addrPort(address).String(), nil
}

func addrPort(address unix.Sockaddr) netip.AddrPort {
	switch a := address.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr), uint16(a.Port))
	}
	return netip.AddrPort{}
}

// Destination is where the other end of a connection wanted to, in a fence of [AnyIP]: with tproxy it is the socket's own address.
func Destination(conn *net.TCPConn) (netip.AddrPort, error) {
	local, ok := conn.LocalAddr().(*net.TCPAddr)
	if !ok || !local.AddrPort().IsValid() {
		return netip.AddrPort{}, errors.New("fence: a connection without an address")
	}
	at := local.AddrPort()
	return netip.AddrPortFrom(at.Addr().Unmap().WithZone(""), at.Port()), nil
}

// originalDestination is SO_ORIGINAL_DST and IP6T_SO_ORIGINAL_DST.
const originalDestination = 80

// OriginalDestination is where the other end of a connection wanted to, in a fence of [Pod]: connection tracking remembers it.
func OriginalDestination(conn *net.TCPConn) (at netip.AddrPort, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return at, err
	}
	local, ok := conn.LocalAddr().(*net.TCPAddr)
	if !ok {
		return at, errors.New("fence: a connection without an address")
	}
	var inner error
	err = raw.Control(func(fd uintptr) {
		// Options of other names whose values are long enough for a struct sockaddr_in and a struct sockaddr_in6.
		if local.IP.To4() != nil {
			var value *unix.IPv6Mreq
			if value, inner = unix.GetsockoptIPv6Mreq(int(fd), unix.SOL_IP, originalDestination); inner == nil {
				at = netip.AddrPortFrom(netip.AddrFrom4([4]byte(value.Multiaddr[4:8])), binary.BigEndian.Uint16(value.Multiaddr[2:]))
			}
			return
		}
		var value *unix.IPv6MTUInfo
		if value, inner = unix.GetsockoptIPv6MTUInfo(int(fd), unix.SOL_IPV6, originalDestination); inner == nil {
			at = netip.AddrPortFrom(netip.AddrFrom16(value.Addr.Addr).Unmap(), binary.BigEndian.Uint16(native.AppendUint16(nil, value.Addr.Port)))
		}
	})
	if err := errors.Join(err, inner); err != nil {
		return netip.AddrPort{}, fmt.Errorf("fence: SO_ORIGINAL_DST: %w", err)
	}
	return at, nil
}
