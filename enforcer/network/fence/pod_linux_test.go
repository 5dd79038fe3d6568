package fence

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/test/kerneltest"
)

// Uids of the test's pod.
const (
	runnerUID   = 412001
	daemonUID   = 412002
	strangerUID = 412003
)

func podSpec() PodSpec {
	return PodSpec{Runner: []uint32{runnerUID}, Allowed: []uint32{0, daemonUID}, Ports: []uint16{7780}, IPv6: true}
}

func podPlan(t testing.TB, s PodSpec) Plan {
	t.Helper()
	p, err := Pod(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPodRefuses(t *testing.T) {
	for _, s := range []PodSpec{{}, {Runner: []uint32{5}, Allowed: []uint32{0, 5}}} {
		if _, err := Pod(s); err == nil {
			t.Errorf("%+v is accepted", s)
		}
	}
}

// TestPodWorks: what is sent is what is read back.
func TestPodWorks(t *testing.T) {
	kerneltest.Require(t, kerneltest.Root) // the names of legacy tables are for root to read
	for _, persist := range []bool{false, true} {
		s := podSpec()
		s.Persist = persist
		if err := podWorks(podPlan(t, s)); persist && errors.Is(err, unix.EOPNOTSUPP) && !kerneltest.Kernel("6.9") {
			t.Log("tables that persist need Linux 6.9: ", err)
		} else if err != nil {
			t.Errorf("persist %t: %v", persist, err)
		}
	}
}

// podWorks is Works in a namespace whose loopback is up, as a pod's is.
func podWorks(p Plan) error {
	p.Route = [][]byte{linkUp(loopbackIndex)}
	return Works(p)
}

// pod is a namespace with a link to another one, in which somebody sniffs.
type pod struct {
	holder  *exec.Cmd
	fence   *Fence
	sockets *Sockets
	sniffer int
}

// makePod needs root, ip(8) and nsenter(1).
func makePod(t *testing.T) *pod {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not root: uids are what this is about")
	}
	for _, tool := range []string{"ip", "nsenter", "setpriv"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	inside, outside := holdNamespace(t), holdNamespace(t)
	for _, line := range []string{
		fmt.Sprintf("%d link add eth0 type veth peer name eth0 netns %d", inside.Process.Pid, outside.Process.Pid),
		fmt.Sprintf("%d link set lo up", inside.Process.Pid), fmt.Sprintf("%d link set eth0 up", outside.Process.Pid), fmt.Sprintf("%d link set eth0 up", inside.Process.Pid),
		fmt.Sprintf("%d addr add 192.0.2.2/24 dev eth0", inside.Process.Pid), fmt.Sprintf("%d addr add 2001:db8:1::2/64 dev eth0 nodad", inside.Process.Pid),
		fmt.Sprintf("%d addr add 192.0.2.1/24 dev eth0", outside.Process.Pid), fmt.Sprintf("%d addr add 2001:db8:1::1/64 dev eth0 nodad", outside.Process.Pid),
		fmt.Sprintf("%d route add default via 192.0.2.1", inside.Process.Pid), fmt.Sprintf("%d -6 route add default via 2001:db8:1::1", inside.Process.Pid),
	} {
		pid, args, _ := strings.Cut(line, " ")
		if out, err := exec.Command("nsenter", append([]string{"-n", "-t", pid, "ip"}, strings.Fields(args)...)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v\n%s", args, err, out)
		}
	}
	p := &pod{holder: inside}
	within(t, outside, func() error {
		var err error
		p.sniffer, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0x0300 /* ETH_P_ALL, network order */)
		return err
	})
	within(t, inside, func() error {
		plan := podPlan(t, podSpec())
		fds, err := Apply(plan, Here)
		if err != nil {
			return err
		}
		if p.fence, err = Hold(plan, fds); err != nil {
			return err
		}
		p.sockets, err = p.fence.Open()
		return err
	})
	t.Cleanup(func() {
		p.fence.Close()
		unix.Close(p.sniffer)
	})
	for _, l := range p.sockets.Relay {
		go func() {
			for {
				conn, err := l.AcceptTCP()
				if err != nil {
					return
				}
				at, err := OriginalDestination(conn)
				_, _ = fmt.Fprintf(conn, "relay %v %v", at, err)
				_ = conn.Close()
			}
		}()
	}
	return p
}

// holdNamespace is a process that keeps a network namespace.
func holdNamespace(t *testing.T) *exec.Cmd {
	t.Helper()
	holder := exec.Command("/bin/sleep", "300")
	holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = holder.Process.Kill()
		_ = holder.Wait()
	})
	return holder
}

