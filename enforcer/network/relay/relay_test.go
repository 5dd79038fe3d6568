package relay

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/policy"
)

func at(a netip.Addr, port uint16) netip.AddrPort { return netip.AddrPortFrom(a, port) }

func TestDestinations(t *testing.T) {
	spec := policy.NetworkSpec{DefaultAction: policy.NetworkAllow, Egress: []policy.EgressRule{
		{Action: policy.NetworkDeny, Target: "denied.example"},
		{Action: policy.NetworkAllow, Target: "ports.example", Ports: []int{9000}},
		{Action: policy.NetworkDeny, Target: "ports.example"},
		{Action: policy.NetworkDeny, Target: "8.0.0.9"},
		{Action: policy.NetworkAllow, Target: "10.1.0.0/16"},
		{Action: policy.NetworkAllow, Target: "opened.example"},
	}}
	w := newWorld(t, spec, nil)
	w.host("8.0.0.1:9000", echo)
	w.host("10.1.0.1:9000", echo)
	name := func(name string, addresses ...string) string { return w.name(name, addresses...).String() + ":9000" }

	for _, test := range []struct {
		what, destination string
		reason            string // empty: it is carried
		rule              int
		dialed            string
	}{
		{"a name", name("a.example", "8.0.0.1"), "", -1, "8.0.0.1:9000"},
		{"a name that a rule denies", name("denied.example", "8.0.0.1"), "denied by a rule", 0, ""},
		{"a port that a rule names", name("ports.example", "8.0.0.1"), "", 1, "8.0.0.1:9000"},
		{"another port", strings.Replace(name("ports.example", "8.0.0.1"), "9000", "9001", 1), "denied by a rule", 2, ""},
		{"an address", "8.0.0.1:9000", "", -1, "8.0.0.1:9000"},
		{"an address that a rule denies", "8.0.0.9:9000", "denied by a rule", 3, ""},
		{"a private address", "10.0.0.1:9000", "a private address that no rule names", -2, ""},
		{"a private address that a rule names", "10.1.0.1:9000", "", 4, "10.1.0.1:9000"},
		{"a name at a private address", name("private.example", "10.0.0.1"), "a private address that no rule names", -2, ""},
		{"a name at a private address that a rule names", name("opened.example", "10.1.0.1"), "", 5, "10.1.0.1:9000"},
		{"a name at loopback", name("loop.example", "127.0.0.1"), reasonSelf, RuleRelay, ""},
		{"a name at no address", name("zero.example", "0.0.0.0"), reasonSelf, RuleRelay, ""},
		{"a name at metadata", name("rebound.example", "169.254.169.254"), "a metadata address, never reachable", -2, ""},
		{"a name at a mapped address", name("mapped.example", "::ffff:169.254.169.254"), "a metadata address, never reachable", -2, ""},
		{"a name at NAT64", name("nat64.example", "64:ff9b::a9fe:a9fe"), "a translated address that no rule names", -2, ""},
		{"a name at another sandbox's name", name("synthetic.example", "198.18.7.7"), reasonSelf, RuleRelay, ""},
		{"a name at a denied address", name("b.example", "8.0.0.9"), "denied by a rule", 3, ""},
		{"the good one of several addresses", name("mixed.example", "127.0.0.1", "10.0.0.1", "8.0.0.1"), "", -1, "8.0.0.1:9000"},
		{"metadata", "169.254.169.254:80", "a metadata address, never reachable", -2, ""},
		{"loopback", "127.0.0.1:80", reasonSelf, RuleRelay, ""},
		{"loopback of IPv6", "[::1]:80", reasonSelf, RuleRelay, ""},
		{"mapped loopback", "[::ffff:127.0.0.1]:80", reasonSelf, RuleRelay, ""},
		{"no address", "0.0.0.0:80", reasonSelf, RuleRelay, ""},
		{"multicast", "224.0.0.1:80", reasonSelf, RuleRelay, ""},
		{"the sandbox", "198.19.255.1:80", reasonSelf, RuleRelay, ""},
		{"the sandbox, IPv6", "[fd5a::1]:80", reasonSelf, RuleRelay, ""},
		{"a synthetic address without a name", "198.18.200.1:80", reasonSelf, RuleRelay, ""},
		{"the relay's port", "8.0.0.1:15001", reasonPort, RuleRelay, ""},
		{"link-local with a zone", "[fe80::1%lo]:80", "a link-local address that no rule names", -2, ""},
	} {
		t.Run(test.what, func(t *testing.T) {
			w.t = t
			address := w.listen(netip.MustParseAddrPort(test.destination))
			if test.reason != "" {
				event := w.refused(address, test.reason)
				if event.Rule != test.rule || event.Dialed.IsValid() {
					t.Errorf("%+v, want rule %d and nothing dialled", event, test.rule)
				}
				return
			}
			c := w.dialAt(address)
			send(t, c, "\x00ping")
			_ = c.CloseWrite()
			wantRead(t, c, "\x00ping")
			if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
				t.Errorf("%d, %v; want the end", n, err)
			}
			event := w.event()
			if event.Kind != Ended || event.Rule != test.rule || event.Dialed.String() != test.dialed || event.BytesIn != 5 || event.BytesOut != 5 {
				t.Errorf("%+v", event)
			}
		})
	}
	for _, address := range w.dialed {
		if a := address.String(); a != "8.0.0.1:9000" && a != "10.1.0.1:9000" {
			t.Errorf("%s was dialled", a)
		}
	}
	stats := w.server.Stats()
	if stats.Live != 0 || stats.Denied == 0 || stats.DeniedBy[RuleRelay] == 0 || stats.DeniedBy[0] != 1 || stats.Dials != stats.Ended || stats.BytesIn != 5*stats.Ended {
		t.Errorf("%+v", stats)
	}
}

