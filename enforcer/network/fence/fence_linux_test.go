package fence

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	if act := os.Getenv("FENCE_TEST_ACT"); act != "" { // the pod's hand
		fmt.Print(hand(act))
		os.Exit(0)
	}
	if os.Geteuid() == 0 && os.Getenv("FENCE_TEST_APART") == "" {
		fmt.Fprintln(os.Stderr, apart())
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// apart executes the tests again in a network namespace of their own: a fence for a pod looks at what others have put into the namespace of its process, and
// that of the machine may have anything. It returns only when it can't.
func apart() error {
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	return unix.Exec("/proc/self/exe", os.Args, append(os.Environ(), "FENCE_TEST_APART=yes"))
}

// TestWorks: as root and as an ordinary user.
func TestWorks(t *testing.T) {
	if err := Works(AnyIP(true, true)); err != nil {
		t.Error(err)
	}
}

// visitor has sockets in a fence's namespace that belong to nobody's plan: what a program inside would have. The tests use them from outside, so that
// they need no right to enter.
type visitor struct {
	*Fence
	spare []Socket
	fds   []int
}

// visit makes a fence in a throw-away namespace. change makes it another than AnyIP.
func visit(t testing.TB, change func(*Plan), spare ...Socket) *visitor {
	t.Helper()
	p := AnyIP(true, true)
	if change != nil {
		change(&p)
	}
	with := p
	spare = append(spare, netlinkSockets()[:2]...) // somebody else's
	with.Sockets = append(slices.Clone(p.Sockets), spare...)
	fds, err := Elsewhere(with)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Hold(p, fds[:len(p.Sockets)])
	if err != nil {
		t.Fatal(err)
	}
	v := &visitor{Fence: f, spare: spare, fds: fds[len(p.Sockets):]}
	t.Cleanup(func() {
		f.Close()
		closeAll(v.fds)
	})
	return v
}

var (
	tcp4 = Socket{Domain: unix.AF_INET, Type: unix.SOCK_STREAM}
	tcp6 = Socket{Domain: unix.AF_INET6, Type: unix.SOCK_STREAM}
	udp4 = Socket{Domain: unix.AF_INET, Type: unix.SOCK_DGRAM}
	udp6 = Socket{Domain: unix.AF_INET6, Type: unix.SOCK_DGRAM}
)

// everywhere are all addresses.
var everywhere = [][2]netip.Addr{
	{netip.MustParseAddr("0.0.0.0"), netip.MustParseAddr("255.255.255.255")},
	{netip.MustParseAddr("::"), netip.MustParseAddr("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")},
}

// open opens the fence and lets everything through to the relay.
func (v *visitor) open(t testing.TB) *Sockets {
	t.Helper()
	s, err := v.Open()
	if err == nil {
		err = v.Admit(Reach{Ranges: everywhere})
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// failed are the rows of a check against the plan of AnyIP that don't hold.
func (v *visitor) failed(t testing.TB) []string {
	t.Helper()
	s, err := v.Observe()
	if err != nil {
		t.Fatal(err)
	}
	var controls []string
	for _, row := range Check(AnyIP(true, true), s.Namespaces[0], s) {
		if !row.Held {
			controls = append(controls, row.Control)
		}
	}
	return controls
}

func sockaddr(at string) unix.Sockaddr {
	to := netip.MustParseAddrPort(at)
	if to.Addr().Is4() {
		return &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())}
	}
	address := &unix.SockaddrInet6{Addr: to.Addr().WithZone("").As16(), Port: int(to.Port())}
	if to.Addr().Zone() != "" {
		address.ZoneId = loopbackIndex
	}
	return address
}

// refusal is what a datagram meets: the error that comes back for it.
func refusal(fd int, at string) error {
	if err := unix.Connect(fd, sockaddr(at)); err != nil {
		return err
	}
	if _, err := unix.Write(fd, []byte("x")); err != nil {
		return err
	}
	_, _, err := unix.Recvfrom(fd, make([]byte, 16), unix.MSG_DONTWAIT)
	return err
}

// TestClosed: before anybody opens the fence everything is refused at once, and nobody else gets its ports.
func TestClosed(t *testing.T) {
	v := visit(t, nil, tcp4, tcp6, tcp4, tcp6, udp4, udp6, udp4, tcp4)
	for i, at := range []string{"93.184.216.34:443", "[2606:2800::1]:443", "8.8.8.8:53", "[2001:4860:4860::8888]:53"} {
		if err := unix.Connect(v.fds[i], sockaddr(at)); err != unix.ECONNREFUSED {
			t.Errorf("connect %s: %v", at, err)
		}
	}
	for i, at := range []string{"8.8.8.8:53", "[2001:4860:4860::8888]:53", "8.8.8.8:443"} {
		if err := refusal(v.fds[4+i], at); err != unix.ECONNREFUSED {
			t.Errorf("datagram to %s: %v", at, err)
		}
	}
	if failed := v.failed(t); len(failed) != 0 {
		t.Errorf("not held: %v", failed)
	}
}

// TestRelayPortIsTaken: no other socket gets the relay's port or a share of it, closed or open.
func TestRelayPortIsTaken(t *testing.T) {
	for _, open := range []bool{false, true} {
		for _, at := range []string{"0.0.0.0:15001", "127.0.0.1:15001", "1.2.3.4:15001", "[::]:15001", "[::1]:15001", "[::ffff:1.2.3.4]:15001"} {
			spare := tcp4
			if netip.MustParseAddrPort(at).Addr().Is6() {
				spare = tcp6
			}
			v := visit(t, nil, spare)
			if open {
				if _, err := v.Open(); err != nil {
					t.Fatal(err)
				}
			}
			for _, option := range []int{unix.SO_REUSEADDR, unix.SO_REUSEPORT} {
				if err := unix.SetsockoptInt(v.fds[0], unix.SOL_SOCKET, option, 1); err != nil {
					t.Fatal(err)
				}
			}
			if err := unix.Bind(v.fds[0], sockaddr(at)); err != unix.EADDRINUSE {
				t.Errorf("open %t: bind %s: %v", open, at, err)
			}
		}
	}
}

// echo accepts one connection and says where it wanted to.
func (v *visitor) echo(t *testing.T, s *Sockets) {
	t.Helper()
	for _, l := range s.Relay {
		go func() {
			for {
				conn, err := l.AcceptTCP()
				if err != nil {
					return
				}
				at, err := Destination(conn)
				_, _ = fmt.Fprintf(conn, "%v%v", at, err)
				_ = conn.Close()
			}
		}()
	}
}

// TestDestinations: wherever a connection is for, and in whatever way it is begun, it arrives at the relay, which learns where it wanted to.
func TestDestinations(t *testing.T) {
	mptcp := Socket{Domain: unix.AF_INET, Type: unix.SOCK_STREAM, Protocol: unix.IPPROTO_MPTCP}
	listen := func(at string) func(*testing.T, int, int) {
		return func(t *testing.T, _, other int) {
			if err := errors.Join(unix.Bind(other, sockaddr(at)), unix.Listen(other, 1)); err != nil {
				t.Fatal(err)
			}
		}
	}
	option := func(level, name int) func(*testing.T, int, int) {
		return func(t *testing.T, fd, _ int) {
			if err := unix.SetsockoptInt(fd, level, name, 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, test := range []struct {
		what     string
		socket   Socket
		at, want string
		before   func(t *testing.T, fd, other int)
		fastopen bool
	}{
		{what: "IPv4", socket: tcp4, at: "93.184.216.34:443"},
		{what: "IPv6", socket: tcp6, at: "[2606:2800::1]:443"},
		{what: "mapped", socket: tcp6, at: "[::ffff:1.2.3.4]:80", want: "1.2.3.4:80"},
		{what: "metadata", socket: tcp4, at: "169.254.169.254:80"},
		{what: "link-local", socket: tcp6, at: "[fe80::1%lo]:80", want: "[fe80::1]:80"},
		{what: "private", socket: tcp4, at: "10.0.0.1:22"},
		{what: "class E", socket: tcp4, at: "240.0.0.1:80"},
		{what: "NAT64", socket: tcp6, at: "[64:ff9b::a9fe:a9fe]:80"},
		{what: "the proxy", socket: tcp4, at: "198.19.255.2:3128"},
		{what: "another's relay port", socket: tcp4, at: "1.2.3.4:15001"},
		{what: "MPTCP", socket: mptcp, at: "93.184.216.34:443"},
		{what: "MSG_FASTOPEN", socket: tcp4, at: "93.184.216.34:443", fastopen: true},
		{what: "SO_BINDTODEVICE lo", socket: tcp4, at: "93.184.216.34:443", before: func(t *testing.T, fd, _ int) {
			if err := unix.BindToDevice(fd, "lo"); err != nil {
				t.Fatal(err)
			}
		}},
		{what: "IP_BIND_ADDRESS_NO_PORT and an own source", socket: tcp4, at: "93.184.216.34:443", before: option(unix.SOL_IP, unix.IP_BIND_ADDRESS_NO_PORT)},
		{what: "the loopback's source", socket: tcp4, at: "93.184.216.34:443", before: func(t *testing.T, fd, _ int) {
			if err := unix.Bind(fd, sockaddr("127.0.0.1:0")); err != nil {
				t.Fatal(err)
			}
		}},
		// What a program listens on outside of the loopback it can't reach itself: the relay gets it.
		{what: "an own listener elsewhere", socket: tcp4, at: "1.2.3.4:7001", before: listen("1.2.3.4:7001")},
		{what: "an own wildcard listener elsewhere", socket: tcp4, at: "1.2.3.4:7001", before: listen("0.0.0.0:7001")},
		// The relay's to refuse.
		{what: "the relay itself", socket: tcp4, at: "127.0.0.1:15001"},
	} {
		t.Run(test.what, func(t *testing.T) {
			v := visit(t, nil, test.socket, tcp4)
			var err error
			v.echo(t, v.open(t))
			if test.before != nil {
				test.before(t, v.fds[0], v.fds[1])
			}
			if test.fastopen {
				err = unix.Sendto(v.fds[0], []byte("x"), unix.MSG_FASTOPEN, sockaddr(test.at))
			} else {
				err = unix.Connect(v.fds[0], sockaddr(test.at))
			}
			if err != nil {
				t.Fatal(err)
			}
			buffer := make([]byte, 64)
			n, err := unix.Read(v.fds[0], buffer)
			if want := test.want; err != nil || string(buffer[:max(n, 0)]) != cmpOr(want, test.at)+"<nil>" {
				t.Errorf("the relay says %q, %v", buffer[:max(n, 0)], err)
			}
			if failed := v.failed(t); len(failed) != 0 {
				t.Errorf("not held: %v", failed)
			}
		})
	}
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// TestOwnLoopback: programs inside talk to each other there, and to nobody else.
func TestOwnLoopback(t *testing.T) {
	v := visit(t, nil, tcp4, tcp4)
	if err := errors.Join(unix.Bind(v.fds[0], sockaddr("127.0.0.1:8080")), unix.Listen(v.fds[0], 1), unix.Connect(v.fds[1], sockaddr("127.0.0.1:8080"))); err != nil {
		t.Error(err)
	}
}

// TestDatagrams: what isn't for a name server is refused at once, and a question arrives whatever address it was for.
func TestDatagrams(t *testing.T) {
	spare := slices.Repeat([]Socket{udp4}, 5)
	v := visit(t, nil, append(spare, udp6, udp6, udp6, udp4)...)
	for i, test := range []struct {
		at   string
		want error
	}{
		{"8.8.8.8:443", unix.ECONNREFUSED}, {"169.254.169.254:123", unix.ECONNREFUSED}, {"224.0.0.251:5353", unix.ENETUNREACH},
		{"255.255.255.255:67", unix.EACCES}, {"239.1.2.3:53", unix.ENETUNREACH}, {"[2001:4860:4860::8888]:443", unix.ECONNREFUSED}, {"[ff0e::fb]:5353", unix.ENETUNREACH},
		{"[ff02::fb%lo]:53", unix.ENETUNREACH},
	} {
		if err := refusal(v.fds[i], test.at); err != test.want {
			t.Errorf("%s: %v, want %v", test.at, err, test.want)
		}
	}
	s, err := v.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := refusal(v.fds[8], "9.9.9.9:53"); err != unix.EAGAIN {
		t.Errorf("a question: %v", err)
	}
	buffer := make([]byte, 16)
	if err := s.Names[0].SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if n, from, err := s.Names[0].ReadFromUDPAddrPort(buffer); err != nil || n != 1 || from.Addr().Unmap() != Own4 {
		t.Errorf("%d bytes from %v, %v", n, from, err)
	}
}

// TestGroups: multicast and broadcast are refused at once, also by a socket that needs no route, since it names a device or has an address of its own.
func TestGroups(t *testing.T) {
	own := netip.AddrPortFrom(Own4, 0)
	for name, test := range map[string]struct {
		prepare func(fd int) error
		to      []string
	}{
		"of a device": {func(fd int) error { return unix.BindToDevice(fd, "lo") }, []string{"224.0.0.251:5353", "239.1.2.3:53", "255.255.255.255:67"}},
		"by an interface": {func(fd int) error {
			return unix.SetsockoptInet4Addr(fd, unix.SOL_IP, unix.IP_MULTICAST_IF, [4]byte{127, 0, 0, 1})
		},
			[]string{"224.0.0.251:5353", "239.1.2.3:53"}},
		"with an address": {func(fd int) error { return unix.Bind(fd, &unix.SockaddrInet4{Addr: own.Addr().As4()}) }, []string{"224.0.0.251:5353", "239.1.2.3:53", "255.255.255.255:67"}},
		"as it is":        {func(int) error { return nil }, []string{"255.255.255.255:67"}},
	} {
		v := visit(t, nil, slices.Repeat([]Socket{udp4}, len(test.to))...)
		for i, to := range test.to {
			if err := errors.Join(unix.SetsockoptInt(v.fds[i], unix.SOL_SOCKET, unix.SO_BROADCAST, 1), test.prepare(v.fds[i])); err != nil {
				t.Fatal(name, err)
			}
			if err := refusal(v.fds[i], to); err != unix.EPERM {
				t.Errorf("%s to %s: %v, want EPERM", name, to, err)
			}
		}
	}
}

// TestNoWayOutWithoutRules: the fence's own rules and routes are there to say no at once. Without them there still is no way.
func TestNoWayOutWithoutRules(t *testing.T) {
	v := visit(t, nil, tcp4, tcp6, tcp4, tcp6, udp4)
	v.open(t)
	v.change(t, transaction(flushRuleset()))
	for i, at := range []string{"93.184.216.34:443", "[2606:2800::1]:443"} {
		if err := unix.Connect(v.fds[i], sockaddr(at)); err != unix.ECONNREFUSED {
			t.Errorf("without rules: connect %s: %v", at, err)
		}
	}
	if failed := v.failed(t); !slices.Equal(failed, []string{"fence.ruleset", "fence.reach"}) {
		t.Errorf("without rules: not held: %v", failed)
	}
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		v.change(t, deleteLocalDefault(byte(family)))
	}
	for i, at := range []string{"93.184.216.34:443", "[2606:2800::1]:443", "8.8.8.8:53"} {
		if err := unix.Connect(v.fds[2+i], sockaddr(at)); err != unix.ENETUNREACH {
			t.Errorf("without routes: connect %s: %v", at, err)
		}
	}
	if failed := v.failed(t); !slices.Equal(failed, []string{"fence.routes", "fence.ruleset", "fence.reach"}) {
		t.Errorf("without routes: not held: %v", failed)
	}
}

func deleteLocalDefault(family byte) []byte {
	return message(unix.RTM_DELROUTE, unix.NLM_F_ACK, []byte{family, 0, 0, 0, unix.RT_TABLE_LOCAL, 0, unix.RT_SCOPE_NOWHERE, unix.RTN_LOCAL, 0, 0, 0, 0}, native32(unix.RTA_OIF, loopbackIndex))
}

// change does what somebody with CAP_NET_ADMIN in the namespace could.
func (v *visitor) change(t testing.TB, request []byte) {
	t.Helper()
	err := v.tryChange(request)
	if err != nil {
		t.Fatal(err)
	}
}

// TestEveryPartIsMissed leaves out one message, request, socket option or byte of the plan at a time: a row of the check says so.
func TestEveryPartIsMissed(t *testing.T) {
	full := AnyIP(true, true)
	parts := split(full.Netfilter)
	for i, part := range parts {
		if i == 0 || i == len(parts)-1 {
			continue // begin and end
		}
		if kind := native.Uint16(part[4:]) &^ nfTables; kind != unix.NFT_MSG_NEWRULE {
			continue // without its table or chain a rule is refused
		}
		v := visit(t, func(p *Plan) {
			p.Netfilter = transaction(slices.Concat(parts[1:i], parts[i+1:len(parts)-1])...)
		})
		if failed := v.failed(t); !slices.Contains(failed, "fence.ruleset") {
			t.Errorf("without message %d: not held: %v", i, failed)
		}
	}
	for i := range full.Route {
		if i == 0 {
			continue // without the loopback, the rest is refused
		}
		p := full
		p.Route = slices.Delete(slices.Clone(p.Route), i, i+1)
		if fds, err := Elsewhere(p); err != nil {
			t.Logf("without request %d: %v", i, err)
			continue
		} else {
			closeAll(fds)
		}
		v := visit(t, func(q *Plan) { *q = p })
		if failed := v.failed(t); len(failed) == 0 {
			t.Errorf("without request %d everything holds", i)
		}
	}
	for i, s := range full.Sockets {
		if s.Domain == unix.AF_NETLINK || s.Type == unix.SOCK_RAW {
			continue // which only listens, or only sends
		}
		for j, option := range s.Options {
			if option.Value == 0 { // is the default here; another system's may differ
				continue
			}
			v := visit(t, func(p *Plan) {
				p.Sockets = slices.Clone(p.Sockets)
				p.Sockets[i].Options = slices.Clone(s.Options)
				p.Sockets[i].Options[j].Value = 0
				if option.Name == unix.IPV6_V6ONLY { // both would want one port otherwise
					p.Sockets[i].Address = "[::]:15002"
				}
			})
			if failed := v.failed(t); !slices.Contains(failed, "fence.sockets") {
				t.Errorf("%s without option %d: not held: %v", s.Name, option.Name, failed)
			}
		}
		v := visit(t, func(p *Plan) {
			p.Sockets = slices.Clone(p.Sockets)
			p.Sockets[i].Options = append(slices.Clone(s.Options), Option{unix.SOL_SOCKET, unix.SO_REUSEPORT, 1})
		})
		if failed := v.failed(t); !slices.Contains(failed, "fence.sockets") {
			t.Errorf("%s with SO_REUSEPORT: not held: %v", s.Name, failed)
		}
	}
}

func split(data []byte) (parts [][]byte) {
	for len(data) > 0 {
		length := (int(native.Uint32(data)) + 3) &^ 3
		parts = append(parts, slices.Clone(data[:length]))
		data = data[length:]
	}
	return parts
}

// foreign are changes that somebody could make to a namespace, and the row that misses them.
var foreign = []struct {
	what    string
	request func() []byte
	row     string
}{
	{"another table", func() []byte {
		return transaction(nfMessage(nfTables|unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE, unix.NFPROTO_IPV4, 0, text(unix.NFTA_TABLE_NAME, "other")))
	}, "fence.ruleset"},
	{"one more rule", func() []byte { return transaction(rule("pre", accept())) }, "fence.ruleset"},
	{"one more chain", func() []byte {
		return transaction(baseChain("nat", "nat", unix.NF_INET_LOCAL_OUT, -100, 1))
	}, "fence.ruleset"},
	{"an element more", func() []byte {
		return transaction(addElements(reach4, []element{{address: netip.MustParseAddr("9.9.9.9")}, {netip.MustParseAddr("9.9.9.10"), true}}))
	}, "fence.reach"},
	{"no elements", func() []byte { return transaction(flushSet(reach4)) }, "fence.reach"},
	{"elements as they were, and something with them", func() []byte {
		noted := func(e element) []byte { // with a comment, as nft keeps it; it could be a time at which it ends
			parts := [][]byte{attribute(unix.NFTA_SET_ELEM_KEY, attribute(unix.NFTA_DATA_VALUE, e.address.AsSlice()))}
			if e.end {
				parts = append(parts, big32(unix.NFTA_SET_ELEM_FLAGS, unix.NFT_SET_ELEM_INTERVAL_END))
			} else {
				parts = append(parts, attribute(unix.NFTA_SET_ELEM_USERDATA, []byte("1234")))
			}
			return attribute(unix.NFTA_LIST_ELEM, parts...)
		}
		return transaction(flushSet(reach4), nfMessage(nfTables|unix.NFT_MSG_NEWSETELEM, unix.NLM_F_CREATE, unix.NFPROTO_INET, 0,
			text(unix.NFTA_SET_ELEM_LIST_TABLE, tableName), text(unix.NFTA_SET_ELEM_LIST_SET, reach4), attribute(unix.NFTA_SET_ELEM_LIST_ELEMENTS,
				noted(element{address: netip.MustParseAddr("8.0.0.0")}), noted(element{netip.MustParseAddr("9.0.0.0"), true}))))
	}, "fence.reach"},
	{"another set", func() []byte { return transaction(newSet("other", typeIPv4, 4, 1)) }, "fence.ruleset"},
	{"no rules", func() []byte { return transaction(flushRuleset()) }, "fence.ruleset"},
	{"the loopback down", func() []byte {
		return message(unix.RTM_NEWLINK, unix.NLM_F_ACK, []byte{0, 0, 0, 0}, native.AppendUint32(nil, 1), make([]byte, 4), native.AppendUint32(nil, unix.IFF_UP))
	}, "fence.links"},
	{"another link", func() []byte {
		return message(unix.RTM_NEWLINK, anew&^unix.NLM_F_REPLACE, make([]byte, 16), attribute(unix.IFLA_LINKINFO, text(unix.IFLA_INFO_KIND, "veth")))
	}, "fence.links"},
	{"another address", func() []byte { return newAddress(netip.MustParseAddr("10.1.2.3")) }, "fence.addresses"},
	{"no local route", func() []byte { return deleteLocalDefault(unix.AF_INET) }, "fence.routes"},
	{"a route", func() []byte {
		return message(unix.RTM_NEWROUTE, anew, []byte{unix.AF_INET, 8, 0, 0, unix.RT_TABLE_MAIN, unix.RTPROT_STATIC, unix.RT_SCOPE_LINK, unix.RTN_UNICAST, 0, 0, 0, 0},
			attribute(unix.RTA_DST, []byte{10, 0, 0, 0}), native32(unix.RTA_OIF, loopbackIndex))
	}, "fence.routes"},
	{"a policy rule", func() []byte {
		return message(unix.RTM_NEWRULE, unix.NLM_F_ACK|unix.NLM_F_CREATE, []byte{unix.AF_INET, 0, 0, 0, 100, 0, 0, unix.FR_ACT_TO_TBL, 0, 0, 0, 0}, native32(unix.FRA_PRIORITY, 5))
	}, "fence.policy routing"},
	{"a scheduler that takes actions", func() []byte {
		body := append(make([]byte, 4), native.AppendUint32(nil, loopbackIndex)...)
		body = native.AppendUint32(body, 0xffff0000) // TC_H_MAKE(TC_H_CLSACT, 0)
		body = native.AppendUint32(body, 0xfffffff1) // TC_H_CLSACT
		return message(unix.RTM_NEWQDISC, unix.NLM_F_ACK|unix.NLM_F_CREATE, append(body, make([]byte, 4)...), text(unix.TCA_KIND, "clsact"))
	}, "fence.schedulers"},
}

// TestDrift: each foreign change is noticed by Watch, and told by Check; Repair gives back what is the fence's own.
func TestDrift(t *testing.T) {
	for _, test := range foreign {
		t.Run(test.what, func(t *testing.T) {
			v := visit(t, nil)
			if err := v.Admit(Reach{Ranges: [][2]netip.Addr{{netip.MustParseAddr("8.0.0.0"), netip.MustParseAddr("8.255.255.255")}}}); err != nil {
				t.Fatal(err)
			}
			changed := make(chan struct{}, 64)
			ctx, cancel := context.WithCancel(t.Context())
			watched := make(chan error, 1)
			go func() { watched <- v.Watch(ctx, func() { changed <- struct{}{} }) }()
			err := v.tryChange(test.request())
			if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOENT) {
				cancel()
				<-watched
				t.Skipf("this kernel can't: %v", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			select {
			case <-changed:
			case <-time.After(10 * time.Second):
				t.Error("not noticed")
			}
			cancel()
			if err := <-watched; err != nil {
				t.Error(err)
			}
			if failed := v.failed(t); !slices.Contains(failed, test.row) {
				t.Errorf("not held: %v, want %s among them", failed, test.row)
			}
			if err := v.Repair(); err != nil {
				t.Error(err)
			}
			failed := v.failed(t)
			ours := slices.Contains([]string{"fence.ruleset", "fence.reach", "the loopback down"}, test.row) || test.what == "no local route"
			if ours && len(failed) != 0 {
				t.Errorf("repaired, and not held: %v", failed)
			}
		})
	}
}

func (v *visitor) tryChange(request []byte) error {
	if len(v.spare) < 2 || v.spare[len(v.spare)-1].Name != socketNetfilter { // nobody but the fence has a socket there
		v.asking.Lock()
		defer v.asking.Unlock()
		return v.onNetlink(func(netfilter, route int) error { return askEither(netfilter, route, request) })
	}
	return askEither(v.fds[len(v.fds)-1], v.fds[len(v.fds)-2], request)
}

func askEither(netfilter, route int, request []byte) error {
	// The number that begins a transaction is also RTM_NEWLINK's.
	if kind := native.Uint16(request[4:]); kind > unix.RTM_NEWLINK || native.Uint32(request) > 20 {
		return ask(route, request)
	}
	return ask(netfilter, request)
}

// TestShut: what is shut stays so; its port stays ours.
func TestShut(t *testing.T) {
	v := visit(t, nil, tcp4, udp4, tcp4, tcp4)
	v.open(t)
	if err := unix.Connect(v.fds[0], sockaddr("1.2.3.4:80")); err != nil {
		t.Fatal(err)
	}
	if err := v.Shut(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Connect(v.fds[2], sockaddr("1.2.3.4:80")); err != unix.ECONNREFUSED {
		t.Errorf("connect: %v", err)
	}
	if err := refusal(v.fds[1], "1.2.3.4:53"); err != unix.ECONNREFUSED {
		t.Errorf("a question: %v", err)
	}
	if _, err := unix.Read(v.fds[0], make([]byte, 1)); err != unix.ECONNRESET {
		t.Errorf("who wasn't accepted yet: %v", err)
	}
	if err := unix.Bind(v.fds[3], sockaddr("0.0.0.0:15001")); err != unix.EADDRINUSE {
		t.Errorf("bind: %v", err)
	}
	if _, err := v.Open(); err == nil {
		t.Error("opened again")
	}
}

// TestClose: whoever uses a fence that is closed is told so, and nothing is left.
func TestClose(t *testing.T) {
	before := descriptors(t)
	v := visit(t, nil)
	s, err := v.Open()
	if err != nil {
		t.Fatal(err)
	}
	watched := make(chan error, 1)
	go func() { watched <- v.Watch(context.Background(), func() {}) }()
	v.Close()
	if err := <-watched; err != nil {
		t.Error(err)
	}
	if _, err := v.Observe(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("observe: %v", err)
	}
	if _, err := s.Relay[0].Accept(); err == nil {
		t.Error("accepts")
	}
	if _, err := v.Open(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("open: %v", err)
	}
	closeAll(v.fds)
	v.fds = nil
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil && err != io.EOF {
		t.Fatal(err)
	}
	return len(names)
}
