package place

import (
	"encoding/json/jsontext"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/policy"
)

// letsOut is what the tests let the runner reach.
var letsOut = fmt.Sprintf(`{"egress":[{"action":"allow","target":"%s","ports":[%d]}]}`, worldAddress, allowedPort)

// opens lists that in the policy, and accepts lacks.
func (p *pod) opens(accept ...string) string {
	p.t.Helper()
	return p.settings(func(settings map[string]any) {
		settings["accept"] = accept
		settings["network"] = map[string]any{"targets": []any{map[string]any{"target": worldAddress, "ports": []int{allowedPort}}}}
	})
}

// fetch gets a page as any program does that knows of proxies.
const fetch = `import sys, urllib.request, urllib.error
try:
    print(urllib.request.urlopen(sys.argv[1], timeout=10).read().decode())
except urllib.error.HTTPError as e:
    print(e.code, e.read().decode())
except OSError as e:
    print(e)`

// attempts are ways to get out, each in a line of Python, and how they end. MSG_FASTOPEN is 0x20000000; 262 is MPTCP, 425 io_uring_setup.
const attempts = `import ctypes, errno, os, socket, sys
S = socket.socket
def tcp(host, port, kind=socket.AF_INET, protocol=0):
    s = S(kind, socket.SOCK_STREAM, protocol); s.settimeout(5); s.connect((host, port)); return s
def reply(s):
    s.sendall(b"GET / HTTP/1.0\r\n\r\n"); return s.recv(16)
def call(*args):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(*args) < 0:
        raise OSError(ctypes.get_errno(), "")
def bound(host, port):
    s = S(); s.bind((host, port)); s.listen()
def device():
    s = S(); s.settimeout(1); s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"eth0"); s.connect((W, 9)); return reply(s)
def datagram(s, to):
    s.settimeout(1); s.sendto(b"x", to); return s.recv(16)
W = "192.0.2.1"
acts = {
    "another port": lambda: reply(tcp(W, 9)),
    "mapped": lambda: reply(tcp("::ffff:" + W, 9, socket.AF_INET6)),
    "fast open": lambda: S().sendto(b"GET", 0x20000000, (W, 9)),
    "fast open by sendmsg": lambda: S().sendmsg([b"GET"], [], 0x20000000, (W, 9)),
    "mptcp": lambda: reply(tcp(W, 9, protocol=262)),
    "udp": lambda: datagram(S(socket.AF_INET, socket.SOCK_DGRAM), (W, 9)),
    "quic": lambda: datagram(S(socket.AF_INET, socket.SOCK_DGRAM), (W, 443)),
    "raw": lambda: S(socket.AF_INET, socket.SOCK_RAW, 1),
    "packet": lambda: S(socket.AF_PACKET, socket.SOCK_RAW, 0),
    "vsock": lambda: S(socket.AF_VSOCK, socket.SOCK_STREAM),
    "io_uring": lambda: call(425, 1, 0),
    "netlink": lambda: S(socket.AF_NETLINK, socket.SOCK_RAW, 0),
    "bind": lambda: S().bind(("127.0.0.1", 7777)),
    "listen": lambda: S().listen(),
    "the relay's own port": lambda: bound("127.0.0.1", 15001),
    "another container's port": lambda: tcp("127.0.0.1", 8080),
    "another container's abstract socket": lambda: S(socket.AF_UNIX).connect("\0neighbour"),
    "a device": device,
    "the relay's port of another host": lambda: reply(tcp(W, 15001)),
    "socketpair": lambda: socket.socketpair(),
}
for name in sys.argv[1:] or acts:
    try:
        got = acts[name]()
        print(name, "=", got.decode(errors="replace").split(" ")[0] if isinstance(got, bytes) and got else "END" if got == b"" else "OPEN")
    except TimeoutError:
        print(name, "= TIMEOUT")
    except OSError as e:
        print(name, "=", errno.errorcode.get(e.errno, e))`

// attempted has them tried in the runner, and compares.
func (p *pod) attempted(want map[string]string) {
	p.t.Helper()
	got := map[string]string{}
	for line := range strings.Lines(p.ran("python3", "-c", attempts)) {
		name, answer, _ := strings.Cut(strings.TrimSpace(line), " = ")
		got[name] = answer
	}
	for name, answer := range want {
		if !slices.Contains(strings.Split(answer, " or "), got[name]) {
			p.t.Errorf("%s: %s, want %s", name, got[name], answer)
		}
	}
	if len(got) != len(want) {
		p.t.Errorf("%d attempts, %d wanted: %v", len(got), len(want), got)
	}
}

