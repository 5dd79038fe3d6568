package relay

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/policy"
)

func TestProxy(t *testing.T) {
	spec := policy.NetworkSpec{Egress: []policy.EgressRule{
		{Action: policy.NetworkDeny, Target: "denied.example"},
		{Action: policy.NetworkAllow, Target: "8.0.0.1"},
	}}
	for _, name := range []string{"a.example", "private.example", "down.example", "nowhere.example"} {
		spec.Egress = append(spec.Egress, policy.EgressRule{Action: policy.NetworkAllow, Target: name})
	}
	w := newWorld(t, spec, nil)
	for _, port := range []int{80, 443, 9000} {
		w.host(fmt.Sprintf("8.0.0.1:%d", port), func(c *net.TCPConn) { // says what it got, up to what a test sends last
			b := make([]byte, 0, 4096)
			for !strings.HasSuffix(string(b), "!") && !strings.HasSuffix(string(b), "\r\n\r\n") {
				n, err := c.Read(b[len(b):cap(b)])
				if err != nil {
					return
				}
				b = b[:len(b)+n]
			}
			_, _ = c.Write(b)
			_ = c.CloseWrite()
		})
	}
	a := w.name("a.example", "8.0.0.1")
	w.name("denied.example", "8.0.0.1")
	w.name("private.example", "10.0.0.1")
	w.name("down.example", "8.0.0.2")
	address := w.listen(proxyAddress)
	const connected = "HTTP/1.1 200 Connection established\r\n\r\n"

	for _, test := range []struct {
		what, sent, want string // want: what comes back begins with it, and contains the parts behind "…"
		reason           string // of the event; empty: it is carried
	}{
		{"CONNECT", "CONNECT a.example:9000 HTTP/1.1\r\nHost: a.example:9000\r\n\r\n\x00hi!", connected + "\x00hi!", ""},
		{"CONNECT without Host", "CONNECT a.example:9000 HTTP/1.0\r\n\r\n\x00hi!", connected + "\x00hi!", ""},
		{"CONNECT, spelt otherwise", "CONNECT A.Example.:9000 HTTP/1.1\r\nHost: a.example:9000\r\nProxy-Authorization: Basic eDp5\r\n\r\n\x00hi!", connected + "\x00hi!", ""},
		{"CONNECT to an address", "CONNECT 8.0.0.1:9000 HTTP/1.1\r\nHost: 8.0.0.1:9000\r\n\r\n\x00hi!", connected + "\x00hi!", ""},
		{"CONNECT to a synthetic address", "CONNECT " + a.String() + ":9000 HTTP/1.1\r\n\r\n\x00hi!", connected + "\x00hi!", ""},
		{"CONNECT, TLS", "CONNECT a.example:443 HTTP/1.1\r\n\r\n" + string(helloFor("a.example")) + "\x17\x03\x03\x00\x01!", connected + string(helloFor("a.example")), ""},
		{"CONNECT, another server name", "CONNECT a.example:443 HTTP/1.1\r\n\r\n" + string(helloFor("evil.example")), connected, reasonOtherName},
		{"CONNECT, no TLS", "CONNECT a.example:443 HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n", connected, reasonNotTLS},
		{"CONNECT in CONNECT", "CONNECT a.example:9000 HTTP/1.1\r\n\r\nCONNECT evil.example:443 HTTP/1.1\r\n\r\n", connected, reasonConnect},
		{"CONNECT to a name without a rule", "CONNECT b.test:443 HTTP/1.1\r\n\r\n", `HTTP/1.1 403 Forbidden…"code":"denied"…b.test:443: no rule allows it…"allow":{"action":"allow","target":"b.test","ports":[443]}`, "no rule allows it"},
		{"CONNECT to a denied name", "CONNECT denied.example:443 HTTP/1.1\r\n\r\n", `HTTP/1.1 403 Forbidden…denied.example:443: denied by a rule…"rule":0`, "denied by a rule"},
		{"CONNECT to an address without a rule", "CONNECT 8.0.0.2:443 HTTP/1.1\r\n\r\n", `HTTP/1.1 403 Forbidden…"allow":{"action":"allow","target":"8.0.0.2","ports":[443]}`, "no rule allows it"},
		{"CONNECT to a private name", "CONNECT private.example:443 HTTP/1.1\r\n\r\n", `HTTP/1.1 403 Forbidden…a private address that no rule names`, "a private address that no rule names"},
		{"CONNECT to metadata", "CONNECT 169.254.169.254:80 HTTP/1.1\r\n\r\n", `HTTP/1.1 403 Forbidden…metadata`, "a metadata address, never reachable"},
		{"CONNECT to loopback", "CONNECT 127.0.0.1:22 HTTP/1.1\r\n\r\n", "HTTP/1.1 403 Forbidden…" + reasonSelf, reasonSelf},
		{"CONNECT to mapped loopback", "CONNECT [::ffff:127.0.0.1]:22 HTTP/1.1\r\n\r\n", "HTTP/1.1 403 Forbidden…" + reasonSelf, reasonSelf},
		{"CONNECT to localhost", "CONNECT localhost:22 HTTP/1.1\r\n\r\n", "HTTP/1.1 403 Forbidden…never reachable", "the sandbox itself, never reachable from outside"},
		{"CONNECT to an odd address", "CONNECT 127.1:22 HTTP/1.1\r\n\r\n", "HTTP/1.1 400 Bad Request…" + reasonNotProxied, reasonNotProxied},
		{"CONNECT to a number", "CONNECT 2130706433:22 HTTP/1.1\r\n\r\n", "HTTP/1.1 400 Bad Request…" + reasonNotProxied, reasonNotProxied},
		{"CONNECT without a port", "CONNECT a.example HTTP/1.1\r\n\r\n", "HTTP/1.1 400 Bad Request…" + reasonNotProxied, reasonNotProxied},
		{"CONNECT with a user", "CONNECT x@a.example:443 HTTP/1.1\r\n\r\n", "HTTP/1.1 400 Bad Request…" + reasonNotProxied, reasonNotProxied},
		{"CONNECT, another Host", "CONNECT a.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n", "HTTP/1.1 400 Bad Request…" + reasonTwoHosts, reasonTwoHosts},
		{"CONNECT, another port in Host", "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:80\r\n\r\n", "HTTP/1.1 400 Bad Request…" + reasonTwoHosts, reasonTwoHosts},
		{"CONNECT to who isn't there", "CONNECT down.example:443 HTTP/1.1\r\n\r\n", "HTTP/1.1 502 Bad Gateway…down.example:443 is allowed", reasonUnreached},
		{"CONNECT to a name that isn't there", "CONNECT nowhere.example:443 HTTP/1.1\r\n\r\n", "HTTP/1.1 502 Bad Gateway…nowhere.example:443 is allowed", reasonUnreached},
		{"absolute form", "GET http://a.example/x?y HTTP/1.1\r\nHost: a.example\r\nX-A: b\r\nProxy-Connection: keep-alive\r\nConnection: X-Hop, Content-Length\r\nX-Hop: 1\r\nUpgrade: h2c\r\nProxy-Authorization: Basic eDp5\r\n\r\n", "GET /x?y HTTP/1.1\r\nHost: a.example\r\nX-A: b\r\nConnection: close\r\n\r\n", ""},
		{"absolute form without a path", "GET http://a.example:9000?y#z HTTP/1.0\r\n\r\n", "GET /?y HTTP/1.0\r\nHost: a.example:9000\r\nConnection: close\r\n\r\n", ""},
		{"absolute form, OPTIONS", "OPTIONS http://a.example HTTP/1.1\r\nHost: a.example:80\r\n\r\n", "OPTIONS * HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n", ""},
		{"absolute form, denied", "GET http://b.test/ HTTP/1.1\r\nHost: b.test\r\n\r\n", "HTTP/1.1 403 Forbidden…b.test:80", "no rule allows it"},
		{"absolute form, another Host", "GET http://a.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n", "HTTP/1.1 400 Bad Request…" + reasonTwoHosts, reasonTwoHosts},
		{"absolute form, https", "GET https://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n", "HTTP/1.1 400 Bad Request…" + reasonNotProxied, reasonNotProxied},
		{"origin form", "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", "HTTP/1.1 400 Bad Request…" + reasonNotProxied, reasonNotProxied},
		{"CL and TE", "POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "HTTP/1.1 400 Bad Request…" + reasonFraming, reasonFraming},
		{"something else", "SSH-2.0-x\r\n", "HTTP/1.1 400 Bad Request…" + reasonBadHTTP, reasonBadHTTP},
	} {
		t.Run(test.what, func(t *testing.T) {
			w.t = t
			c := w.dialAt(address)
			send(t, c, test.sent)
			got, err := io.ReadAll(c)
			rest := string(got)
			for i, part := range strings.Split(test.want, "…") {
				at := strings.Index(rest, part)
				if at < 0 || i == 0 && at > 0 {
					t.Fatalf("%q, want %q", got, test.want)
				}
				rest = rest[at+len(part):]
			}
			if err != nil && (test.reason == "" || !strings.HasPrefix(test.want, connected)) {
				t.Errorf("it ends with %v", err)
			}
			c.Close()
			event := w.event()
			if event.Reason != test.reason && test.reason != "" || test.reason == "" && event.Kind != Ended || !event.Proxy {
				t.Errorf("%+v", event)
			}
			if strings.Contains(string(got), "407") {
				t.Errorf("%q", got)
			}
		})
	}
}

// One request a connection: its body goes through, and nothing behind it.
func TestProxiedBody(t *testing.T) {
	w := newWorld(t, allow("a.example"), nil)
	arrived := make(chan string, 10)
	w.host("8.0.0.1:80", func(c *net.TCPConn) {
		r := bufio.NewReader(c)
		for {
			request, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			b, _ := io.ReadAll(request.Body)
			arrived <- request.Host + " " + string(b)
		}
	})
	w.name("a.example", "8.0.0.1")
	for _, body := range []string{"Content-Length: 3\r\n\r\nabc", "Transfer-Encoding: chunked\r\nTrailer: X\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n"} {
		c := w.dial(proxyAddress)
		send(t, c, "POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\n"+body)
		if got := <-arrived; got != "a.example abc" {
			t.Errorf("%q", got)
		}
		send(t, c, "GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n")
		w.wantDenied(c, reasonSecond)
	}
	select {
	case got := <-arrived:
		t.Errorf("%q arrived", got)
	default:
	}
}
