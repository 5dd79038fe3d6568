package runner

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer/network/fence"
)

// networkActs are what a program in a sandbox may try against its fence. It has the child's ids and no capability, and, other than a child, neither Landlock
// nor seccomp: the fence stands by itself.
var networkActs = map[string]func() string{
	"raw":              opensSocket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP),
	"packet":           opensSocket(unix.AF_PACKET, unix.SOCK_RAW, 0),
	"mark":             sets(unix.SOL_SOCKET, unix.SO_MARK),
	"transparent":      sets(unix.SOL_IP, unix.IP_TRANSPARENT),
	"free bind":        sets(unix.SOL_IP, unix.IP_FREEBIND),
	"take port 53":     bindsTo("0.0.0.0:53"),
	"take the relay":   bindsTo("0.0.0.0:15001"),
	"flush rules":      asks(unix.NETLINK_NETFILTER, batch(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_DELTABLE)),
	"read rules":       asks(unix.NETLINK_NETFILTER, netlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_GETTABLE, unix.NLM_F_DUMP, make([]byte, 4))),
	"flush a route":    asks(unix.NETLINK_ROUTE, netlinkRequest(unix.RTM_DELROUTE, unix.NLM_F_ACK, []byte{unix.AF_INET, 0, 0, 0, 255, 0, 255, unix.RTN_LOCAL, 0, 0, 0, 0})),
	"lo down":          asks(unix.NETLINK_ROUTE, netlinkRequest(unix.RTM_NEWLINK, unix.NLM_F_ACK, append([]byte{0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0}, 1, 0, 0, 0))),
	"a policy rule":    asks(unix.NETLINK_ROUTE, netlinkRequest(unix.RTM_NEWRULE, unix.NLM_F_ACK|unix.NLM_F_CREATE, []byte{unix.AF_INET, 0, 0, 0, 100, 0, 0, 1, 0, 0, 0, 0})),
	"tc":               asks(unix.NETLINK_ROUTE, netlinkRequest(unix.RTM_NEWQDISC, unix.NLM_F_ACK|unix.NLM_F_CREATE, append([]byte{0, 0, 0, 0, 1, 0, 0, 0}, make([]byte, 12)...))),
	"forwarding":       opens("/proc/sys/net/ipv4/ip_forward", unix.O_WRONLY),
	"privileged ports": opens("/proc/sys/net/ipv4/ip_unprivileged_port_start", unix.O_WRONLY),
	"nested: route":    nested("/usr/sbin/ip route flush table local"),
	"nested: link":     nested("/usr/sbin/ip link set lo down"),
	"nested: veth":     nested("/usr/sbin/ip link add veth8 type veth peer name veth9"),
	// The pair is made in a network namespace of the attacker's own, and one end pushed into the sandbox's.
	"nested: push":    nestedWith(unix.CLONE_NEWUSER|unix.CLONE_NEWNET, "/usr/sbin/ip link add veth8 type veth peer name veth9 && /usr/sbin/ip link set veth9 netns $PPID"),
	"nested: nothing": nested("true"),
}

func opensSocket(family, kind, protocol int) func() string {
	return func() string {
		fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, protocol)
		if err == nil {
			unix.Close(fd)
		}
		return outcomeOf(err)
	}
}

func sets(level, option int) func() string {
	return func() string {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return outcomeOf(err)
		}
		defer unix.Close(fd)
		return outcomeOf(unix.SetsockoptInt(fd, level, option, 1))
	}
}

func bindsTo(at string) func() string {
	return func() string {
		to := netip.MustParseAddrPort(at)
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return outcomeOf(err)
		}
		defer unix.Close(fd)
		for _, option := range []int{unix.SO_REUSEADDR, unix.SO_REUSEPORT} {
			if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, 1); err != nil {
				return outcomeOf(err)
			}
		}
		return outcomeOf(unix.Bind(fd, &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())}))
	}
}

// netlinkRequest is one message; order is the test's, which is little-endian on all that it runs on.
func netlinkRequest(kind, flags uint16, body []byte) []byte {
	data := order.AppendUint32(nil, uint32(16+len(body)))
	data = order.AppendUint16(data, kind)
	data = order.AppendUint16(data, unix.NLM_F_REQUEST|flags)
	return append(append(data, 1, 0, 0, 0, 0, 0, 0, 0), body...)
}

// batch is a transaction of one message without a body.
func batch(kind uint16) []byte {
	begin := []byte{0, 0, 0, unix.NFNL_SUBSYS_NFTABLES}
	return append(append(netlinkRequest(unix.NFNL_MSG_BATCH_BEGIN, 0, begin), netlinkRequest(kind, unix.NLM_F_ACK, make([]byte, 4))...),
		netlinkRequest(unix.NFNL_MSG_BATCH_END, 0, begin)...)
}

// asks sends to the kernel, and gives the first answer's error.
func asks(protocol int, request []byte) func() string {
	return func() string {
		fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
		if err != nil {
			return outcomeOf(err)
		}
		defer unix.Close(fd)
		if err := unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
			return outcomeOf(err)
		}
		answer := make([]byte, 8<<10)
		n, _, err := unix.Recvfrom(fd, answer, unix.MSG_DONTWAIT)
		if err != nil {
			return outcomeOf(err)
		}
		if n >= 20 && order.Uint16(answer[4:]) == unix.NLMSG_ERROR {
			if number := int32(order.Uint32(answer[16:])); number != 0 {
				return outcomeOf(syscall.Errno(-number))
			}
		}
		return "ok"
	}
}