// within does something in the network namespace of a process, on a thread that isn't used again.
func within(t *testing.T, holder *exec.Cmd, do func() error) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		namespace, err := os.Open("/proc/" + strconv.Itoa(holder.Process.Pid) + "/ns/net")
		if err != nil {
			done <- err
			return
		}
		defer namespace.Close()
		if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- err
			return
		}
		done <- do()
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// as runs this program's hand in the pod as some uid, and gives what it says.
func (p *pod) as(t *testing.T, uid int, act string, extra ...*os.File) string {
	t.Helper()
	id := strconv.Itoa(uid)
	command := exec.Command("nsenter", "-n", "-t", strconv.Itoa(p.holder.Process.Pid), "setpriv", "--reuid", id, "--regid", id, "--clear-groups",
		"--inh-caps=-all", "--bounding-set=-all", "--no-new-privs", "/proc/self/fd/3")
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	command.ExtraFiles = append([]*os.File{self}, extra...)
	command.Env = append(os.Environ(), "FENCE_TEST_ACT="+act)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", act, err, out)
	}
	return string(out)
}

// hand is what as runs: "tcp ADDRESS", with words before the address for how.
func hand(act string) string {
	words := strings.Fields(act)
	at := words[len(words)-1]
	has := func(word string) bool { return strings.Contains(" "+act+" ", " "+word+" ") }
	family, kind, protocol := unix.AF_INET, unix.SOCK_STREAM, 0
	if strings.HasPrefix(at, "[") {
		family = unix.AF_INET6
	}
	if has("udp") {
		kind = unix.SOCK_DGRAM
	}
	if has("udplite") {
		kind, protocol = unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE
	}
	if has("mptcp") {
		protocol = unix.IPPROTO_MPTCP
	}
	fd := 4 // the inherited one
	if !has("inherited") {
		var err error
		if fd, err = unix.Socket(family, kind, protocol); err != nil {
			return err.Error()
		}
	}
	limit := unix.Timeval{Usec: 700_000}
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit)
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit)
	var err error
	if has("device") {
		err = unix.BindToDevice(fd, "eth0")
	}
	if has("source") {
		err = unix.Bind(fd, sockaddr("192.0.2.2:0"))
	}
	if has("broadcast") {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BROADCAST, 1)
	}
	if err != nil {
		return err.Error()
	}
	if has("fastopen") {
		err = unix.Sendto(fd, []byte("x"), unix.MSG_FASTOPEN, sockaddr(at))
	} else {
		err = unix.Connect(fd, sockaddr(at))
	}
	if err == nil && kind == unix.SOCK_DGRAM {
		_, err = unix.Write(fd, []byte("x"))
	}
	if err != nil {
		return err.Error()
	}
	buffer := make([]byte, 128)
	n, err := unix.Read(fd, buffer)
	if err != nil {
		return err.Error()
	}
	return string(buffer[:n])
}

// sniffed are the packets that came out at the far end, without those of neighbours and groups that the kernel sends by itself.
func (p *pod) sniffed() (packets []string) {
	buffer := make([]byte, 2048)
	for {
		n, from, err := unix.Recvfrom(p.sniffer, buffer, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return packets
		}
		link, ok := from.(*unix.SockaddrLinklayer)
		if !ok || link.Pkttype == unix.PACKET_OUTGOING {
			continue
		}
		packet := buffer[:n]
		switch {
		case n >= 20 && packet[0]>>4 == 4 && link.Protocol == 0x0008:
			packets = append(packets, fmt.Sprintf("IPv4 protocol %d to %v", packet[9], packet[16:20]))
		case n >= 40 && packet[0]>>4 == 6 && link.Protocol == 0xdd86 && packet[6] != unix.IPPROTO_ICMPV6 && packet[6] != 0:
			packets = append(packets, fmt.Sprintf("IPv6 next header %d to %x", packet[6], packet[24:40]))
		}
	}
}