// nothing is how each ends where the filter leaves no socket but local ones.
var nothing = map[string]string{
	"another port": "EAFNOSUPPORT", "mapped": "EAFNOSUPPORT", "fast open": "EAFNOSUPPORT", "fast open by sendmsg": "EAFNOSUPPORT", "mptcp": "EAFNOSUPPORT", "udp": "EAFNOSUPPORT",
	"quic": "EAFNOSUPPORT", "raw": "EAFNOSUPPORT", "packet": "EAFNOSUPPORT", "vsock": "EAFNOSUPPORT", "io_uring": "ENOSYS", "netlink": "EAFNOSUPPORT", "bind": "EAFNOSUPPORT",
	"listen": "EAFNOSUPPORT", "the relay's own port": "EAFNOSUPPORT", "another container's port": "EAFNOSUPPORT", "another container's abstract socket": "EPERM", "a device": "EAFNOSUPPORT",
	"the relay's port of another host": "EAFNOSUPPORT", "socketpair": "OPEN",
}

// TestFilter: without a capability nothing is let out, whatever is tried, and asking for more is refused with how to get it.
func TestFilter(t *testing.T) {
	p := newPod(t)
	p.world()
	p.neighbour()
	p.start("", "--policy", p.opens())
	defer p.say()
	p.attempted(nothing)
	got := p.post("/v1/exec", map[string]any{"command": map[string]any{"argv": []string{"true"}}, "network": jsontext.Value(letsOut)})
	if got.Outcome != "denied" || len(got.Reasons) != 1 || got.Reasons[0].Rule != "host.network.fence" || !strings.Contains(got.Reasons[0].Message, "NET_ADMIN") {
		t.Errorf("%+v", got)
	}
	if status, body := p.letOut(t, letsOut); status != http.StatusForbidden || !strings.Contains(body, "host.network.fence") {
		t.Errorf("%d %s", status, body)
	}
}

// TestProxy: without a capability the relay serves who asks it as a proxy, by the same rules, and nothing else is let out but what the accepted lack says.
func TestProxy(t *testing.T) {
	p := newPod(t)
	p.world()
	p.neighbour()
	p.start("", "--policy", p.opens("network.destination"), "--proxy-port", strconv.Itoa(proxyPort))
	defer p.say()
	p.attempted(nothing) // until something is let out
	if status, body := p.letOut(t, letsOut); status != http.StatusOK || !strings.Contains(body, `"held":true`) {
		t.Fatalf("%d %s", status, body)
	}
	got := p.exec("python3", "-c", fetch, "http://192.0.2.1/")
	if got.Stdout != "the world\n" || got.Verdict.Tier != policy.TierRestricted || !strings.Contains(strings.Join(got.Verdict.Degraded, "\n"), "network.destination: ") {
		t.Errorf("%+v", got)
	}
	if got := p.ran("python3", "-c", fetch, "http://192.0.2.1:9/"); !strings.Contains(got, "403") || !strings.Contains(got, "192.0.2.1:9") {
		t.Errorf("another port: %s", got)
	}
	await(t, "a record of what was refused", func() bool { return p.recorded("egress", "192.0.2.1:9") })
	tunnel := `import http.client
c = http.client.HTTPConnection("127.0.0.1", 15001, timeout=10); c.set_tunnel("192.0.2.1", 80); c.request("GET", "/"); print(c.getresponse().read().decode())`
	if got := p.ran("python3", "-c", tunnel); got != "the world\n" {
		t.Errorf("CONNECT: %s", got)
	}
	env := p.ran("sh", "-c", "env | grep -i _proxy | sort -f | cut -d= -f1 | tr '\\n' ' '")
	for _, name := range []string{"HTTP_PROXY", "https_proxy", "ALL_PROXY", "no_proxy"} {
		if !strings.Contains(env, name) {
			t.Errorf("%s isn't set: %s", name, env)
		}
	}
	p.attempted(map[string]string{
		"another port": "EACCES", "mapped": "EACCES", "fast open": "ENOTSUP", "fast open by sendmsg": "ENOTSUP", "mptcp": "EAFNOSUPPORT", "udp": "EAFNOSUPPORT", "quic": "EAFNOSUPPORT",
		"raw": "EAFNOSUPPORT", "packet": "EAFNOSUPPORT", "vsock": "EAFNOSUPPORT", "io_uring": "ENOSYS", "netlink": "EAFNOSUPPORT", "bind": "EACCES", "listen": "EACCES",
		"the relay's own port": "EACCES", "another container's port": "EACCES", "another container's abstract socket": "EPERM", "a device": "EACCES",
		"the relay's port of another host": "HTTP/1.0", // the lack that policy has accepted by its name
		"socketpair":                       "OPEN",
	})
	p.verifies() // the forbidden acts of both plans
	// An exec may have less, and the sandbox may lose what it has.
	if got := p.post("/v1/exec", map[string]any{"command": map[string]any{"argv": []string{"python3", "-c", "import socket; socket.socket()"}}, "network": map[string]any{}}); got.Outcome != "error" || !strings.Contains(got.Stderr, "Errno 97") {
		t.Errorf("an exec without: %+v", got)
	}
	if status, body := p.letOut(t, "{}"); status != http.StatusOK {
		t.Errorf("%d %s", status, body)
	}
	p.attempted(nothing)
}