// A name is resolved when it is dialled, each time, and what it resolved to before means nothing.
func TestRebinding(t *testing.T) {
	w := newWorld(t, allow("a.example"), nil)
	w.host("8.0.0.1:9000", echo)
	destination := at(w.name("a.example", "8.0.0.1"), 9000)
	c := w.dial(destination)
	send(t, c, "\x00")
	wantRead(t, c, "\x00")
	w.name("a.example", "10.0.0.1")
	w.refused(w.listen(destination), "a private address that no rule names")
	send(t, c, "\x01") // the address that was checked stays
	wantRead(t, c, "\x01")
}

// The addresses that are dialled are those that were checked: a resolver that says something else each time it is asked is asked once for a connection.
func TestDialsWhatWasChecked(t *testing.T) {
	var asked atomic.Int32
	w := newWorld(t, allow("a.example"), func(c *Config) {
		c.Resolve = func(context.Context, string) ([]netip.Addr, error) {
			if asked.Add(1) == 1 {
				return []netip.Addr{netip.MustParseAddr("8.0.0.1")}, nil
			}
			return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil
		}
	})
	w.host("8.0.0.1:9000", echo)
	w.host("10.0.0.1:9000", echo)
	c := w.dial(at(w.name("a.example"), 9000))
	send(t, c, "\x00")
	wantRead(t, c, "\x00")
	w.mu.Lock()
	defer w.mu.Unlock()
	if asked.Load() != 1 || len(w.dialed) != 1 || w.dialed[0].String() != "8.0.0.1:9000" {
		t.Errorf("asked %d times, dialled %v", asked.Load(), w.dialed)
	}
}

func TestUnreached(t *testing.T) {
	w := newWorld(t, allow("a.example", "none.example"), nil)
	for _, destination := range []netip.AddrPort{at(w.name("a.example", "8.0.0.1"), 9000), at(w.name("none.example"), 9000)} {
		w.reset(w.listen(destination))
		if event := w.event(); event.Kind != Failed || event.Err == nil || event.Rule < 0 {
			t.Errorf("%+v", event)
		}
	}
	if stats := w.server.Stats(); stats.Failed != 2 {
		t.Errorf("%+v", stats)
	}
}