// TestPod: whatever the runner tries, it meets the relay or a refusal, and nothing of it is seen at the far end of the link.
func TestPod(t *testing.T) {
	p := makePod(t)
	for _, test := range []struct{ act, want string }{
		{"tcp 203.0.113.9:80", "relay 203.0.113.9:80 <nil>"},
		{"tcp [2001:db8:9::9]:80", "relay [2001:db8:9::9]:80 <nil>"},
		{"tcp [::ffff:203.0.113.9]:80", "relay 203.0.113.9:80 <nil>"},
		{"mptcp 203.0.113.9:80", "relay 203.0.113.9:80 <nil>"},
		{"tcp fastopen 203.0.113.9:80", "relay 203.0.113.9:80 <nil>"},
		{"tcp source 203.0.113.9:80", "relay 203.0.113.9:80 <nil>"},
		{"tcp 192.0.2.1:22", "relay 192.0.2.1:22 <nil>"},
		{"tcp 169.254.169.254:80", "relay 169.254.169.254:80 <nil>"},
		// The leak: after the redirect the packet would leave by eth0 for 127.0.0.1.
		{"tcp device 203.0.113.9:80", "operation now in progress|resource temporarily unavailable|connection timed out"},
		{"udp device 203.0.113.9:53", "resource temporarily unavailable|operation not permitted"},
		{"udp 203.0.113.9:443", "operation not permitted|permission denied|no route to host"},
		{"udp [2001:db8:9::9]:443", "operation not permitted|permission denied|no route to host"},
		{"udplite 203.0.113.9:443", "operation not permitted|permission denied|no route to host|protocol not supported"},
		{"udp broadcast 192.0.2.255:67", "operation not permitted|permission denied|no route to host"},
		{"udp 224.0.0.251:5353", "operation not permitted|permission denied|no route to host"},
		{"udp device 224.0.0.251:5353", "operation not permitted|permission denied|no route to host"},
		{"tcp 127.0.0.1:15001", "connection refused"}, {"tcp 127.9.9.9:15001", "connection refused"}, {"tcp 192.0.2.2:15001", "connection refused"},
		{"tcp [::1]:15001", "connection refused"}, {"tcp 0.0.0.0:15001", "connection refused"}, {"tcp 127.0.0.1:7780", "connection refused"},
		{"tcp 127.0.0.1:15053", "connection refused"}, {"udp 127.0.0.1:15053", "operation not permitted"},
	} {
		got := p.as(t, runnerUID, test.act)
		if !strings.Contains("|"+test.want+"|", "|"+got+"|") {
			t.Errorf("%s: %q, want %s", test.act, got, test.want)
		}
		if packets := p.sniffed(); len(packets) != 0 {
			t.Errorf("%s: at the far end: %v", test.act, packets)
		}
	}
	// A question arrives, whichever server it was for.
	p.as(t, runnerUID, "udp 8.8.8.8:53")
	if err := p.sockets.Names[0].SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := p.sockets.Names[0].ReadFromUDP(make([]byte, 16)); err != nil {
		t.Errorf("a question: %v", err)
	}
	// A socket that somebody else made goes by its maker, who may not send either.
	var file *os.File
	within(t, p.holder, func() error {
		fd, err := socketAs(strangerUID)
		file = os.NewFile(uintptr(fd), "socket")
		return err
	})
	defer file.Close()
	got := p.as(t, runnerUID, "tcp inherited 203.0.113.9:80", file)
	if packets := p.sniffed(); len(packets) != 0 || strings.HasPrefix(got, "relay") {
		t.Errorf("an inherited socket: %q, at the far end: %v", got, packets)
	}
	for _, act := range []string{"tcp 203.0.113.9:80", "udp 203.0.113.9:443"} {
		if got := p.as(t, strangerUID, act); strings.HasPrefix(got, "relay") {
			t.Errorf("a stranger, %s: %q", act, got)
		}
		if packets := p.sniffed(); len(packets) != 0 {
			t.Errorf("a stranger, %s: at the far end: %v", act, packets)
		}
	}
	// And that the sniffer would have seen it:
	p.as(t, daemonUID, "udp 192.0.2.1:443")
	if packets := p.sniffed(); len(packets) == 0 {
		t.Error("nothing of the daemon's is seen at the far end")
	}
	p.check(t)
}

