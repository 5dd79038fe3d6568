package fence

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// Open is socket(2), in the namespace that the fence is for. The descriptor must be close-on-exec.
type Open func(domain, kind, protocol int) (int, error)

// Here opens in the network namespace of the calling thread.
func Here(domain, kind, protocol int) (int, error) {
	return unix.Socket(domain, kind|unix.SOCK_CLOEXEC, protocol)
}

// Apply makes the fence and answers the descriptors of its sockets, in the plan's order. They are the caller's. On an error there are none, and what
// was made in the namespace until then closes more than it opens.
func Apply(p Plan, open Open) (fds []int, err error) {
	defer func() {
		if err != nil {
			closeAll(fds)
			fds = nil
		}
	}()
	for _, s := range p.Sockets {
		fd, err := open(s.Domain, s.Type, s.Protocol)
		if err != nil {
			return fds, fmt.Errorf("fence: socket %s: %w", s.Name, err)
		}
		fds = append(fds, fd)
		if s.Domain == unix.AF_NETLINK { // who has no port is told nothing
			if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
				return fds, fmt.Errorf("fence: socket %s: bind: %w", s.Name, err)
			}
		}
	}
	if p.Variant != VariantProxy {
		if err := send(p, fds); err != nil {
			return fds, err
		}
	}
	for i, s := range p.Sockets {
		for _, option := range s.Options {
			if err := unix.SetsockoptInt(fds[i], option.Level, option.Name, option.Value); err != nil {
				return fds, fmt.Errorf("fence: socket %s: option %d of level %d: %w", s.Name, option.Name, option.Level, err)
			}
		}
		if s.Type == unix.SOCK_STREAM && s.Address != "" {
			if err := s.bind(fds[i]); err != nil {
				return fds, err
			}
		}
	}
	return fds, nil
}

// send sends what the plan has for the kernel.
func send(p Plan, fds []int) error {
	for _, request := range p.Route {
		if err := ask(fds[p.socket(socketRoute)], request); err != nil {
			return fmt.Errorf("fence: rtnetlink: %s: %w", routeRequest(request), err)
		}
	}
	netfilter := p.Netfilter
	if p.Variant == VariantPod {
		netfilter = replacing(netfilter)
	}
	if err := ask(fds[p.socket(socketNetfilter)], netfilter); err != nil {
		return fmt.Errorf("fence: nf_tables: %w", err)
	}
	return nil
}

// replacing has a transaction take our table away first, where one is there: that of a daemon that died, or one that somebody has changed. To delete what
// isn't there would be an error, so it is made before; a table that lost its owner becomes ours with that. Nothing comes between, so that there is no
// moment without rules.
func replacing(transaction []byte) []byte {
	length := func(at int) int { return (int(native.Uint32(transaction[at:])) + 3) &^ 3 }
	begin := length(0)
	table := transaction[begin : begin+length(begin)]
	return slices.Concat(transaction[:begin], table, deleteTable(), transaction[begin:])
}

// routeRequest names a request for an error.
func routeRequest(request []byte) string {
	switch native.Uint16(request[4:]) {
	case unix.RTM_NEWLINK:
		return "loopback up"
	case unix.RTM_NEWADDR:
		return "own address"
	}
	return "local route"
}

func (s Socket) bind(fd int) error {
	at, err := netip.ParseAddrPort(s.Address)
	if err != nil {
		return fmt.Errorf("fence: socket %s: %w", s.Name, err)
	}
	var address unix.Sockaddr
	if s.Domain == unix.AF_INET6 {
		address = &unix.SockaddrInet6{Port: int(at.Port()), Addr: at.Addr().As16()}
	} else {
		address = &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}
	}
	if err := unix.Bind(fd, address); err != nil {
		return fmt.Errorf("fence: socket %s: bind %s: %w", s.Name, s.Address, err)
	}
	return nil
}

// ask sends requests in one datagram and hears the answers to it. The kernel has acted and answered when sendto(2) returns.
func ask(fd int, requests []byte) error {
	requests = slices.Clone(requests)
	sequence, wanted := uint32(0), uint32(0)
	for at := 0; at+unix.SizeofNlMsghdr <= len(requests); {
		sequence++
		native.PutUint32(requests[at+8:], sequence)
		if native.Uint16(requests[at+6:])&unix.NLM_F_ACK != 0 {
			wanted = sequence
		}
		at += int(native.Uint32(requests[at:])+3) &^ 3
	}
	if err := unix.Sendto(fd, requests, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return os.NewSyscallError("sendto", err)
	}
	buffer, acknowledged := make([]byte, 8<<10), false
	var refused error
	for {
		n, _, err := unix.Recvfrom(fd, buffer, unix.MSG_DONTWAIT)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if errors.Is(err, unix.EAGAIN) {
			break
		}
		if err != nil {
			return os.NewSyscallError("recvfrom", err)
		}
		for _, answer := range messages(buffer[:n]) {
			if answer.kind != unix.NLMSG_ERROR || len(answer.body) < 4 {
				continue
			}
			if number := int32(native.Uint32(answer.body)); number != 0 && refused == nil {
				refused = fmt.Errorf("message %d: %w", answer.sequence, unix.Errno(-number))
			}
			acknowledged = acknowledged || answer.sequence == wanted
		}
	}
	if refused == nil && !acknowledged {
		return errors.New("no acknowledgement")
	}
	return refused
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}
