package runner

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer"
)

// probePatience bounds how long an act waits for its answer, and all of them together. What holds answers at once; silence is an answer too, and the
// wrong one.
const (
	probePatience = time.Second
	allPatience   = 4 * time.Second
	leastPatience = 20 * time.Millisecond
)

// waited is how long all acts of this process have waited for nothing.
var waited time.Duration

var errSilence = errors.New("no answer")

// tryNetwork makes one attempt to get out. An act that was let through answers nil.
func tryNetwork(name string) error {
	act, known := enforcer.NetworkActOf(name)
	if !known {
		return errUnknownAct
	}
	switch act.Kind {
	case enforcer.ActConnect, enforcer.ActFastOpenConnect, enforcer.ActFastOpen, enforcer.ActFastOpenMessage:
		return withSocket(act, unix.SOCK_STREAM, 0, func(fd int) error {
			if err := connectBy(act, fd); err != nil {
				return err
			}
			return cutOff(fd)
		})
	case enforcer.ActMPTCP:
		return withSocket(act, unix.SOCK_STREAM, unix.IPPROTO_MPTCP, func(fd int) error {
			if err := connectBy(act, fd); err != nil {
				return err
			}
			return cutOff(fd)
		})
	case enforcer.ActSend:
		return withSocket(act, unix.SOCK_DGRAM, 0, func(fd int) error { return exchange(act, fd, []byte{0}, nil) })
	case enforcer.ActPing:
		protocol, echo := unix.IPPROTO_ICMP, byte(8)
		if act.Family() == unix.AF_INET6 {
			protocol, echo = unix.IPPROTO_ICMPV6, 128
		}
		return withSocket(act, unix.SOCK_DGRAM, protocol, func(fd int) error { return exchange(act, fd, []byte{echo, 0, 0, 0, 0, 0, 0, 1}, nil) })
	case enforcer.ActAsk:
		return withSocket(act, unix.SOCK_DGRAM, 0, func(fd int) error { return exchange(act, fd, question, refusedAnswer) })
	case enforcer.ActAskStream:
		return withSocket(act, unix.SOCK_STREAM, 0, func(fd int) error { return askStream(act, fd) })
	case enforcer.ActMeet:
		return withSocket(act, unix.SOCK_DGRAM, 0, func(fd int) error { return meet(act, fd) })
	case enforcer.ActMeetStream:
		return withSocket(act, unix.SOCK_STREAM, 0, func(fd int) error { return meetStream(act, fd) })
	case enforcer.ActTakePort:
		return withSocket(act, unix.SOCK_STREAM, 0, func(fd int) error {
			for _, option := range []int{unix.SO_REUSEADDR, unix.SO_REUSEPORT} {
				if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, 1); err != nil {
					return err
				}
			}
			return unix.Bind(fd, at(act))
		})
	case enforcer.ActListen:
		return withSocket(act, unix.SOCK_STREAM, 0, func(fd int) error { return unix.Listen(fd, 1) })
	case enforcer.ActTransparent:
		return withSocket(act, unix.SOCK_STREAM, 0, func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_TRANSPARENT, 1) })
	case enforcer.ActMark:
		return withSocket(act, unix.SOCK_STREAM, 0, func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, 1) })
	case enforcer.ActLinkDown:
		return withSocket(act, unix.SOCK_DGRAM, 0, linkDown)
	case enforcer.ActNetlink:
		fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}
	return errUnknownAct
}

func withSocket(act enforcer.NetworkAct, kind, protocol int, do func(fd int) error) error {
	fd, err := unix.Socket(act.Family(), kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return do(fd)
}

// at is where an act goes.
func at(act enforcer.NetworkAct) unix.Sockaddr {
	address := netip.MustParseAddr(act.Address)
	if act.Family() == unix.AF_INET6 {
		return &unix.SockaddrInet6{Addr: address.As16(), Port: int(act.Port)}
	}
	return &unix.SockaddrInet4{Addr: address.As4(), Port: int(act.Port)}
}

// connectBy begins a connection the act's way. Begun is no answer yet.
func connectBy(act enforcer.NetworkAct, fd int) error {
	hello := []byte("GET / HTTP/1.0\r\n\r\n")
	var err error
	switch act.Kind {
	case enforcer.ActFastOpen:
		err = unix.Sendto(fd, hello, unix.MSG_FASTOPEN|unix.MSG_NOSIGNAL, at(act))
	case enforcer.ActFastOpenMessage:
		err = unix.Sendmsg(fd, hello, nil, at(act), unix.MSG_FASTOPEN|unix.MSG_NOSIGNAL)
	case enforcer.ActFastOpenConnect:
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_FASTOPEN_CONNECT, 1); err != nil {
			return err
		}
		if err = unix.Connect(fd, at(act)); err == nil { // nothing is sent before there is something to send
			err = unix.Send(fd, hello, unix.MSG_NOSIGNAL)
		}
	default:
		err = unix.Connect(fd, at(act))
	}
	if errors.Is(err, unix.EINPROGRESS) {
		return nil
	}
	return err
}

