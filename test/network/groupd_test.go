package network

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"testing"
	"time"
)

// row is one scenario: what somebody inside tries, and that it gets them nowhere.
type row struct {
	id, name string
	rules    string // as spec reads them; empty allows nothing
	command  []string
	says     string       // a regular expression on what the client says, exit status included
	told     string       // a regular expression on the refusals told; empty: none need be
	reaches  []netip.Addr // the hosts that may take a connection; all others must take none
}

const (
	// raw sends bytes by TCP and says what comes of it: HOST PORT BYTES, with Python's escapes.
	raw = `
import socket, sys, time
start = time.time()
try:
    s = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=10)
    s.sendall(sys.argv[3].encode().decode("unicode_escape").encode("latin1"))
    print("answer", s.recv(200))
except OSError as e:
    print("late" if time.time() - start > 5 else type(e).__name__, e.errno)
`
	// udp sends one datagram and says whether that is refused at once.
	udp = `
import socket, sys, time
s = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(3)
start = time.time()
try:
    s.connect((sys.argv[1], int(sys.argv[2])))
    s.send(b"x")
    print("answer", s.recv(200))
except OSError as e:
    print("late" if time.time() - start > 2 else type(e).__name__, e.errno)
`
	// split sends the hello of a real client, for a name, one byte a segment: HOST NAME.
	split = `
import socket, ssl, sys
incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
client = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname=sys.argv[2])
try:
    client.do_handshake()
except ssl.SSLWantReadError:
    pass
try:
    s = socket.create_connection((sys.argv[1], 443), timeout=10)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in outgoing.read():
        s.sendall(bytes([byte]))
    print("answer", s.recv(3))
except OSError as e:
    print(type(e).__name__, e.errno)
`
	// ping sends an echo request from a raw socket, which takes a capability that no sandbox has: the fence alone must do.
	ping = `
import socket, sys
try:
    s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    s.settimeout(1)
    s.sendto(b"\x08\x00\xf7\xff\x00\x00\x00\x00", (sys.argv[1], 0))
    while True:
        packet = s.recv(200)
        if packet[20] == 0:
            print("echo reply")
            break
except OSError as e:
    print(type(e).__name__)
`
	// flood asks for one name as often as it can in one second and says how often it was refused, then once more after a pause.
	flood = `
import socket, struct, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect(("9.9.9.9", 53))
s.settimeout(3)
name = b"".join(bytes([len(l)]) + l.encode() for l in sys.argv[1].split(".")) + b"\0"
def ask(i):
    s.send(struct.pack(">HHHHHH", i, 0x100, 1, 0, 0, 0) + name + struct.pack(">HH", 1, 1))
    return s.recv(512)[3] & 15
codes = [ask(i) for i in range(2000)]
time.sleep(1.5)
print("refused" if codes.count(5) > 100 and codes.count(0) >= 400 else codes, ask(7))
`
	requestsByProxy = `import requests,sys; print(requests.get(sys.argv[1], timeout=20, proxies={"https": "http://198.19.255.2:3128", "http": "http://198.19.255.2:3128"}).text)`

	hello = `\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00`
)

func python(script string, args ...string) []string {
	return append([]string{"/usr/bin/python3", "-c", script}, args...)
}

const (
	notKnown = `Could not resolve host: .* exit 6$`
	reset    = `(ConnectionResetError 104|BrokenPipeError 32) exit 0$`
	refused  = `ConnectionRefusedError 111 exit 0$`
	// A reset may come while curl still connects.
	curlReset = `(eset by peer|Failed to connect).* exit (7|16|35|56)$`
)

