package relay

import (
	"errors"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer/network/fence"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/test/kerneltest"
)

// The main thread is kept for the main goroutine: a thread that has entered another namespace ends with its goroutine, and the main one can't end.
func init() { runtime.LockOSThread() }

// behindFence calls f on a thread in a network namespace with a fence, with the listeners that the fence has there. The thread ends with f.
func behindFence(t *testing.T, f func(*fence.Sockets)) {
	t.Helper()
	kerneltest.Require(t, kerneltest.Root)
	plan := fence.AnyIP(true, true)
	if err := fence.Works(plan); err != nil {
		t.Skipf("this kernel can't have the fence, whose own tests say more: %v", err)
	}
	failed := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread isn't used again
		failed <- func() error {
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				return err
			}
			fds, err := fence.Apply(plan, fence.Here)
			if err != nil {
				return err
			}
			held, err := fence.Hold(plan, fds)
			if err != nil {
				return err
			}
			defer held.Close()
			sockets, err := held.Open()
			if err != nil {
				return err
			}
			everywhere := [][2]netip.Addr{{netip.IPv4Unspecified(), netip.MustParseAddr("255.255.255.255")},
				{netip.IPv6Unspecified(), netip.MustParseAddr("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")}}
			if err := held.Admit(fence.Reach{Ranges: everywhere}); err != nil {
				return err
			}
			f(sockets)
			return nil
		}()
	}()
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
}

// Behind the fence the destination is what was dialled, and bytes move between the sandbox's namespace and the daemon's, also by splice.
func TestBehindFence(t *testing.T) {
	w := newWorld(t, policy.NetworkSpec{DefaultAction: policy.NetworkAllow}, func(c *Config) {
		c.Destination, c.Port = fence.Destination, fence.RelayPort
	})
	w.host("8.0.0.1:443", func(c *net.TCPConn) {
		_, _ = c.Read(make([]byte, 4096))
		_, _ = c.Write(make([]byte, 1<<20))
	})
	a := w.name("a.example", "8.0.0.1")
	hello := helloFor("a.example")
	carried := 0
	behindFence(t, func(sockets *fence.Sockets) {
		for _, l := range sockets.Relay {
			w.server.running.Go(func() { _ = w.server.Serve(l) })
		}
		for _, test := range []struct{ address, reason string }{
			{a.String() + ":443", ""},
			{"8.0.0.1:443", ""},
			{"[::ffff:8.0.0.1]:443", ""},
			{"10.0.0.1:22", "a private address that no rule names"},
			{"169.254.169.254:80", "a metadata address, never reachable"},
			{"[fd00:ec2::254]:80", "a metadata address, never reachable"},
			{"[64:ff9b::a9fe:a9fe]:80", "a translated address that no rule names"},
			{"127.0.0.1:15001", reasonPort}, // reaches the listener without the fence's doing
			{"[::1]:15001", reasonPort},
			{"198.19.255.1:15001", reasonPort},
			{"8.0.0.1:15001", reasonPort},
			{"198.18.200.1:80", reasonSelf},
			{"255.255.255.254:80", "a reserved address that no rule names"},
		} {
			// No goroutine of another thread makes this socket: an address needs no look-up.
			c, err := dial(t.Context(), netip.MustParseAddrPort(test.address))
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
			if event := w.event(); total != 1<<20 || event.Kind != Ended || event.Dialed.String() != "8.0.0.1:443" || event.Destination.Port() != 443 {
				t.Errorf("%s: %d bytes, %+v", test.address, total, event)
			}
			carried++
		}
	})
	if carried != 3 && !t.Skipped() {
		t.Errorf("%d were carried", carried)
	}
}