// The first of several addresses that answers is taken, and one that is silent doesn't hold the next up for long.
func TestHappyEyeballs(t *testing.T) {
	silent := netip.MustParseAddr("2600::1")
	w := newWorld(t, allow("a.example"), func(c *Config) {
		inner := c.Dial
		c.Dial = func(ctx context.Context, address netip.AddrPort) (*net.TCPConn, error) {
			if address.Addr() == silent {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return inner(ctx, address)
		}
	})
	w.host("8.0.0.3:9000", echo)
	c := w.dial(at(w.name("a.example", "8.0.0.1", "8.0.0.2", "8.0.0.3", "2600::1", "10.0.0.1"), 9000))
	send(t, c, "\x00")
	wantRead(t, c, "\x00")
	for i, want := range []string{"8.0.0.1:9000", "8.0.0.2:9000", "8.0.0.3:9000"} {
		if w.dialed[i].String() != want {
			t.Errorf("dialled %v", w.dialed)
		}
	}
}

func TestInterleave(t *testing.T) {
	var addresses []netip.Addr
	for _, a := range []string{"8.0.0.1", "8.0.0.2", "8.0.0.3", "2600::1"} {
		addresses = append(addresses, netip.MustParseAddr(a))
	}
	if got := fmt.Sprint(interleave(addresses)); got != "[2600::1 8.0.0.1 8.0.0.2 8.0.0.3]" {
		t.Error(got)
	}
}

// What a client says is judged over sockets as it is without.
func TestJudgedOverSockets(t *testing.T) {
	w := newWorld(t, allow("a.example"), func(c *Config) { c.Limits.Look = 100 * time.Millisecond })
	var mu sync.Mutex
	got := map[string]bool{}
	for _, port := range []string{"443", "80", "8080"} {
		w.host("8.0.0.1:"+port, func(c *net.TCPConn) {
			b, _ := io.ReadAll(c)
			mu.Lock()
			got[string(b)] = true
			mu.Unlock()
		})
	}
	a := w.name("a.example", "8.0.0.1")
	for _, test := range []struct {
		port   uint16
		sent   string
		close  bool
		reason string
	}{
		{443, string(helloFor("evil.example")), false, reasonOtherName},
		{443, "GET / HTTP/1.1\r\n", false, reasonNotTLS},
		{443, string(helloFor("a.example")[:50]), false, reasonSlow},
		{443, string(helloFor("a.example")[:50]), true, reasonUnfinished},
		{80, "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", false, reasonOtherHost},
		{80, "GET / HTTP/1.1\r\nHost: a.example\r\n", false, reasonSlow},
		{8080, "GET / HT", false, reasonSlow},
	} {
		c := w.dial(at(a, test.port))
		send(t, c, test.sent)
		if test.close {
			_ = c.CloseWrite()
		}
		w.wantDenied(c, test.reason)
	}
	mu.Lock()
	defer mu.Unlock()
	for sent := range got {
		if sent != "" {
			t.Errorf("%q passed", sent)
		}
	}
}

// A server that speaks first is heard before the client has said anything; the client's first bytes are judged whenever they come.
func TestServerSpeaksFirst(t *testing.T) {
	w := newWorld(t, allow("a.example"), func(c *Config) { c.Limits.Look = 50 * time.Millisecond })
	w.host("8.0.0.1:25", func(c *net.TCPConn) {
		_, _ = io.WriteString(c, "220 a.example\r\n")
		echo(c)
	})
	a := at(w.name("a.example", "8.0.0.1"), 25)
	c := w.dial(a)
	wantRead(t, c, "220 a.example\r\n")
	send(t, c, "EHLO x\r\n")
	wantRead(t, c, "EHLO x\r\n")
	send(t, c, "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n") // behind other bytes it is no request
	wantRead(t, c, "GET /")

	c = w.dial(a)
	wantRead(t, c, "220 a.example\r\n")
	send(t, c, "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n")
	w.wantDenied(c, reasonOtherHost)
}

func TestHalfClose(t *testing.T) {
	late := make(chan string, 1)
	w := newWorld(t, allow("a.example"), nil)
	w.host("8.0.0.1:9000", func(c *net.TCPConn) { // answers when all has come
		b, _ := io.ReadAll(c)
		fmt.Fprintf(c, "%d", len(b))
	})
	w.host("8.0.0.1:9001", func(c *net.TCPConn) { // ends first, and still listens
		_, _ = io.WriteString(c, "bye")
		_ = c.CloseWrite()
		b, _ := io.ReadAll(c)
		late <- string(b)
	})
	a := w.name("a.example", "8.0.0.1")
	c := w.dial(at(a, 9000))
	send(t, c, "\x00ab")
	_ = c.CloseWrite()
	wantRead(t, c, "3")
	if event := w.event(); event.Kind != Ended {
		t.Errorf("%+v", event)
	}
	c = w.dial(at(a, 9001))
	wantRead(t, c, "bye")
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("%d, %v", n, err)
	}
	send(t, c, "\x00late")
	c.Close()
	if event := w.event(); event.Kind != Ended || event.BytesOut != 5 {
		t.Errorf("%+v", event)
	}
	if got := <-late; got != "\x00late" {
		t.Errorf("%q came after the server's end", got)
	}
}

