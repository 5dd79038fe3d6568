package relay

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer/network"
	"github.com/sandboxd/sandboxd/policy"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		childMain()
		return
	}
	goleak.VerifyTestMain(m)
}

// world is a relay with a network behind it: names with addresses, and servers on loopback that stand for those addresses. A destination is a listener
// of the relay's.
type world struct {
	t      testing.TB
	server *Server
	config Config
	rules  atomic.Pointer[network.Rules]

	mu           sync.Mutex
	synthetic    map[netip.Addr]string
	resolved     map[string][]netip.Addr
	hosts        map[netip.AddrPort]string // where who answers at an address listens
	destinations map[uint16]netip.AddrPort // by the port of the relay's listener
	events       []Event
	told         chan struct{}
	dialed       []netip.AddrPort
}

var (
	proxyAddress = netip.MustParseAddrPort("198.19.255.2:3128")
	ownPrefixes  = []netip.Prefix{netip.MustParsePrefix("198.18.0.0/16"), netip.MustParsePrefix("198.19.255.1/32"), netip.MustParsePrefix("fd5a::1/128")}
)

func newWorld(t testing.TB, spec policy.NetworkSpec, change func(*Config)) *world {
	t.Helper()
	w := &world{
		t: t, synthetic: map[netip.Addr]string{}, resolved: map[string][]netip.Addr{}, hosts: map[netip.AddrPort]string{},
		destinations: map[uint16]netip.AddrPort{}, told: make(chan struct{}, 10000),
	}
	w.judgeBy(spec)
	capacity, err := NewCapacity(4000)
	if err != nil {
		t.Fatal(err)
	}
	w.config = Config{
		Judge: func() network.Set { return network.All(w.rules.Load()) },
		NameOf: func(a netip.Addr) (string, bool) {
			w.mu.Lock()
			defer w.mu.Unlock()
			name, ok := w.synthetic[a]
			return name, ok
		},
		Resolve: func(_ context.Context, name string) ([]netip.Addr, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.resolved[name], nil
		},
		Destination: func(c *net.TCPConn) (netip.AddrPort, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			destination, ok := w.destinations[c.LocalAddr().(*net.TCPAddr).AddrPort().Port()]
			if !ok {
				return netip.AddrPort{}, errors.New("none")
			}
			return destination, nil
		},
		Dial: func(ctx context.Context, address netip.AddrPort) (*net.TCPConn, error) {
			w.mu.Lock()
			w.dialed = append(w.dialed, address)
			to, ok := w.hosts[address]
			w.mu.Unlock()
			if !ok {
				return nil, unix.EHOSTUNREACH
			}
			return dial(ctx, netip.MustParseAddrPort(to))
		},
		Proxy: proxyAddress, Port: 15001, Own: ownPrefixes, Capacity: capacity, Ended: true,
		Event: func(e Event) {
			w.mu.Lock()
			w.events = append(w.events, e)
			w.mu.Unlock()
			w.told <- struct{}{}
		},
	}
	if change != nil {
		change(&w.config)
	}
	w.server, err = New(w.config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.server.Close()
		capacity.Close()
		if used := capacity.used.Load(); used != 0 || capacity.made != 0 {
			t.Errorf("%d connections and %d pipes are left", used, capacity.made)
		}
	})
	return w
}

func (w *world) judgeBy(spec policy.NetworkSpec) {
	w.t.Helper()
	rules, err := network.Compile(spec.Defaulted())
	if err != nil {
		w.t.Fatal(err)
	}
	w.rules.Store(rules)
}

// name gives a name an address, and a synthetic one of its own.
func (w *world) name(name string, addresses ...string) netip.Addr {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.resolved[name] = nil
	for _, a := range addresses {
		w.resolved[name] = append(w.resolved[name], netip.MustParseAddr(a))
	}
	for a, known := range w.synthetic {
		if known == name {
			return a
		}
	}
	synthetic := netip.AddrFrom4([4]byte{198, 18, 0, byte(len(w.synthetic) + 1)})
	w.synthetic[synthetic] = name
	return synthetic
}

