package relay

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/test/kerneltest"
)

// inNamespace calls f on a thread with a network namespace of its own, in which every address is local. The thread ends with f.
func inNamespace(t *testing.T, f func()) {
	t.Helper()
	failed := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread isn't used again
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			err = everyAddressLocal()
		}
		if err == nil {
			f()
		}
		failed <- err
	}()
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
}

// everyAddressLocal sets lo up and adds "local 0.0.0.0/0 dev lo" and "local ::/0 dev lo".
func everyAddressLocal() error {
	s, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	const lo = 1
	link := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(link[4:], lo)
	binary.NativeEndian.PutUint32(link[8:], unix.IFF_UP)
	binary.NativeEndian.PutUint32(link[12:], unix.IFF_UP)
	device := binary.NativeEndian.AppendUint32([]byte{8, 0, unix.RTA_OIF, 0}, lo)
	route := func(family byte) []byte {
		return append([]byte{family, 0, 0, 0, unix.RT_TABLE_LOCAL, unix.RTPROT_STATIC, unix.RT_SCOPE_HOST, unix.RTN_LOCAL, 0, 0, 0, 0}, device...)
	}
	for _, message := range []struct {
		kind uint16
		body []byte
	}{{unix.RTM_NEWLINK, link}, {unix.RTM_NEWROUTE, route(unix.AF_INET)}, {unix.RTM_NEWROUTE, route(unix.AF_INET6)}} {
		b := binary.NativeEndian.AppendUint32(nil, uint32(unix.NLMSG_HDRLEN+len(message.body)))
		b = binary.NativeEndian.AppendUint16(b, message.kind)
		b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST|unix.NLM_F_ACK|unix.NLM_F_CREATE)
		b = append(append(b, make([]byte, 8)...), message.body...)
		if err := unix.Sendto(s, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
			return err
		}
		answer := make([]byte, 4096)
		if _, err := unix.Read(s, answer); err != nil {
			return err
		}
		if errno := -int32(binary.NativeEndian.Uint32(answer[unix.NLMSG_HDRLEN:])); errno != 0 {
			return unix.Errno(errno)
		}
	}
	return nil
}

// In a namespace in which every address is local, the destination is what was dialled, and bytes move between it and the caller's, also by splice.
func TestAcrossNamespaces(t *testing.T) {
	kerneltest.Require(t, kerneltest.Root)
	w := newWorld(t, policy.NetworkSpec{DefaultAction: policy.NetworkAllow}, func(c *Config) { c.Destination = nil })
	w.host("8.0.0.1:443", func(c *net.TCPConn) {
		_, _ = c.Read(make([]byte, 4096))
		_, _ = c.Write(make([]byte, 1<<20))
	})
	a := w.name("a.example", "8.0.0.1")
	hello := helloFor("a.example")
	var got []int
	inNamespace(t, func() {
		for _, network := range []string{"tcp4", "tcp6"} {
			l, err := net.ListenTCP(network, &net.TCPAddr{Port: 443})
			if err != nil {
				t.Error(err)
				return
			}
			w.server.running.Go(func() { _ = w.server.Serve(l) })
		}
		for _, test := range []struct {
			address string
			reason  string
		}{
			{a.String(), ""}, {"8.0.0.1", ""}, {"::ffff:8.0.0.1", ""}, {"10.0.0.1", "a private address that no rule names"}, {"169.254.169.254", "a metadata address, never reachable"},
			{"127.0.0.1", reasonSelf}, {"::1", reasonSelf}, {"fd00:ec2::254", "a metadata address, never reachable"}, {"198.19.255.1", reasonSelf},
		} {
			c, err := dial(t.Context(), netip.AddrPortFrom(netip.MustParseAddr(test.address), 443))
			if test.reason != "" {
				if err == nil {
					_ = c.SetDeadline(time.Now().Add(10 * time.Second))
					_, err = c.Read(make([]byte, 1))
					c.Close()
				}
				if event := w.event(); !errors.Is(err, unix.ECONNRESET) || event.Reason != test.reason {
					t.Errorf("%s: %v, %+v", test.address, err, event)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s: %v", test.address, err)
				continue
			}
			_, _ = c.Write(hello)
			n, total := 0, 0
			for b := make([]byte, 64<<10); err == nil; total += n {
				n, err = c.Read(b)
			}
			c.Close()
			got = append(got, total)
			if event := w.event(); event.Kind != Ended || event.Dialed.String() != "8.0.0.1:443" || event.Destination.Port() != 443 {
				t.Errorf("%s: %+v", test.address, event)
			}
		}
	})
	for _, n := range got {
		if n != 1<<20 {
			t.Errorf("%d bytes of %d", n, 1<<20)
		}
	}
	if len(got) != 3 {
		t.Errorf("%d were carried", len(got))
	}
}
