package fence

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func span(text string) [2]netip.Addr {
	first, last, _ := strings.Cut(text, "-")
	return [2]netip.Addr{netip.MustParseAddr(first), netip.MustParseAddr(last)}
}

// TestAdmit: what is admitted comes to the relay, to the last address, and nothing beside it; what replaces it is all there is.
func TestAdmit(t *testing.T) {
	for _, test := range []struct {
		name     string
		admit    []string
		relayed  []string
		refused  []string
		elements int
	}{
		{"nothing", nil, nil, []string{"8.8.8.8:443", "[2600::1]:443"}, 0},
		{"an address", []string{"8.8.8.8-8.8.8.8"}, []string{"8.8.8.8:443", "8.8.8.8:15001"}, []string{"8.8.8.7:443", "8.8.8.9:443", "[2600::1]:443"}, 2},
		{"a range", []string{"9.1.2.3-9.255.255.255"}, []string{"9.1.2.3:1", "9.255.255.255:1"}, []string{"9.1.2.2:1", "10.0.0.0:1"}, 2},
		{"from the first to the last", []string{"0.0.0.0-0.255.255.255", "255.0.0.0-255.255.255.255"}, []string{"255.0.0.0:1"}, []string{"1.0.0.0:1", "254.255.255.255:1"}, 3},
		{"IPv6", []string{"2600::-2600::ffff"}, []string{"[2600::]:1", "[2600::ffff]:1"}, []string{"[2600::1:0]:1", "8.8.8.8:1"}, 2},
		{"those that touch and overlap are one", []string{"8.0.0.0-8.0.0.9", "8.0.0.10-8.0.0.20", "8.0.0.5-8.0.0.15", "8.0.0.22-8.0.0.22"},
			[]string{"8.0.0.0:1", "8.0.0.10:1", "8.0.0.20:1", "8.0.0.22:1"}, []string{"8.0.0.21:1", "8.0.0.23:1"}, 4},
		{"unsorted", []string{"2600::1-2600::1", "9.0.0.0-9.0.0.9", "8.0.0.0-8.0.0.9"}, []string{"8.0.0.9:1", "9.0.0.9:1", "[2600::1]:1"}, []string{"8.0.0.10:1"}, 6},
	} {
		t.Run(test.name, func(t *testing.T) {
			sockets := slices.Repeat([]Socket{tcp4}, len(test.relayed)+len(test.refused))
			for i, at := range slices.Concat(test.relayed, test.refused) {
				if at[0] == '[' {
					sockets[i] = tcp6
				}
			}
			v := visit(t, nil, sockets...)
			v.echo(t, v.open(t)) // everything, which is replaced
			var ranges [][2]netip.Addr
			for _, text := range test.admit {
				ranges = append(ranges, span(text))
			}
			if err := v.Admit(Reach{Ranges: ranges}); err != nil {
				t.Fatal(err)
			}
			for i, at := range slices.Concat(test.relayed, test.refused) {
				want := error(nil)
				if i >= len(test.relayed) {
					want = unix.ECONNREFUSED
				}
				if err := unix.Connect(v.fds[i], sockaddr(at)); !errors.Is(err, want) {
					t.Errorf("connect %s: %v, want %v", at, err, want)
				}
			}
			s, err := v.Observe()
			if err != nil {
				t.Fatal(err)
			}
			if len(s.Reach) != test.elements || len(v.failed(t)) != 0 {
				t.Errorf("not held: %v, %d elements: %v", v.failed(t), len(s.Reach), s.Reach)
			}
			for _, row := range Check(v.Plan(), s.Namespaces[0], s) {
				if row.Control == "fence.reach" && row.Got != v.Plan().ReachText(Reach{Ranges: ranges}) {
					t.Errorf("row %q, text %q", row.Got, v.Plan().ReachText(Reach{Ranges: ranges}))
				}
			}
		})
	}
}