// A reset of either end arrives as one at the other.
func TestReset(t *testing.T) {
	w := newWorld(t, allow("a.example"), nil)
	ended := make(chan error, 1)
	w.host("8.0.0.1:9000", func(c *net.TCPConn) {
		_, err := io.Copy(io.Discard, c)
		ended <- err
	})
	w.host("8.0.0.1:9001", func(c *net.TCPConn) {
		_, _ = io.ReadFull(c, make([]byte, 1))
		_ = c.SetLinger(0)
	})
	a := w.name("a.example", "8.0.0.1")
	c := w.dial(at(a, 9000))
	send(t, c, "\x00")
	_ = c.SetLinger(0)
	c.Close()
	if err := <-ended; !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("the server sees %v", err)
	}
	c = w.dial(at(a, 9001))
	send(t, c, "\x00")
	wantReset(t, c)
}

// Large transfers both ways arrive whole, through buffers and pipes, also when the reader is slow.
func TestTransfer(t *testing.T) {
	t.Run("through pipes", func(t *testing.T) { transfer(t, nil) })
	t.Run("without pipes", func(t *testing.T) { transfer(t, func(c *Config) { c.Capacity = &Capacity{most: 1} }) })
}

// A server has a part of the pipes, and gives back what it took.
func TestPipes(t *testing.T) {
	capacity := &Capacity{most: 1, mostPipes: 2 * onesShare}
	one, other := &Server{config: Config{Capacity: capacity}}, &Server{config: Config{Capacity: capacity}}
	first, second := one.takePipe(), one.takePipe()
	if first == nil || second == nil || one.takePipe() != nil {
		t.Error("not two pipes")
	}
	if third := other.takePipe(); third == nil {
		t.Error("the other server has none")
	} else {
		other.givePipe(third, true)
	}
	one.givePipe(first, true)
	if again := one.takePipe(); again == nil {
		t.Error("none again")
	} else {
		one.givePipe(again, true)
	}
	one.givePipe(second, false)
	capacity.Close()
	if capacity.made != 0 || one.pipes.Load() != 0 || other.pipes.Load() != 0 {
		t.Errorf("%d are left", capacity.made)
	}
}