var rows = []row{
	{"D1", "empty list of rules", "", shell(`curl -sS https://a.example.net/`), notKnown, `names: a\.example\.net A: `, nil},
	{"D1", "an address without rules", "", python(raw, Public.String(), "443", hello), reset, `relay: denied 45\.9\.1\.10:443: `, nil},
	{"D2", "rules that only deny", "deny a.example.net", shell(`curl -sS https://b.example.net/`), notKnown, `names: b\.example\.net`, nil},
	{"D3", "a name that ends like an allowed one", "allow example.com", shell(`curl -sS https://evil-example.com/`), notKnown, `evil-example\.com`, nil},
	{"D3", "a name that begins like an allowed one", "allow example.com", shell(`curl -sS https://example.com.example.net/`), notKnown, ``, nil},
	{"D4", "the apex of a wildcard", "allow *.example.net", shell(`dig +noall +comments example.net`), `status: NXDOMAIN`, `names: example\.net A`, nil},
	{"D4", "beneath a wildcard", "allow *.example.net", shell(`curl -sS --cacert $CA https://c.example.net/`), `host=c\.example\.net .* exit 0$`, ``, []netip.Addr{Shared}},
	{"D6", "a look-alike in other letters", "allow a.example.net", shell(`dig +noall +comments +noidnin xn--exmple-cua.net`), `status: NXDOMAIN`, `xn--exmple-cua\.net`, nil},
	{"D7", "NUL in a name", "allow *.example.net", shell(`dig +noall +comments 'a\000.example.net'`), `status: NXDOMAIN`, `not a host name`, nil},
	{"D7", "blank in a name", "allow *.example.net", shell(`dig +noall +comments 'a b.example.net'`), `status: NXDOMAIN`, `not a host name`, nil},
	{"D7", "at sign in a name", "allow *.example.net", shell(`dig +noall +comments 'a@b.example.net'`), `status: (NXDOMAIN|REFUSED)`, `not a host name`, nil},
	{"D8", "a deep name", "allow *.example.net", shell(`dig +noall +comments x.y.z.example.net`), `status: NXDOMAIN`, ``, nil},
	{"D10", "where a CNAME leads is not allowed by itself", "allow alias.example.net", shell(`curl -sS https://other.example.org/`), notKnown, `other\.example\.org`, nil},
	{"D10", "and is reached by the name that is", "allow alias.example.net", shell(`curl -sS --cacert $CA https://alias.example.net/`), `host=alias\.example\.net .* exit 0$`, ``, []netip.Addr{Elsewhere}},
	{"D11", "data in a long label", "allow *.example.net", shell(`dig +noall +comments mzxw6ytboi2dgnbvgy3tqojqmfrggzdfmzxw6ytboi2dgnbvgy.example.net`), `status: REFUSED`, `label too long`, nil},
	{"D11", "data in many labels", "allow *.example.net",
		shell(`dig +noall +comments mzxw6ytboi2dgnbvgy3tqojqmfrggzdf.nb2hi4dthixs653xo4xgk6dbnvygyzj.onswg4tforzsa43fmnzgk5bamj2xiidopjtwyz3p.example.net`),
		`status: REFUSED`, `carries too much`, nil},
	{"D11", "a flood", "allow a.example.net", python(flood, "a.example.net"), `^refused 0 exit 0$`, `too many queries`, nil},
	{"D12", "TXT", "allow a.example.net", shell(`dig +noall +comments a.example.net TXT`), `status: REFUSED`, `only A and AAAA`, nil},
	{"D12", "NULL", "allow a.example.net", shell(`dig +noall +comments a.example.net NULL`), `status: REFUSED`, `only A and AAAA`, nil},
	{"D12", "ANY", "allow a.example.net", shell(`dig +noall +comments +notcp a.example.net ANY`), `status: REFUSED`, `only A and AAAA`, nil},
	{"D12", "HTTPS", "allow a.example.net", shell(`dig +noall +comments a.example.net HTTPS`), `status: REFUSED`, `only A and AAAA`, nil},
	{"D12", "AXFR", "allow a.example.net", shell(`dig a.example.net AXFR`), `Transfer failed`, `only A and AAAA`, nil},
	{"D14", "by TCP", "allow a.example.net", shell(`dig +tcp +short b.example.net; dig +tcp +short a.example.net`), `^198\.18\.0\.1 exit 0$`, `names: b\.example\.net`, nil},
	{"D14", "EDNS with 64 KB and cookies", "allow a.example.net", shell(`dig +bufsize=65535 +cookie=0011223344556677 +short a.example.net`), `^198\.18\.0\.1 exit 0$`, ``, nil},
	{"D15", "DNS over TLS", "allow a.example.net", python(raw, Public.String(), "853", hello), reset, `45\.9\.1\.10:853`, nil},
	{"D15", "DNS over QUIC", "allow a.example.net", python(udp, Public.String(), "853"), refused, ``, nil},
	{"D15", "DNS over HTTPS to an address", "allow a.example.net", shell(`curl -sS -k https://45.9.1.10/dns-query`), curlReset, `45\.9\.1\.10:443`, nil},
	{"D16", "another resolver", "allow a.example.net", shell(`dig +short @8.8.8.8 a.example.net; dig +short @8.8.8.8 www.example.com; dig +short @2001:4860:4860::8888 a.example.net`),
		"^198\\.18\\.0\\.1\n198\\.18\\.0\\.1 exit 0$", `www\.example\.com`, nil},
	{"D17", "a name with a private address", "allow private.example.net", shell(`curl -sS https://private.example.net/`), notKnown, `names: private\.example\.net`, nil},
	{"D17", "a name with a loopback address", "allow loopback.example.net", shell(`curl -sS https://loopback.example.net/`), notKnown, `names: loopback\.example\.net`, nil},
	{"D17", "a mapped address", "allow mapped.example.net", shell(`curl -sS https://mapped.example.net/`), notKnown, `names: mapped\.example\.net`, nil},
	{"D17", "NAT64", "allow nat64.example.net", shell(`curl -sS https://nat64.example.net/`), notKnown, `names: nat64\.example\.net`, nil},
	{"D17", "6to4", "allow 6to4.example.net", shell(`curl -sS https://6to4.example.net/`), notKnown, `names: 6to4\.example\.net`, nil},
	{"D17", "a private address that a rule names", "allow private.example.net, allow 10.9.0.0/16",
		shell(`curl -sS --cacert $CA https://private.example.net/`), `host=private\.example\.net .* exit 0$`, ``, []netip.Addr{Private}},
	{"D17", "a private address beside a public one", "allow mixed.example.net", shell(`curl -sS -k https://mixed.example.net/`), `^www\.example\.com host=mixed\.example\.net .* exit 0$`, ``, []netip.Addr{Public}},
	{"D20", "metadata by its address", "default allow", shell(`curl -sS http://169.254.169.254/latest/`), curlReset, `169\.254\.169\.254:80`, nil},
	{"D20", "metadata by a range", "allow 0.0.0.0/0, allow ::/0", shell(`curl -sS http://169.254.169.254/latest/`), curlReset, `169\.254\.169\.254:80`, nil},
	{"D20", "metadata by a name of ours", "allow *.example.net", shell(`curl -sS http://metadata.example.net/`), notKnown, `metadata\.example\.net`, nil},
	{"D20", "metadata by its own name", "default allow", shell(`curl -sS http://metadata.google.internal/`), notKnown, `metadata\.google\.internal`, nil},
	{"D20", "Azure's", "default allow", python(raw, "168.63.129.16", "80", "x"), reset, `168\.63\.129\.16:80`, nil},
	{"D20", "Alibaba's", "default allow", python(raw, "100.100.100.200", "80", "x"), reset, `100\.100\.100\.200:80`, nil},
	{"D20", "AWS's by IPv6", "default allow", python(raw, "fd00:ec2::254", "80", "x"), reset, `fd00:ec2::254`, nil},
	{"D20", "mapped", "default allow", python(raw, "::ffff:169.254.169.254", "80", "x"), reset, `169\.254\.169\.254`, nil},
	{"D20", "by NAT64", "default allow", python(raw, "64:ff9b::a9fe:a9fe", "80", "x"), reset, `64:ff9b::a9fe:a9fe`, nil},
	{"D23", "unspecified", "default allow", python(raw, "0.0.0.0", "80", "x"), refused, ``, nil},
	{"D23", "broadcast", "default allow", python(raw, "255.255.255.255", "80", "x"), `OSError 101 exit 0$`, ``, nil},
	{"D23", "multicast", "default allow", python(raw, "224.0.0.1", "80", "x"), `OSError 101 exit 0$`, ``, nil},
	{"D24", "IPv6 where rules speak of IPv4", "allow 0.0.0.0/0", python(raw, Both6.String(), "443", hello), reset, `\[2a09:1::10\]:443`, nil},
	{"D25", "a redirect to metadata", allowed, shell(`curl -sSL --cacert $CA https://redirect.example.net/to-metadata`), curlReset, `169\.254\.169\.254:80`, []netip.Addr{Redirect}},
	{"D26", "CONNECT to an address", "allow a.example.net", shell(`curl -sS -k -x http://198.19.255.2:3128 https://45.9.1.10/`), `403 exit (56|7)$`, `45\.9\.1\.10:443`, nil},
	{"D26", "CONNECT to a name that isn't allowed", "allow a.example.net", shell(`curl -sS -k -x http://198.19.255.2:3128 https://b.example.net/`), `403 exit (56|7)$`, `b\.example\.net`, nil},
	{"D26", "CONNECT to one that is", "allow a.example.net", shell(`curl -sS --cacert $CA -x http://198.19.255.2:3128 https://a.example.net/`), `host=a\.example\.net .* exit 0$`, ``, []netip.Addr{Shared}},
	{"D27", "SNI of a neighbour", "allow a.example.net", shell(`curl -sS -k --connect-to c.example.net:443:a.example.net:443 https://c.example.net/`), curlReset, `isn't the name that was dialled`, []netip.Addr{Shared}},
	{"D27", "SNI of a neighbour, by CONNECT", "allow a.example.net",
		shell(`curl -sS -k -x http://198.19.255.2:3128 --connect-to c.example.net:443:a.example.net:443 https://c.example.net/`), ` exit (16|35|56)$`, `isn't the name that was dialled`, []netip.Addr{Shared}},
	{"D27", "no SNI", "allow a.example.net", shell(`echo | openssl s_client -noservername -connect a.example.net:443 2>&1 | grep -o -e errno=104 -e 'no peer certificate' | head -1`), `^(errno=104|no peer certificate) exit 0$`, `without a server name`, []netip.Addr{Shared}},
	{"D27", "Host of a neighbour", "allow a.example.net", shell(`curl -sS -H 'Host: c.example.net' http://a.example.net/`), curlReset, `isn't the name that was dialled`, []netip.Addr{Shared}},
	{"D28", "the shared address by hand", "allow a.example.net", shell(`curl -sS -k --resolve c.example.net:443:45.9.1.1 https://c.example.net/`), curlReset, `45\.9\.1\.1:443`, nil},
	{"D28", "the neighbour's name at our synthetic address", "allow a.example.net", shell(`curl -sS -k --resolve c.example.net:443:$(dig +short a.example.net) https://c.example.net/`), curlReset, `isn't the name`, []netip.Addr{Shared}},
	{"D28", "a denied name at an allowed address", "deny c.example.net, allow 45.9.1.1", shell(`curl -sS -k --resolve c.example.net:443:45.9.1.1 https://c.example.net/`), curlReset, `a rule denies the name`, []netip.Addr{Shared}},
	// A server that speaks first is heard; what the client says to it is not passed on.
	{"D29", "what isn't TLS on its port", "allow lines.example.net", python(raw, "lines.example.net", "443", `EHLO x\n`), `^(answer b'hello|ConnectionResetError 104)`, `not TLS on port 443`, []netip.Addr{Lines}},
	{"D29", "a hello in many segments", "allow a.example.net", python(split, "a.example.net", "a.example.net"), `^answer b'\\x16\\x03`, ``, []netip.Addr{Shared}},
	{"D29", "a neighbour's hello in many segments", "allow a.example.net", python(split, "a.example.net", "c.example.net"), reset, `isn't the name`, []netip.Addr{Shared}},
	{"D29", "a hello that is none", "allow a.example.net", python(raw, "a.example.net", "443", hello), reset, `malformed TLS hello`, []netip.Addr{Shared}},
	{"D30", "two lengths", "allow a.example.net", python(raw, "a.example.net", "80", `POST / HTTP/1.1\r\nHost: a.example.net\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`), reset, `no certain length`, []netip.Addr{Shared}},
	{"D30", "absolute form of another", "allow a.example.net", python(raw, "a.example.net", "80", `GET http://c.example.net/ HTTP/1.1\r\nHost: a.example.net\r\n\r\n`), reset, `HTTP`, []netip.Addr{Shared}},
	{"D30", "two hosts", "allow a.example.net", python(raw, "a.example.net", "80", `GET / HTTP/1.1\r\nHost: a.example.net\r\nHost: c.example.net\r\n\r\n`), reset, `HTTP`, []netip.Addr{Shared}},
	{"D30", "a second request for another", "allow a.example.net",
		python(raw, "a.example.net", "80", `HEAD / HTTP/1.1\r\nHost: a.example.net\r\n\r\nGET / HTTP/1.1\r\nHost: c.example.net\r\n\r\n`), `^(answer b'HTTP/1.1 200 OK|ConnectionResetError)`, `isn't the name that was dialled`, []netip.Addr{Shared}},
	{"D31", "QUIC", "default allow", python(udp, Shared.String(), "443"), refused, ``, nil},
	{"D31", "QUIC by IPv6", "default allow", python(udp, Both6.String(), "443"), refused, ``, nil},
	{"D31", "NTP", "default allow", python(udp, "192.0.2.1", "123"), refused, ``, nil},
	// The kernel tells nobody of a refused multicast (RFC 1122 §3.2.2): it goes nowhere, silently.
	{"D31", "mDNS", "default allow", python(udp, "224.0.0.251", "5353"), `^(late|OSError 101)`, ``, nil},
	{"D31", "ping", "default allow", python(ping, Public.String()), `^(TimeoutError|ConnectionRefusedError|PermissionError) exit 0$`, ``, nil},
	{"D32", "a port that isn't listed", "allow www.example.com 443", python(raw, "www.example.com", "8443", hello), reset, `www\.example\.com`, nil},
	{"D33", "proxy variables unset, and a client that ignores them", "allow b.example.net", shell(`env -u https_proxy NO_PROXY='*' curl -sS https://a.example.net/`), notKnown, `a\.example\.net`, nil},
	{"D33", "node without a proxy", "allow b.example.net", []string{"node", "-e", nodeFetch, "https://a.example.net/"}, `ENOTFOUND exit 1$`, `a\.example\.net`, nil},
	{"D33", "a client that uses the proxy", "allow a.example.net", python(requestsByProxy, "https://a.example.net/x"), `sni=a\.example\.net HTTP/1\.1 /x exit 0$`, ``, []netip.Addr{Shared}},
	{"D33", "a client that uses the proxy without TLS", "allow a.example.net", python(requestsByProxy, "http://a.example.net/x"), `host=a\.example\.net .* /x exit 0$`, ``, []netip.Addr{Shared}},
	{"D33", "the proxy judges as well", "allow a.example.net", python(requestsByProxy, "http://b.example.net/x"), `(?i)(403|forbidden|reason|denie|not allow|no rule)`, `b\.example\.net`, nil},
	{"D38", "the relay's own port", "default allow", python(raw, "127.0.0.1", "15001", "x"), reset, `relay's own port|sandbox itself`, nil},
	{"D38", "the relay's own port at another address", "default allow", python(raw, Public.String(), "15001", "x"), reset, `relay's own port`, nil},
	{"D38", "the daemon's host by its loopback", "default allow", python(raw, "127.0.0.1", "HOSTPORT", "x"), refused, ``, nil},
	{"D38", "the sandbox's own address", "default allow", python(raw, "198.19.255.1", "80", "x"), refused, ``, nil},
	{"D38", "a synthetic address that nobody was given", "default allow", python(raw, "198.18.77.1", "80", "x"), reset, `sandbox itself`, nil},
}

