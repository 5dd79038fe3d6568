package relay

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/enforcer/network"
	"github.com/sandboxd/sandboxd/policy"
)

// datagramWorld is a server whose datagrams all seem to be for one destination, and end at one that answers each with itself.
type datagramWorld struct {
	server      *Server
	rules       atomic.Pointer[network.Rules]
	destination atomic.Pointer[netip.AddrPort]
	dialed      chan netip.AddrPort
	answers     chan string
	events      chan Event
	program     *net.UDPConn
}

func newDatagramWorld(t *testing.T, spec policy.NetworkSpec, limits Limits) *datagramWorld {
	t.Helper()
	local := func() *net.UDPConn {
		c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	w := &datagramWorld{dialed: make(chan netip.AddrPort, 64), answers: make(chan string, 64), events: make(chan Event, 64)}
	w.judgeBy(t, spec)
	echo, socket := local(), local()
	echoed := make(chan struct{})
	go func() {
		defer close(echoed)
		buffer := make([]byte, 2048)
		for {
			n, from, err := echo.ReadFromUDPAddrPort(buffer)
			if err != nil {
				return
			}
			_, _ = echo.WriteToUDPAddrPort(buffer[:n], from)
		}
	}()
	capacity, err := NewCapacity(100)
	if err != nil {
		t.Fatal(err)
	}
	name := netip.MustParseAddr("198.18.0.1")
	w.server, err = New(Config{
		Judge: func() network.Set { return network.All(w.rules.Load()) }, Capacity: capacity, Limits: limits, Ended: true, Port: 15001,
		NameOf: func(a netip.Addr) (string, bool) { return "a.example", a == name },
		Resolve: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("8.0.0.1")}, nil
		},
		DatagramDestination: func([]byte) (netip.AddrPort, error) { return *w.destination.Load(), nil },
		Answer:              func(_, _ netip.AddrPort, data []byte) error { w.answers <- string(data); return nil },
		DialDatagrams: func(_ context.Context, at netip.AddrPort) (*net.UDPConn, error) {
			w.dialed <- at
			return net.DialUDP("udp", nil, echo.LocalAddr().(*net.UDPAddr))
		},
		Event: func(e Event) { w.events <- e },
	})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- w.server.ServeDatagrams(socket) }()
	if w.program, err = net.DialUDP("udp", nil, socket.LocalAddr().(*net.UDPAddr)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.server.Close()
		if err := <-served; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		w.program.Close()
		echo.Close()
		<-echoed
		capacity.Close()
	})
	return w
}

func (w *datagramWorld) judgeBy(t *testing.T, spec policy.NetworkSpec) {
	t.Helper()
	rules, err := network.Compile(spec)
	if err != nil {
		t.Fatal(err)
	}
	w.rules.Store(rules)
}

func (w *datagramWorld) send(t *testing.T, to string) {
	t.Helper()
	at := netip.MustParseAddrPort(to)
	w.destination.Store(&at)
	if _, err := w.program.Write([]byte("ping")); err != nil {
		t.Fatal(err)
	}
}

func within[T any](t *testing.T, c <-chan T) (got T) {
	t.Helper()
	select {
	case got = <-c:
	case <-time.After(10 * time.Second):
		t.Fatal("nothing came")
	}
	return got
}

func datagramsTo(targets ...policy.EgressRule) policy.NetworkSpec {
	return policy.NetworkSpec{Egress: targets, Datagrams: true}
}

func allowing(target string, ports ...int) policy.EgressRule {
	return policy.EgressRule{Action: policy.NetworkAllow, Target: target, Ports: ports}
}