// socketAs makes a TCP socket with another fsuid, which is what a packet of it is judged by.
func socketAs(uid int) (int, error) {
	if _, _, errno := unix.RawSyscall(unix.SYS_SETFSUID, uintptr(uid), 0, 0); errno != 0 {
		return -1, errno
	}
	return unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
}

func (p *pod) check(t *testing.T) {
	t.Helper()
	state, err := p.fence.Observe()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range Check(p.fence.Plan(), state.Namespaces[0], state) {
		if !row.Held {
			t.Errorf("%s: want %s, got %s", row.Control, row.Want, row.Got)
		}
	}
}

// TestPodWithoutTheLastLook: the rule after routing is what stands against SO_BINDTODEVICE. Without it the attack gets out, so that the test above proves it.
func TestPodWithoutTheLastLook(t *testing.T) {
	p := makePod(t)
	parts := split(p.fence.plan.Netfilter)
	var kept [][]byte
	for _, part := range parts[1 : len(parts)-1] {
		if !bytes.Contains(part, []byte("post\x00")) || native.Uint16(part[4:]) != nfTables|unix.NFT_MSG_NEWRULE {
			kept = append(kept, part)
		}
	}
	v := &visitor{Fence: p.fence}
	v.change(t, transaction(append([][]byte{flushRuleset()}, kept...)...))
	p.as(t, runnerUID, "tcp device 203.0.113.9:80")
	if packets := p.sniffed(); len(packets) == 0 {
		t.Skip("this kernel doesn't leak it without the rule either")
	} else {
		t.Logf("without the rule: %v", packets)
	}
	state, err := p.fence.Observe()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range Check(p.fence.Plan(), state.Namespaces[0], state) {
		if row.Control == "fence.ruleset" && row.Held {
			t.Error("the missing rule isn't missed")
		}
	}
}