func TestGroupD(t *testing.T) {
	w := New(t)
	for i, row := range rows {
		t.Run(fmt.Sprintf("%s %s", row.id, row.name), func(t *testing.T) {
			s := newSandbox(t, w, row.rules)
			before := w.AllAccepted()
			said := s.run(t, row.filled(t)...)
			if !regexp.MustCompile(row.says).MatchString(said) {
				t.Errorf("row %d, %s\nsays %s\nwant %s", i, row.command, said, row.says)
			}
			if told := s.toldOf(row.told); told != "" {
				t.Errorf("told %q, want %s", told, row.told)
			}
			row.neverElsewhere(t, w, before)
		})
	}
}

// filled is the command, with a port of the daemon's host where it asks for one.
func (r row) filled(t *testing.T) []string {
	command := slices.Clone(r.command)
	for i, arg := range command {
		if arg == "HOSTPORT" {
			command[i] = listening(t)
		}
	}
	return command
}

// neverElsewhere: no host has taken a connection but those that may.
func (r row) neverElsewhere(t *testing.T, w *World, before map[netip.AddrPort]int) {
	t.Helper()
	for at, count := range w.AllAccepted() {
		if count > before[at] && !slices.Contains(r.reaches, at.Addr()) {
			t.Errorf("%s was reached", at)
		}
	}
}