// nested tries a command with every capability in a user namespace of its own.
func nested(command string) func() string { return nestedWith(unix.CLONE_NEWUSER, command) }

func nestedWith(flags uintptr, command string) func() string {
	return func() string {
		reader, writer, err := os.Pipe()
		if err != nil {
			return outcomeOf(err)
		}
		defer reader.Close()
		// Nobody can write its map of ids where /proc shows no other's processes, and nobody needs to: capabilities are had without an id.
		process, err := os.StartProcess("/bin/sh", []string{"sh", "-c", command}, &os.ProcAttr{Dir: "/", Env: []string{"PATH=/usr/bin:/bin"}, Files: []*os.File{nil, writer, writer},
			Sys: &syscall.SysProcAttr{Cloneflags: flags, AmbientCaps: []uintptr{unix.CAP_NET_ADMIN, unix.CAP_NET_RAW, unix.CAP_SYS_ADMIN}}})
		writer.Close()
		if err != nil {
			return outcomeOf(err)
		}
		text := make([]byte, 512)
		n, _ := reader.Read(text)
		state, err := process.Wait()
		if err == nil && state.Success() {
			return "ok"
		}
		if strings.Contains(string(text[:max(n, 0)]), "not permitted") {
			return "EPERM"
		}
		return fmt.Sprint(state, " ", string(text[:max(n, 0)]))
	}
}

// TestSandboxNetworkHolds: nothing that a program inside may do changes its fence, or gets round it.
func TestSandboxNetworkHolds(t *testing.T) {
	s := startSandbox(t, testConfig(t))
	if s.Network() == nil {
		t.Skip("no fence: ", s.config.Host.FenceWhy)
	}
	want := map[string]string{
		"raw": "EPERM", "packet": "EPERM", "mark": "EPERM", "transparent": "EPERM", "free bind": "ok", "take port 53": "EACCES", "take the relay": "EADDRINUSE",
		"flush rules": "EPERM", "read rules": "EPERM", "flush a route": "EPERM", "lo down": "EPERM", "a policy rule": "EPERM", "tc": "EPERM",
		"forwarding": "EROFS|EACCES", "privileged ports": "EROFS|EACCES",
	}
	inner := map[string]string{"nested: route": "EPERM", "nested: link": "EPERM", "nested: veth": "EPERM", "nested: push": "EPERM"}
	names := []string{"nested: nothing"}
	for name := range want {
		names = append(names, name)
	}
	for name := range inner {
		names = append(names, name)
	}
	got := act(t, s, names...)
	if got["nested: nothing"] == "ok" {
		for name, errno := range inner {
			want[name] = errno
		}
	} else {
		t.Log("no nested user namespace here: ", got["nested: nothing"])
	}
	for name, allowed := range want {
		if !strings.Contains("|"+allowed+"|", "|"+got[name]+"|") {
			t.Errorf("%s: %s, want %s", name, got[name], allowed)
		}
	}
	if verdict, err := s.Verify(); err != nil || !verdict.Held() {
		t.Errorf("after all that: %v %v", err, verdict.Failed())
	}
}

// TestSandboxNetworkOpen: a fence that is open has connections from inside arrive here, with where they wanted to; two sandboxes don't share any.
func TestSandboxNetworkOpen(t *testing.T) {
	config := testConfig(t)
	s := startSandbox(t, config)
	if s.Network() == nil {
		t.Skip("no fence: ", config.Host.FenceWhy)
	}
	sockets, err := s.Network().Open()
	if err != nil {
		t.Fatal(err)
	}
	if got := act(t, s, "connect out")["connect out"]; got != "ok" {
		t.Errorf("connect: %s", got)
	}
	if err := sockets.NamesTCP[0].SetDeadline(time.Now().Add(10 * time.Second)); err != nil { // it is to port 53
		t.Fatal(err)
	}
	conn, err := sockets.NamesTCP[0].AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if at, err := fence.Destination(conn); err != nil || at.String() != "192.0.2.1:53" {
		t.Errorf("to %v, %v", at, err)
	}
	if verdict, err := s.Verify(); err != nil || !verdict.Held() {
		t.Errorf("open: %v %v", err, verdict.Failed())
	}
	closeSandbox(t, s)
	if _, err := s.Network().Observe(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after the sandbox's end: %v", err)
	}
}

// TestSandboxWithoutFence: where the host can't fence, a sandbox has no way out as before, and its verdict says nothing of a fence.
func TestSandboxWithoutFence(t *testing.T) {
	config := testConfig(t)
	config.Plan.Network = fence.Plan{}
	s := startSandbox(t, config)
	if s.Network() != nil {
		t.Error("there is a fence")
	}
	if got := act(t, s, "connect out", "connect to itself"); got["connect out"] != "ENETUNREACH" || got["connect to itself"] != "ECONNREFUSED" {
		t.Errorf("%v", got)
	}
	for _, row := range s.Verdict().Rows {
		if strings.HasPrefix(row.Control, "fence.") {
			t.Errorf("%+v", row)
		}
	}
}