// TestAdmitMany: as many elements as there may be, and more than one answer brings, are set and read back.
func TestAdmitMany(t *testing.T) {
	var ranges [][2]netip.Addr
	for i := range 520 {
		four, six := netip.AddrFrom4([4]byte{9, byte(i / 100), byte(i % 100), 1}), netip.AddrFrom16([16]byte{0x26, 0, 14: byte(i / 100), 15: byte(2 * (i % 100))})
		ranges = append(ranges, [2]netip.Addr{four, four}, [2]netip.Addr{six, six})
	}
	v := visit(t, nil)
	if err := v.Admit(Reach{Ranges: ranges}); err != nil {
		t.Fatal(err)
	}
	s, err := v.Observe()
	if err != nil {
		t.Fatal(err)
	}
	if failed := v.failed(t); len(failed) != 0 || len(s.Reach) != 4*520 {
		t.Errorf("not held: %v, %d elements", failed, len(s.Reach))
	}
	if err := v.Repair(); err != nil {
		t.Fatal(err)
	}
	if failed := v.failed(t); len(failed) != 0 {
		t.Errorf("repaired, and not held: %v", failed)
	}
}

// TestAdmitLeavesAccepted: connections whose address stays are untouched by a change; those whose address goes are reset.
func TestAdmitLeavesAccepted(t *testing.T) {
	v := visit(t, nil, tcp4, tcp4)
	s := v.open(t)
	conns := make(chan error, 2)
	for i, at := range []string{"8.8.8.8:443", "9.9.9.9:443"} {
		go func() {
			conn, err := s.Relay[0].AcceptTCP()
			if err == nil {
				t.Cleanup(func() { conn.Close() })
			}
			conns <- err
		}()
		if err := errors.Join(unix.Connect(v.fds[i], sockaddr(at)), <-conns); err != nil {
			t.Fatal(err)
		}
	}
	if err := v.Admit(Reach{Ranges: [][2]netip.Addr{span("8.8.8.8-8.8.8.8")}}); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Write(v.fds[0], []byte("x")); err != nil {
		t.Errorf("the one that stays: %v", err)
	}
	_, err := unix.Write(v.fds[1], []byte("x"))
	if err == nil {
		_, err = unix.Write(v.fds[1], []byte("x"))
	}
	if !errors.Is(err, unix.ECONNRESET) && !errors.Is(err, unix.EPIPE) {
		t.Errorf("the one that goes: %v", err)
	}
	if _, err := unix.Write(v.fds[0], []byte("x")); err != nil {
		t.Errorf("the one that stays: %v", err)
	}
}