// listening is a port of the machine's own loopback, of the namespace that the daemon would live in.
func listening(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// D18. The first answer is public, the next private: the relay dials what it has checked, when it has checked it.
func TestRebinding(t *testing.T) {
	w := New(t)
	s := newSandbox(t, w, "allow "+RebindingName)
	// The client keeps the address of the first answer, as a pinned one would be; upstream's answer holds for no longer than a second.
	said := s.run(t, shell(`
address=$(dig +short `+RebindingName+`)
for i in 1 2; do
	curl -sS --cacert $CA --resolve `+RebindingName+`:443:$address https://`+RebindingName+`/ || echo failed
	sleep 1.1
done`)...)
	if want := `^rebind\.example\.net host=(?s:.*)failed exit 0$`; !regexp.MustCompile(want).MatchString(said) {
		t.Errorf("says %s\nwant %s", said, want)
	}
	if w.Accepted(Rebinding, 443) != 1 || w.Accepted(Private, 443) != 0 {
		t.Errorf("the public host took %d connections, the private one %d", w.Accepted(Rebinding, 443), w.Accepted(Private, 443))
	}
}

// D34. A transfer that the rules don't allow any more ends within a second, as a reset; one that they do goes on.
func TestTighterRulesCut(t *testing.T) {
	w := New(t)
	s := newSandbox(t, w, "allow big.example.net, allow a.example.net")
	type end struct {
		said string
		at   time.Time
	}
	ended := map[string]chan end{"big": make(chan end), "a": make(chan end)}
	for name, ends := range ended {
		go func() {
			said := s.run(t, shell(`curl -sS --limit-rate 8M --cacert $CA https://`+name+`.example.net/big | wc -c`)...)
			ends <- end{said, time.Now()}
		}()
	}
	deadline := time.Now().Add(20 * time.Second)
	for (w.Sent(Big) == 0 || w.Sent(Shared) == 0) && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
	tightened := time.Now()
	s.judgeBy(t, "allow a.example.net")
	s.relay.Tighten()
	big := <-ended["big"]
	if !regexp.MustCompile(`curl: \(56\) .*eset by peer`).MatchString(big.said) {
		t.Errorf("the one that is cut says %s", big.said)
	}
	if took := big.at.Sub(tightened); took > time.Second {
		t.Errorf("cut after %s", took)
	}
	if a := <-ended["a"]; !regexp.MustCompile(`^33554432 exit 0$`).MatchString(a.said) {
		t.Errorf("the one that goes on says %s", a.said)
	}
}

// D36. Relay and names are gone: nothing passes, and that is told at once.
func TestNothingPassesWithoutTheDaemon(t *testing.T) {
	w := New(t)
	s := newSandbox(t, w, "default allow")
	s.relay.Close()
	if err := s.fenced.Shut(); err != nil {
		t.Fatal(err)
	}
	before := w.AllAccepted()
	for _, command := range [][]string{python(raw, Public.String(), "443", "x"), python(raw, Both6.String(), "443", "x"), python(udp, "8.8.8.8", "53")} {
		if said := s.run(t, command...); !regexp.MustCompile(refused).MatchString(said) {
			t.Errorf("%s says %s", command[3:], said)
		}
	}
	if after := w.AllAccepted(); !maps.Equal(before, after) {
		t.Errorf("before %v, after %v", before, after)
	}
}