// cutOff waits for the end of a connection that was begun: the errno that it ends with, or nil when it lives, or ends in order.
func cutOff(fd int) error {
	if err := wait(fd, unix.POLLOUT); err != nil {
		return err
	}
	if err := pending(fd); err != nil {
		return err
	}
	// It is accepted. Who refuses it now resets it; a server would wait for more, or answer.
	if err := wait(fd, unix.POLLIN); err != nil {
		return err
	}
	_, err := unix.Read(fd, make([]byte, 1))
	return err
}

// pending is the error that a socket has waiting.
func pending(fd int) error {
	errno, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && errno != 0 {
		return unix.Errno(errno)
	}
	return err
}

// wait waits for an event, or an error, on a socket.
func wait(fd int, events int16) error {
	patience := max(min(probePatience, allPatience-waited), leastPatience)
	deadline := time.Now().Add(patience)
	for {
		left := time.Until(deadline)
		if left <= 0 {
			waited += patience
			return errSilence
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: events}}, int(left.Milliseconds())+1)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return err
		case n > 0:
			return nil
		}
	}
}

// exchange connects a datagram socket, so that a refusal is told to it, sends, and waits for what comes. read says what an answer means.
func exchange(act enforcer.NetworkAct, fd int, message []byte, read func([]byte) error) error {
	if err := unix.Connect(fd, at(act)); err != nil {
		return err
	}
	if err := unix.Send(fd, message, unix.MSG_NOSIGNAL); err != nil {
		return err
	}
	if err := wait(fd, unix.POLLIN); err != nil {
		return err
	}
	buffer := make([]byte, 512)
	n, err := unix.Read(fd, buffer)
	if err != nil || read == nil {
		return err
	}
	return read(buffer[:n])
}

// question is for the text of probe.invalid, a kind of record that is answered for no name.
var question = append([]byte{0x5a, 0x5a, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}, "\x05probe\x07invalid\x00\x00\x10\x00\x01"...)

// refusedAnswer says whether a resolver's answer is the one that ours gives.
func refusedAnswer(answer []byte) error {
	const refused = 5
	if len(answer) > 3 && answer[3]&0xf == refused {
		return errors.New(enforcer.AskedRefused)
	}
	return nil
}

func askStream(act enforcer.NetworkAct, fd int) error {
	if err := unix.Connect(fd, at(act)); err != nil && !errors.Is(err, unix.EINPROGRESS) {
		return err
	}
	if err := wait(fd, unix.POLLOUT); err != nil {
		return err
	}
	if err := pending(fd); err != nil {
		return err
	}
	framed := append(binary.BigEndian.AppendUint16(nil, uint16(len(question))), question...)
	if err := unix.Send(fd, framed, unix.MSG_NOSIGNAL); err != nil {
		return err
	}
	if err := wait(fd, unix.POLLIN); err != nil {
		return err
	}
	buffer := make([]byte, 512)
	n, err := unix.Read(fd, buffer)
	if err != nil {
		return err
	}
	return refusedAnswer(buffer[min(2, n):n])
}

// meet has a datagram come back to a socket at somebody else's address.
func meet(act enforcer.NetworkAct, fd int) error {
	if err := unix.Bind(fd, at(act)); err != nil {
		return err
	}
	return withSocket(act, unix.SOCK_DGRAM, 0, func(sender int) error {
		if err := unix.Connect(sender, at(act)); err != nil {
			return err
		}
		if err := unix.Send(sender, []byte{0}, unix.MSG_NOSIGNAL); err != nil {
			return err
		}
		if err := wait(sender, unix.POLLIN); !errors.Is(err, errSilence) {
			return errors.Join(err, pending(sender))
		}
		_, err := unix.Read(fd, make([]byte, 1))
		return err // nil: it has met itself
	})
}

// meetStream has a connection come back to a listener at somebody else's address.
func meetStream(act enforcer.NetworkAct, fd int) error {
	if err := unix.Bind(fd, at(act)); err != nil {
		return err
	}
	if err := unix.Listen(fd, 1); err != nil {
		return err
	}
	return withSocket(act, unix.SOCK_STREAM, 0, func(client int) error {
		if err := connectBy(enforcer.NetworkAct{Address: act.Address, Port: act.Port}, client); err != nil {
			return err
		}
		if accepted, _, err := unix.Accept4(fd, unix.SOCK_CLOEXEC); err == nil {
			unix.Close(accepted)
			return nil
		}
		return cutOff(client)
	})
}

// linkDown takes the loopback down.
func linkDown(fd int) error {
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(0)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
}