func transfer(t *testing.T, change func(*Config)) {
	w := newWorld(t, allow("a.example"), change)
	w.host("8.0.0.1:9000", func(c *net.TCPConn) { // says the digest of what came, then sends it back
		b, _ := io.ReadAll(c)
		sum := sha256.Sum256(b)
		_, _ = c.Write(sum[:])
		_, _ = c.Write(b)
	})
	destination := at(w.name("a.example", "8.0.0.1"), 9000)
	for _, size := range []int{1, bufferSize - 1, bufferSize, bufferSize + 1, 5 << 20} {
		b := make([]byte, size)
		_, _ = rand.Read(b)
		b[0] = 0 // not HTTP
		want := sha256.Sum256(b)
		c := w.dial(destination)
		go func() {
			_, _ = c.Write(b)
			_ = c.CloseWrite()
		}()
		got, err := io.ReadAll(c)
		if err != nil || len(got) != size+len(want) {
			t.Fatalf("%d: %d bytes, %v", size, len(got), err)
		}
		if back := sha256.Sum256(got[len(want):]); string(got[:len(want)]) != string(want[:]) || back != want {
			t.Errorf("%d: other bytes", size)
		}
		if event := w.event(); event.Kind != Ended || event.BytesOut != int64(size) || event.BytesIn != int64(size+len(want)) {
			t.Errorf("%+v", event)
		}
	}
}

// HTTP bodies go through the same pump, to where they end.
func TestHTTPBodies(t *testing.T) {
	w := newWorld(t, allow("a.example"), nil)
	w.host("8.0.0.1:80", echo)
	c := w.dial(at(w.name("a.example", "8.0.0.1"), 80))
	size := 3 << 20
	head := fmt.Sprintf("POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: %d\r\n\r\n", size)
	body := strings.Repeat("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", size/38+1)[:size]
	go func() {
		for range 2 {
			_, _ = io.WriteString(c, head+body)
		}
	}()
	got := make([]byte, 2*len(head+body))
	if n, err := io.ReadFull(c, got); err != nil || string(got) != head+body+head+body {
		t.Fatalf("%d bytes, %v", n, err)
	}
	send(t, c, "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n")
	w.wantDenied(c, reasonOtherHost)
}

func TestUpgrade(t *testing.T) {
	w := newWorld(t, allow("a.example"), nil)
	serve := func(first string) func(*net.TCPConn) {
		return func(c *net.TCPConn) {
			_, _ = c.Read(make([]byte, 4096))
			for i := range len(first) {
				_, _ = io.WriteString(c, first[i:i+1])
			}
			echo(c)
		}
	}
	yes, no := "HTTP/1.1 101 Switching Protocols\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
	w.host("8.0.0.1:80", serve(yes))
	w.host("8.0.0.1:81", serve(no))
	w.host("8.0.0.1:82", func(c *net.TCPConn) { _, _ = c.Read(make([]byte, 4096)) })
	a := w.name("a.example", "8.0.0.1")
	request := func(port int) string {
		return fmt.Sprintf("GET / HTTP/1.1\r\nHost: a.example:%d\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", port)
	}
	evil := "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"

	c := w.dial(at(a, 80))
	send(t, c, request(80))
	wantRead(t, c, yes)
	send(t, c, evil)
	wantRead(t, c, evil) // frames of another protocol, as far as anybody knows

	c = w.dial(at(a, 81))
	send(t, c, request(81)+evil) // at once: it is held until the server has answered
	if _, err := io.ReadAll(c); !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("%v", err)
	}
	if event := w.event(); event.Reason != reasonOtherHost {
		t.Errorf("%+v", event)
	}

	c = w.dial(at(a, 82))
	send(t, c, request(82))
	if _, err := io.ReadAll(c); err != nil {
		t.Error(err)
	}
}

func TestRoom(t *testing.T) {
	w := newWorld(t, allow("a.example"), func(c *Config) { c.Limits.Connections = 2 })
	w.host("8.0.0.1:9000", echo)
	address := w.listen(at(w.name("a.example", "8.0.0.1"), 9000))
	live := func() *net.TCPConn {
		c := w.dialAt(address)
		send(t, c, "\x00")
		wantRead(t, c, "\x00")
		return c
	}
	first := live()
	live()
	w.refused(address, reasonFull)
	_ = first.CloseWrite()
	if _, err := io.ReadAll(first); err != nil {
		t.Error(err)
	}
	w.event() // it is forgotten before it is told
	live()
	if stats := w.server.Stats(); stats.Full != 1 || stats.Live != 2 {
		t.Errorf("%+v", stats)
	}

	w = newWorld(t, allow("a.example"), func(c *Config) { c.Capacity = &Capacity{most: 1} })
	w.host("8.0.0.1:9000", echo)
	address = w.listen(at(w.name("a.example", "8.0.0.1"), 9000))
	live = func() *net.TCPConn {
		c := w.dialAt(address)
		send(t, c, "\x00")
		wantRead(t, c, "\x00")
		return c
	}
	live()
	w.refused(address, reasonFull)
}