// host has serve answer each connection to an address.
func (w *world) host(address string, serve func(*net.TCPConn)) {
	w.t.Helper()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		w.t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.AcceptTCP()
			if err != nil {
				return
			}
			running.Go(func() {
				defer c.Close()
				serve(c)
			})
		}
	})
	w.t.Cleanup(func() {
		w.server.Close() // its ends go first, so that servers that read see an end
		l.Close()
		running.Wait()
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hosts[netip.MustParseAddrPort(address)] = l.Addr().String()
}

// listen makes a destination and returns where to dial for it.
func (w *world) listen(destination netip.AddrPort) string {
	w.t.Helper()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	w.destinations[l.Addr().(*net.TCPAddr).AddrPort().Port()] = destination
	w.mu.Unlock()
	done := make(chan struct{})
	go func() {
		_ = w.server.Serve(l)
		close(done)
	}()
	w.t.Cleanup(func() {
		l.Close()
		<-done
	})
	return l.Addr().String()
}

// dial connects as the sandbox does.
func (w *world) dial(destination netip.AddrPort) *net.TCPConn {
	w.t.Helper()
	return w.dialAt(w.listen(destination))
}

func (w *world) dialAt(address string) *net.TCPConn {
	w.t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	return c.(*net.TCPConn)
}

// refused dials where the answer is no, which may come as early as in connect(2).
func (w *world) refused(address, reason string) Event {
	w.t.Helper()
	w.reset(address)
	return w.wantDeniedEvent(reason)
}

func (w *world) reset(address string) {
	w.t.Helper()
	c, err := net.Dial("tcp", address)
	if errors.Is(err, unix.ECONNRESET) {
		return
	}
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	wantReset(w.t, c.(*net.TCPConn))
}

// event waits for the next one.
func (w *world) event() Event {
	w.t.Helper()
	select {
	case <-w.told:
	case <-time.After(10 * time.Second):
		w.t.Fatal("no event")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	event := w.events[0]
	w.events = w.events[1:]
	return event
}

// wantDenied waits for the denial of a connection, and for its reset.
func (w *world) wantDenied(c *net.TCPConn, reason string) Event {
	w.t.Helper()
	wantReset(w.t, c)
	return w.wantDeniedEvent(reason)
}

func (w *world) wantDeniedEvent(reason string) Event {
	w.t.Helper()
	event := w.event()
	if event.Kind != Denied || event.Reason != reason {
		w.t.Errorf("event %+v, want denied: %s", event, reason)
	}
	return event
}

func wantReset(t testing.TB, c *net.TCPConn) {
	t.Helper()
	if _, err := io.Copy(io.Discard, c); !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("the connection ends with %v, want ECONNRESET", err)
	}
}

func wantRead(t testing.TB, c net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("read %q, %v; want %q", got[:n], err, want)
	}
}

func send(t testing.TB, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

func echo(c *net.TCPConn) {
	_, _ = io.Copy(c, c)
	_ = c.CloseWrite()
}

func allow(targets ...string) policy.NetworkSpec {
	var spec policy.NetworkSpec
	for _, target := range targets {
		spec.Egress = append(spec.Egress, policy.EgressRule{Action: policy.NetworkAllow, Target: target})
	}
	return spec
}

// look is a connection that only judges, for looks without sockets.
func lookConn(t testing.TB, on target, spec policy.NetworkSpec) *conn {
	t.Helper()
	rules, err := network.Compile(spec.Defaulted())
	if err != nil {
		t.Fatal(err)
	}
	return &conn{target: on, server: &Server{config: Config{Judge: func() network.Set { return network.All(rules) }}}}
}

// feed gives a look bytes in segments of the given size, as upstream does, and returns what passed. switched is the server's answer to an upgrade.
func feed(l look, b []byte, segment int, switched bool) (passed []byte, err error) {
	var held []byte
	skip := int64(0)
	for len(b) > 0 {
		n := min(segment, len(b), bufferSize-len(held))
		held, b = append(held, b[:n]...), b[n:]
		for len(held) > 0 {
			if skip > 0 {
				n := min(skip, int64(len(held)))
				passed, held, skip = append(passed, held[:n]...), held[n:], skip-n
				continue
			}
			s, err := l.scan(held)
			passed, held = append(passed, held[:s.pass]...), held[s.pass:]
			if err != nil {
				return passed, err
			}
			switch {
			case s.done:
				return append(append(passed, held...), b...), nil
			case s.skip > 0:
				skip = s.skip
				continue
			case s.answer != nil:
				l = s.answer(switched)
				continue
			}
			break
		}
		if len(held) >= bufferSize {
			return passed, errors.New("a look that never ends")
		}
	}
	if len(held) > 0 {
		return passed, refuse(reasonUnfinished)
	}
	return passed, nil
}