// TestDatagramsAreJudged as connections are, by name or address, port and class, and where datagrams are let out at all.
func TestDatagramsAreJudged(t *testing.T) {
	for _, test := range []struct {
		name   string
		spec   policy.NetworkSpec
		to     string
		dialed string // empty: refused
		reason string
	}{
		{"an address", datagramsTo(allowing("8.0.0.0/8", 443)), "8.0.0.9:443", "8.0.0.9:443", ""},
		{"a name, whose private address is left out", datagramsTo(allowing("a.example")), "198.18.0.1:443", "8.0.0.1:443", ""},
		{"another port", datagramsTo(allowing("8.0.0.0/8", 443)), "8.0.0.9:53", "", "no rule allows it"},
		{"another name", datagramsTo(allowing("b.example")), "198.18.0.1:443", "", "no rule allows it"},
		{"a private address", policy.NetworkSpec{DefaultAction: policy.NetworkAllow, Datagrams: true}, "10.0.0.1:53", "", "a private address that no rule names"},
		{"metadata", policy.NetworkSpec{DefaultAction: policy.NetworkAllow, Datagrams: true}, "169.254.169.254:80", "", "a metadata address, never reachable"},
		{"the loopback", policy.NetworkSpec{DefaultAction: policy.NetworkAllow, Datagrams: true}, "127.0.0.1:53", "", reasonSelf},
		{"the relay's port", policy.NetworkSpec{DefaultAction: policy.NetworkAllow, Datagrams: true}, "8.0.0.1:15001", "", reasonPort},
		{"connections alone", policy.NetworkSpec{DefaultAction: policy.NetworkAllow}, "8.0.0.1:443", "", reasonDatagrams},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newDatagramWorld(t, test.spec, Limits{})
			w.send(t, test.to)
			if test.dialed == "" {
				if e := within(t, w.events); e.Kind != Denied || !e.Datagrams || e.Reason != test.reason || e.Destination.String() != test.to || len(w.dialed) != 0 {
					t.Errorf("%+v", e)
				}
				return
			}
			if answer, at := within(t, w.answers), within(t, w.dialed); answer != "ping" || at.String() != test.dialed {
				t.Errorf("%q from %v", answer, at)
			}
			w.send(t, test.to)
			if within(t, w.answers); len(w.dialed) != 0 || w.server.Stats().Live != 1 {
				t.Error("a second flow for one")
			}
		})
	}
}

// TestFlowsAreCut: what the rules don't allow any more ends, and so do flows that nobody uses; what is still allowed goes on.
func TestFlowsAreCut(t *testing.T) {
	w := newDatagramWorld(t, datagramsTo(allowing("8.0.0.1"), allowing("8.0.0.2")), Limits{FlowIdle: time.Hour})
	for _, to := range []string{"8.0.0.1:1", "8.0.0.2:1"} {
		w.send(t, to)
		within(t, w.answers)
		within(t, w.dialed)
	}
	w.judgeBy(t, datagramsTo(allowing("8.0.0.2")))
	w.server.Tighten()
	if e := within(t, w.events); e.Kind != Cut || e.Destination.String() != "8.0.0.1:1" || e.BytesIn != 4 || e.BytesOut != 4 {
		t.Errorf("%+v", e)
	}
	w.send(t, "8.0.0.2:1")
	if within(t, w.answers); len(w.dialed) != 0 {
		t.Error("the one that is still allowed was made anew")
	}
	spec := datagramsTo(allowing("8.0.0.2"))
	spec.Datagrams = false
	w.judgeBy(t, spec)
	w.server.Tighten()
	if e := within(t, w.events); e.Kind != Cut || e.Reason != reasonDatagrams {
		t.Errorf("%+v", e)
	}
	idle := newDatagramWorld(t, datagramsTo(allowing("8.0.0.1")), Limits{FlowIdle: 20 * time.Millisecond})
	idle.send(t, "8.0.0.1:1")
	within(t, idle.answers)
	if e := within(t, idle.events); e.Kind != Ended || idle.server.Stats().Live != 0 {
		t.Errorf("%+v", e)
	}
}

// TestFlowsAreBounded: one more than there may be is refused.
func TestFlowsAreBounded(t *testing.T) {
	w := newDatagramWorld(t, datagramsTo(allowing("8.0.0.0/8")), Limits{Flows: 2})
	for _, to := range []string{"8.0.0.1:1", "8.0.0.1:2"} {
		w.send(t, to)
		within(t, w.answers)
	}
	w.send(t, "8.0.0.1:3")
	if e := within(t, w.events); e.Kind != Denied || e.Reason != reasonFlows || w.server.Stats().Full != 1 {
		t.Errorf("%+v", e)
	}
}
