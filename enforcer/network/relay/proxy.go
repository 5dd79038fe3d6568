package relay

import (
	"encoding/json/v2"
	"errors"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/enforcer/network"
)

// setUpProxy serves a client that asked for a proxy: it says in HTTP where it wants to go, and is told why when it may not.
func (c *conn) setUpProxy(up *pump) error {
	c.proxy = true
	head, n, err := c.proxyHead(up)
	if err != nil {
		return c.refuseProxied(err)
	}
	if c.target, err = c.proxyTarget(head); err != nil {
		return c.refuseProxied(err)
	}
	if err := c.open(); err != nil {
		return c.refuseProxied(err)
	}
	up.drop(n)
	if head.method == "CONNECT" {
		if _, err := c.client.Write([]byte("HTTP/1.1 200 Connection established\r\n\r\n")); err != nil {
			return err
		}
		return c.carry(up, &firstLook{c: c}, 0)
	}
	sent, err := c.remote.Write(head.forwarded())
	c.out.Add(int64(sent))
	if err != nil {
		return c.refuseProxied(failure{err})
	}
	l := &httpLook{c: c, served: true, single: true}
	return c.carry(up, l, l.body(head))
}

// proxyHead reads the client's first request.
func (c *conn) proxyHead(up *pump) (*httpHead, int, error) {
	_ = c.client.SetReadDeadline(time.Now().Add(c.server.config.Limits.Look))
	for {
		if up.have > 0 {
			head, n, err := parseHead(up.buf[:up.have])
			if !errors.Is(err, errShort) {
				_ = c.client.SetReadDeadline(time.Time{})
				return head, n, err
			}
		}
		if err := c.more(up); err != nil {
			return nil, 0, err
		}
	}
}

// proxyTarget is where a request wants to go. All that say so must say the same.
func (c *conn) proxyTarget(head *httpHead) (target, error) {
	var said host
	var ok bool
	port := uint16(portHTTP)
	if head.method == "CONNECT" {
		said, ok = parseHost(head.target)
		if !ok || said.port == 0 {
			return target{}, refuse(reasonNotProxied)
		}
		if head.chunked || head.length > 0 {
			return target{}, refuse(reasonFraming)
		}
		port = said.port
	} else {
		var scheme string
		if said, scheme, _, ok = head.authority(); !ok || scheme != "http" {
			return target{}, refuse(reasonNotProxied)
		}
		if said.port != 0 {
			port = said.port
		}
	}
	if head.hasHost && (head.host.name != said.name || head.host.addr != said.addr || head.host.port != 0 && head.host.port != port) {
		return target{}, refuse(reasonTwoHosts)
	}
	c.destination = netip.AddrPortFrom(said.addr, port)
	if said.name == "" {
		return c.server.targetOf(c.destination)
	}
	return target{name: said.name, port: port}, nil
}

// hop are the fields that are for the proxy alone.
var hop = []string{"host", "connection", "keep-alive", "proxy-connection", "proxy-authorization", "proxy-authenticate", "te", "upgrade"}

// framing are fields that stay, also when Connection names them: without them the body would be another request.
var framing = []string{"content-length", "transfer-encoding", "trailer"}

// forwarded is the head as the server gets it: in origin form, and the last on its connection, so that the next request, which may be for another
// server, comes on a connection of its own.
func (h *httpHead) forwarded() []byte {
	_, rest, _ := strings.Cut(h.target, "://")
	authority, path := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	path, _, _ = strings.Cut(path, "#")
	switch {
	case path == "" && h.method == "OPTIONS":
		path = "*"
	case path == "" || path[0] != '/':
		path = "/" + path
	}
	drop := slices.Clone(hop)
	for _, f := range h.fields {
		if f.name == "connection" {
			for name := range strings.SplitSeq(f.value, ",") {
				drop = append(drop, strings.ToLower(strings.TrimSpace(name)))
			}
		}
	}
	var b strings.Builder
	b.WriteString(h.method + " " + path + " HTTP/1." + strconv.Itoa(h.minor) + "\r\nHost: " + authority + "\r\n")
	for _, f := range h.fields {
		if !slices.Contains(drop, f.name) || slices.Contains(framing, f.name) {
			b.WriteString(f.written + ": " + f.value + "\r\n")
		}
	}
	b.WriteString("Connection: close\r\n\r\n")
	return []byte(b.String())
}

// problem is the body of an answer that says no.
type problem struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	// Rule is the index of the rule that decided; absent: no rule did.
	Rule *int `json:"rule,omitempty"`
	// Allow is a rule that would allow it, where one could.
	Allow *wouldAllow `json:"allow,omitempty"`
}

type wouldAllow struct {
	Action string   `json:"action"`
	Target string   `json:"target"`
	Ports  []uint16 `json:"ports"`
}

// refuseProxied answers and gives err back. The client asked for no secret (there is no 407), and is shown none: what it may do, it could try.
func (c *conn) refuseProxied(err error) error {
	var denial refusal
	var failed failure
	switch {
	case errors.As(err, &denial) && slices.Contains(notUnderstood, denial.reason):
		c.respond("400 Bad Request", problem{Code: "bad_request", Message: denial.reason})
	case errors.As(err, &denial):
		c.respond("403 Forbidden", c.forbidden(denial))
	case errors.As(err, &failed) && errors.Is(err, os.ErrDeadlineExceeded):
		c.respond("504 Gateway Timeout", problem{Code: "unreachable", Message: c.target.String() + " is allowed, and didn't answer in time"})
	case errors.As(err, &failed):
		c.respond("502 Bad Gateway", problem{Code: "unreachable", Message: c.target.String() + " is allowed, and can't be reached"})
	}
	return err
}

// notUnderstood are the client's mistakes, not rules.
var notUnderstood = []string{
	reasonBadHTTP, reasonLongHTTP, reasonNoHost, reasonFraming, reasonNotProxied, reasonTwoHosts, reasonSlow, reasonUnfinished,
}

func (c *conn) forbidden(denial refusal) problem {
	p := problem{Code: "denied", Message: c.target.String() + ": " + denial.reason}
	switch {
	case denial.rule >= 0:
		p.Rule = &denial.rule
	case denial.rule == network.Default:
		p.Allow = &wouldAllow{Action: "allow", Target: c.target.host(), Ports: []uint16{c.target.port}}
	}
	return p
}

func (t target) host() string {
	if t.name != "" {
		return t.name
	}
	return t.addr.String()
}

func (t target) String() string {
	if t.name != "" {
		return t.name + ":" + strconv.Itoa(int(t.port))
	}
	return netip.AddrPortFrom(t.addr, t.port).String()
}

const (
	// lingering is how long a client may take to fetch an answer that says no.
	lingering = time.Second
	// mostDrained is what is read of a client that goes on talking: closing with bytes unread would reset, and take the answer back.
	mostDrained = 64 << 10
)

// respond answers in place of a server, and ends the connection in order.
func (c *conn) respond(status string, p problem) {
	body, err := json.Marshal(p)
	if err != nil {
		return
	}
	body = append(body, '\n')
	_ = c.client.SetLinger(-1)
	_ = c.client.SetDeadline(time.Now().Add(lingering))
	text := "HTTP/1.1 " + status + "\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\nConnection: close\r\n\r\n"
	if _, err := c.client.Write(append([]byte(text), body...)); err != nil || c.client.CloseWrite() != nil {
		return
	}
	var buf [4096]byte
	for drained := 0; drained < mostDrained; {
		n, err := c.client.Read(buf[:])
		if err != nil {
			return
		}
		drained += n
	}
}