func TestCapacity(t *testing.T) {
	for _, test := range []struct {
		connections int
		descriptors uint64
		want        int // 0: an error
	}{{0, 20000, 9488}, {9488, 20000, 9488}, {9489, 20000, 0}, {0, 1024, 320}, {321, 1024, 0}, {0, 64, 20}, {0, 1, 0}, {0, ^uint64(0), 536870400}} {
		c, err := capacityFor(test.connections, test.descriptors)
		switch {
		case test.want == 0 && !errors.Is(err, ErrDescriptors):
			t.Errorf("%+v: %v", test, err)
		case test.want > 0 && (err != nil || c.Connections() != test.want):
			t.Errorf("%+v: %+v, %v", test, c, err)
		}
	}
}

func TestLimits(t *testing.T) {
	for _, test := range []struct {
		limits Limits
		reason string
	}{{Limits{Idle: 50 * time.Millisecond}, reasonIdle}, {Limits{Total: 50 * time.Millisecond}, reasonTotal}} {
		w := newWorld(t, allow("a.example"), func(c *Config) { c.Limits = test.limits })
		w.host("8.0.0.1:9000", echo)
		c := w.dial(at(w.name("a.example", "8.0.0.1"), 9000))
		send(t, c, "\x00")
		wantRead(t, c, "\x00")
		wantReset(t, c)
		if event := w.event(); event.Kind != Cut || event.Reason != test.reason {
			t.Errorf("%+v", event)
		}
		if stats := w.server.Stats(); stats.Cut != 1 {
			t.Errorf("%+v", stats)
		}
	}
	if _, err := New(Config{}); err == nil {
		t.Error("a server without a judge")
	}
	if err := (&Limits{Idle: -1}).setDefaults(); err == nil {
		t.Error("a negative limit")
	}
}

// Denials are told up to a rate, and how many weren't.
func TestTold(t *testing.T) {
	var b bucket
	now := time.Now()
	told := 0
	for range 1000 {
		if tell, _ := b.take(now); tell {
			told++
		}
	}
	if told != bucketBurst {
		t.Errorf("%d told", told)
	}
	if tell, suppressed := b.take(now.Add(bucketInterval)); !tell || suppressed != 1000-bucketBurst {
		t.Errorf("%v, %d", tell, suppressed)
	}
	if tell, suppressed := b.take(now.Add(time.Hour)); !tell || suppressed != 0 {
		t.Errorf("%v, %d", tell, suppressed)
	}
}

func TestTighten(t *testing.T) {
	w := newWorld(t, policy.NetworkSpec{DefaultAction: policy.NetworkAllow}, nil)
	w.host("8.0.0.1:9000", echo)
	w.host("8.0.0.2:9000", echo)
	w.host("8.0.0.2:9443", echo)
	open := func(destination netip.AddrPort, first string) *net.TCPConn {
		c := w.dial(destination)
		send(t, c, first)
		wantRead(t, c, first)
		return c
	}
	stays := open(at(w.name("a.example", "8.0.0.1"), 9000), "\x00")
	goes := open(at(w.name("b.example", "8.0.0.1"), 9000), "\x00")
	moved := open(at(w.name("c.example", "8.0.0.2"), 9000), "\x00") // its address isn't allowed any more
	literal := open(netip.MustParseAddrPort("8.0.0.2:9000"), "\x00")
	claimed := open(netip.MustParseAddrPort("8.0.0.2:9443"), string(helloFor("d.example")))

	w.server.Tighten() // the same rules
	send(t, goes, "x")
	wantRead(t, goes, "x")

	w.judgeBy(policy.NetworkSpec{DefaultAction: policy.NetworkAllow, Egress: []policy.EgressRule{
		{Action: policy.NetworkDeny, Target: "b.example"},
		{Action: policy.NetworkDeny, Target: "8.0.0.2", Ports: []int{9000}},
		{Action: policy.NetworkDeny, Target: "d.example"},
	}})
	w.server.Tighten()
	for _, c := range []*net.TCPConn{goes, moved, literal, claimed} {
		wantReset(t, c)
		if event := w.event(); event.Kind != Cut || event.Rule < 0 {
			t.Errorf("%+v", event)
		}
	}
	send(t, stays, "still")
	wantRead(t, stays, "still")
}