// TestPodPersists: with an owner nobody else changes the table, and it stays when the owner's socket is gone.
func TestPodPersists(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root: entering the namespace again takes it")
	}
	if !kerneltest.Kernel("6.9") {
		t.Skip("tables that persist need Linux 6.9")
	}
	holder := holdNamespace(t)
	s := podSpec()
	s.Persist = true
	plan := podPlan(t, s)
	plan.Route = [][]byte{linkUp(loopbackIndex)}
	var f *Fence
	within(t, holder, func() error {
		fds, err := Apply(plan, Here)
		if err == nil {
			f, err = Hold(plan, fds)
		}
		return err
	})
	foreign := transaction(nfMessage(nfTables|unix.NFT_MSG_DELTABLE, 0, unix.NFPROTO_INET, 0, text(unix.NFTA_TABLE_NAME, tableName)))
	within(t, holder, func() error {
		fd, err := Here(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := ask(fd, foreign); !errors.Is(err, unix.EPERM) {
			t.Errorf("another deletes the table: %v", err)
		}
		return nil
	})
	f.Close()
	within(t, holder, func() error {
		fd, err := Here(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		var state State
		if err := observeRuleset(fd, make([]byte, 64<<10), &state); err != nil {
			return err
		}
		if len(state.Ruleset) == 0 {
			t.Error("the table went with its owner")
		}
		return nil
	})
}

// TestPodEveryRuleIsMissed leaves out one rule at a time.
func TestPodEveryRuleIsMissed(t *testing.T) {
	kerneltest.Require(t, kerneltest.Root) // the names of legacy tables are for root to read
	full := podPlan(t, podSpec())
	full.Route = [][]byte{linkUp(loopbackIndex)}
	parts := split(full.Netfilter)
	for i := range parts {
		if native.Uint16(parts[i][4:]) != nfTables|unix.NFT_MSG_NEWRULE {
			continue
		}
		v := visit(t, func(p *Plan) {
			*p = full
			p.Netfilter = transaction(append(append([][]byte{}, parts[1:i]...), parts[i+1:len(parts)-1]...)...)
		})
		state, err := v.Observe()
		if err != nil {
			t.Fatal(err)
		}
		if !fails(full, state, "fence.ruleset") {
			t.Errorf("without message %d everything holds", i)
		}
	}
}

func fails(p Plan, s State, control string) bool {
	for _, row := range Check(p, s.Namespaces[0], s) {
		if row.Control == control {
			return !row.Held
		}
	}
	return false
}

// TestPodForeign: what others have put there that could send the runner's packets elsewhere.
func TestPodForeign(t *testing.T) {
	kerneltest.Require(t, kerneltest.Root) // the names of legacy tables are for root to read
	plan := podPlan(t, podSpec())
	plan.Route = [][]byte{linkUp(loopbackIndex)}
	v := visit(t, func(p *Plan) { *p = plan })
	held, err := v.Observe()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		row    string
		change func(*State)
	}{
		{"fence.foreign rules", func(s *State) { s.Ruleset = append(s.Ruleset, "table ip nat 00") }},
		{"fence.foreign rules", func(s *State) { s.Legacy = []string{"iptables nat"} }},
		{"fence.ruleset", func(s *State) { s.Ruleset = append(s.Ruleset, "chain inet sandboxd more 00") }},
		{"fence.xdp", func(s *State) { s.Links = append(s.Links, "eth0 up xdp") }},
		{"fence.schedulers", func(s *State) { s.Qdiscs = append(s.Qdiscs, "eth0 clsact") }},
		{"fence.policy routing", func(s *State) { s.Rules = append(s.Rules, "ip 5: table 100") }},
		{"fence.sockets", func(s *State) { s.Sockets[4] += " SO_REUSEPORT" }},
		{"fence.namespace", func(s *State) { s.Namespaces[5]++ }},
	} {
		s := held
		s.Namespaces, s.Sockets = append([]uint64{}, held.Namespaces...), append([]string{}, held.Sockets...)
		if fails(plan, s, test.row) {
			t.Errorf("%s doesn't hold before", test.row)
		}
		test.change(&s)
		if !fails(plan, s, test.row) {
			t.Errorf("%s holds", test.row)
		}
	}
	if len(plan.Unseen()) == 0 || len(AnyIP(true, true).Unseen()) != 0 {
		t.Error("what can't be seen")
	}
}

// TestPodAgain: a table that somebody has changed, or that a daemon left behind that died, is replaced whole; with an owner by the next owner.
func TestPodAgain(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root: entering the namespace again takes it")
	}
	for _, persist := range []bool{false, true} {
		if persist && !kerneltest.Kernel("6.9") {
			t.Log("tables that persist need Linux 6.9")
			continue
		}
		holder, s := holdNamespace(t), podSpec()
		s.Persist = persist
		plan := podPlan(t, s)
		plan.Route = [][]byte{linkUp(loopbackIndex)}
		var f *Fence
		hold := func() {
			within(t, holder, func() error {
				fds, err := Apply(plan, Here)
				if err == nil {
					f, err = Hold(plan, fds)
				}
				return err
			})
		}
		held := func(what string, want bool) {
			t.Helper()
			within(t, holder, func() error {
				state, err := f.Observe()
				if err != nil {
					return err
				}
				good := true
				for _, row := range Check(plan, state.Namespaces[0], state) {
					good = good && row.Held
				}
				if good != want {
					t.Errorf("persist %t, %s: held %t", persist, what, good)
				}
				return nil
			})
		}
		hold()
		held("made", true)
		if !persist { // else nobody else can
			within(t, holder, func() error {
				fd, err := Here(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER)
				if err != nil {
					return err
				}
				defer unix.Close(fd)
				return ask(fd, transaction(deleteTable()))
			})
			held("deleted by somebody", false)
		}
		if err := f.Repair(); err != nil {
			t.Fatal(err)
		}
		held("repaired", true)
		f.Close()
		hold()
		held("made by the next one", true)
		f.Close()
	}
}