// TestRefusals: each connection that the kernel refuses by itself is told, with where it wanted to, and nothing else is.
func TestRefusals(t *testing.T) {
	v := visit(t, nil, tcp4, tcp6, tcp6, tcp4, udp4, tcp4)
	v.echo(t, v.open(t))
	if err := v.Admit(Reach{Ranges: [][2]netip.Addr{span("8.8.8.8-8.8.8.8")}}); err != nil {
		t.Fatal(err)
	}
	told := make(chan Refusal, 16)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- v.Refusals(ctx, func(r Refusal) { told <- r }) }()
	if err := unix.Connect(v.fds[3], sockaddr("8.8.8.8:443")); err != nil {
		t.Fatal(err)
	}
	if err := refusal(v.fds[4], "8.8.4.4:443"); err != unix.ECONNREFUSED {
		t.Fatal(err)
	}
	for i, at := range []string{"93.184.216.34:443", "[2606:2800::1]:80", "[::ffff:1.2.3.4]:15001"} {
		if err := unix.Connect(v.fds[i], sockaddr(at)); err != unix.ECONNREFUSED {
			t.Fatalf("connect %s: %v", at, err)
		}
		want := netip.MustParseAddrPort(at)
		want = netip.AddrPortFrom(want.Addr().Unmap(), want.Port())
		select {
		case r := <-told:
			if r.Destination != want || r.Lost != 0 || r.Source.Addr() != Own4 && r.Source.Addr() != Own6 {
				t.Errorf("%s: %+v", at, r)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s isn't told", at)
		}
	}
	if err := unix.Sendto(v.fds[5], []byte("x"), unix.MSG_FASTOPEN, sockaddr("9.9.9.9:1")); err != unix.ECONNREFUSED {
		t.Errorf("MSG_FASTOPEN: %v", err)
	}
	if r := <-told; r.Destination.String() != "9.9.9.9:1" {
		t.Errorf("MSG_FASTOPEN: %+v", r)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestRefusalsLost: who floods makes the kernel drop what isn't read in time, and how many is known.
func TestRefusalsLost(t *testing.T) {
	const attempts = 3000
	v := visit(t, nil, tcp4, tcp4)
	v.open(t)
	if err := v.Admit(Reach{}); err != nil {
		t.Fatal(err)
	}
	for range attempts { // nobody reads
		if err := unix.Connect(v.fds[0], sockaddr("93.184.216.34:443")); err != unix.ECONNREFUSED {
			t.Fatal(err)
		}
	}
	told, lost, last := 0, 0, make(chan struct{})
	ended := make(chan error)
	ctx, cancel := context.WithCancel(t.Context())
	once := sync.OnceFunc(func() { close(last) })
	go func() {
		ended <- v.Refusals(ctx, func(r Refusal) {
			told, lost = told+1, lost+r.Lost
			if r.Destination.Port() == 1 {
				once()
			}
		})
	}()
	for deadline, heard := time.Now().Add(10*time.Second), false; !heard && time.Now().Before(deadline); {
		if err := unix.Connect(v.fds[1], sockaddr("93.184.216.34:1")); err != unix.ECONNREFUSED {
			t.Fatal(err)
		}
		select {
		case <-last:
			heard = true
		case <-time.After(20 * time.Millisecond): // it was lost too: the socket is full until somebody has read
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if told+lost <= attempts || lost == 0 {
		t.Errorf("%d told, %d lost, of more than %d", told, lost, attempts)
	}
}

// TestWithoutLog: a kernel that can't tell refuses all the same.
func TestWithoutLog(t *testing.T) {
	for _, plan := range []Plan{AnyIP(true, false), AnyIP(true, true).WithoutDatagrams()} {
		if err := Works(plan); err != nil {
			t.Error(err)
		}
	}
	v := visit(t, func(p *Plan) { *p = AnyIP(true, false) }, tcp4)
	v.open(t)
	if err := v.Admit(Reach{}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Connect(v.fds[0], sockaddr("93.184.216.34:443")); err != unix.ECONNREFUSED {
		t.Error(err)
	}
	if err := v.Refusals(t.Context(), func(Refusal) { t.Error("told") }); err != nil || v.Plan().Tells() {
		t.Error(err)
	}
}

// TestDatagramsAreRelayed: datagrams that are admitted come to the relay with where they were for, and are answered from there; others are refused at once.
func TestDatagramsAreRelayed(t *testing.T) {
	v := visit(t, nil, udp4, udp6, udp4, udp4, udp4, udp4)
	s, err := v.Open()
	if err != nil {
		t.Fatal(err)
	}
	ranges := [][2]netip.Addr{span("8.8.8.8-8.8.8.8"), span("2600::1-2600::1")}
	if err := v.Admit(Reach{Ranges: ranges}); err != nil {
		t.Fatal(err)
	}
	if err := refusal(v.fds[2], "8.8.8.8:443"); err != unix.ECONNREFUSED {
		t.Errorf("where only connections are let out: %v", err)
	}
	if err := v.Admit(Reach{ranges, true}); err != nil {
		t.Fatal(err)
	}
	for i, at := range []string{"8.8.8.8:9053", "[2600::1]:9053"} {
		if err := unix.Connect(v.fds[i], sockaddr(at)); err != nil {
			t.Fatal(err)
		}
		if _, err := unix.Write(v.fds[i], []byte("ping")); err != nil {
			t.Fatal(err)
		}
		buffer, beside := make([]byte, 64), make([]byte, 128)
		conn := s.Datagrams[i]
		if err := conn.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
			t.Fatal(err)
		}
		n, controlled, _, from, err := conn.ReadMsgUDPAddrPort(buffer, beside)
		if err != nil || string(buffer[:n]) != "ping" {
			t.Fatalf("%s: %q, %v", at, buffer[:n], err)
		}
		to, err := DatagramDestination(beside[:controlled])
		if err != nil || to != netip.MustParseAddrPort(at) {
			t.Errorf("%s: was for %v, %v", at, to, err)
		}
		from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
		for _, answer := range []string{"pong", "odd", strings.Repeat("x", 60000)} {
			if err := v.Answer(to, from, []byte(answer)); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, 1<<16)
			n, err := unix.Read(v.fds[i], got)
			if err != nil || string(got[:max(n, 0)]) != answer {
				t.Errorf("%s: %d bytes, %v", at, n, err)
			}
		}
	}
	for i, at := range []string{"8.8.8.9:9053", "127.0.0.1:15001", "8.8.8.8:15001"} {
		if err := refusal(v.fds[3+i], at); err != unix.ECONNREFUSED {
			t.Errorf("%s: %v", at, err)
		}
	}
	if failed := v.failed(t); len(failed) != 0 {
		t.Errorf("not held: %v", failed)
	}
}