// Rules that change while a connection is being made hold for it too.
func TestTightenWhileDialling(t *testing.T) {
	dialling, goOn := make(chan bool), make(chan bool)
	w := newWorld(t, allow("a.example"), func(c *Config) {
		inner := c.Dial
		c.Dial = func(ctx context.Context, address netip.AddrPort) (*net.TCPConn, error) {
			remote, err := inner(ctx, address)
			dialling <- true
			<-goOn
			return remote, err
		}
	})
	w.host("8.0.0.1:9000", echo)
	c := w.dial(at(w.name("a.example", "8.0.0.1"), 9000))
	<-dialling
	w.judgeBy(policy.NetworkSpec{})
	w.server.Tighten()
	goOn <- true
	w.wantDenied(c, "no rule allows it")
}

// A thousand connections are cut, and a transfer that is still allowed doesn't notice.
func TestTightenThousand(t *testing.T) {
	w := newWorld(t, allow("a.example", "b.example"), func(c *Config) { c.Limits.Connections = 2000 })
	w.host("8.0.0.1:9000", echo)
	a, b := w.listen(at(w.name("a.example", "8.0.0.1"), 9000)), w.listen(at(w.name("b.example", "8.0.0.1"), 9000))
	var cut []*net.TCPConn
	for range 1000 {
		c := w.dialAt(b)
		send(t, c, "\x00")
		wantRead(t, c, "\x00")
		cut = append(cut, c)
	}
	stays := w.dialAt(a)
	_ = stays.SetDeadline(time.Time{})
	stop, sum := make(chan bool), make(chan error)
	go func() {
		chunk := make([]byte, 64<<10)
		for {
			select {
			case <-stop:
				sum <- nil
				return
			default:
			}
			go func() { _, _ = stays.Write(make([]byte, len(chunk))) }()
			if _, err := io.ReadFull(stays, chunk); err != nil {
				sum <- err
				return
			}
		}
	}()
	w.judgeBy(allow("a.example"))
	started := time.Now()
	w.server.Tighten()
	for _, c := range cut {
		wantReset(t, c)
	}
	t.Logf("1,000 connections cut and seen so after %v", time.Since(started))
	close(stop)
	if err := <-sum; err != nil {
		t.Errorf("the transfer that is still allowed: %v", err)
	}
	if stats := w.server.Stats(); stats.Live != 1 || stats.Cut != 1000 {
		t.Errorf("%+v", stats)
	}
}

// Close resets what is live, whatever state it is in.
func TestClose(t *testing.T) {
	w := newWorld(t, allow("a.example", "b.example"), func(c *Config) {
		inner := c.Resolve
		c.Resolve = func(ctx context.Context, name string) ([]netip.Addr, error) {
			if name == "b.example" {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return inner(ctx, name)
		}
	})
	w.host("8.0.0.1:9000", echo)
	live := w.dial(at(w.name("a.example", "8.0.0.1"), 9000))
	send(t, live, "\x00")
	wantRead(t, live, "\x00")
	resolving := w.dial(at(w.name("b.example"), 9000))
	proxied := w.dial(proxyAddress)
	for w.server.Stats().Live < 3 {
	}
	w.server.Close()
	for _, c := range []*net.TCPConn{live, resolving, proxied} {
		wantReset(t, c)
	}
	if err := w.server.Serve(func() *net.TCPListener {
		l, _ := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
		return l
	}()); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}
