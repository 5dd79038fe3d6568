package network

import "net/netip"

// row is one scenario: what somebody inside tries, and that it gets them nowhere.
type row struct {
	id, name string
	rules    string // as spec reads them; empty allows nothing
	command  []string
	says     string // a regular expression on what the client says, exit status included
	// told is what is told of the refusal, and recorded of it in a sandbox: who refused, what, why, by which rule. Empty: nothing may be, since all went well or
	// the kernel refused a datagram, or everything, which tells nobody.
	told    string
	reaches []netip.Addr // the hosts that may take a connection; all others must take none
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
	// group sends a datagram by a device, for which no route is asked: ADDRESS.
	group = `
import socket, sys
six = ":" in sys.argv[1]
s = socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(3)
try:
    s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo")
    s.sendto(b"x", (sys.argv[1], 5353))
    print("answer", s.recv(200))
except OSError as e:
    print(type(e).__name__, e.errno)
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
	// ech sends the hello of a real client with one extension more, as one that hides its name has it (RFC 9849): HOST NAME.
	ech = `
import socket, ssl, sys
incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
client = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname=sys.argv[2])
try:
    client.do_handshake()
except ssl.SSLWantReadError:
    pass
hello = outgoing.read()
at = 5 + 4 + 34
at += 1 + hello[at]
at += 2 + int.from_bytes(hello[at:at+2], "big")
at += 1 + hello[at]
extensions = hello[at+2:] + b"\xfe\x0d\x00\x01\x01"
body = hello[9:at] + len(extensions).to_bytes(2, "big") + extensions
message = b"\x01" + len(body).to_bytes(3, "big") + body
try:
    s = socket.create_connection((sys.argv[1], 443), timeout=10)
    s.sendall(hello[:3] + len(message).to_bytes(2, "big") + message)
    print("answer", s.recv(3))
except OSError as e:
    print(type(e).__name__, e.errno)
`
	// inner begins TLS for a name inside of TLS: HOST NAME.
	inner = `
import os, socket, ssl, sys
outer = ssl.create_default_context(cafile=os.environ["CA"])
s = outer.wrap_socket(socket.create_connection((sys.argv[1], 443), timeout=10), server_hostname=sys.argv[1])
incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
client = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname=sys.argv[2])
try:
    client.do_handshake()
except ssl.SSLWantReadError:
    pass
s.sendall(outgoing.read())
print(s.recv(12))
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
	notKnown    = `Could not resolve host: .* exit 6$`
	reset       = `(ConnectionResetError 104|BrokenPipeError 32) exit 0$`
	refused     = `ConnectionRefusedError 111 exit 0$`
	unreachable = `OSError 101 exit 0$`
	// A reset may come while curl still connects.
	curlReset = `(eset by peer|Failed to connect|Broken pipe).* exit (7|16|35|55|56)$`
)

var rows = []row{
	{"D1", "empty list of rules", "", shell(`curl -sS https://a.example.net/`), notKnown, `names: a.example.net A: no rule allows it (rule -1)`, nil},
	{"D1", "an address without rules", "", python(raw, Public.String(), "443", hello), refused, `relay: denied 45.9.1.10:443: no rule allows it (rule -1)`, nil},
	{"D2", "rules that only deny", "deny a.example.net", shell(`curl -sS https://b.example.net/`), notKnown, `names: b.example.net A: no rule allows it (rule -1)`, nil},
	{"D3", "a name that ends like an allowed one", "allow example.com", shell(`curl -sS https://evil-example.com/`), notKnown, `names: evil-example.com A: no rule allows it (rule -1)`, nil},
	{"D3", "a name that begins like an allowed one", "allow example.com", shell(`curl -sS https://example.com.example.net/`), notKnown, `names: example.com.example.net A: no rule allows it (rule -1)`, nil},
	{"D4", "the apex of a wildcard", "allow *.example.net", shell(`dig +noall +comments example.net`), `status: NXDOMAIN`, `names: example.net A: no rule allows it (rule -1)`, nil},
	{"D4", "beneath a wildcard", "allow *.example.net", shell(`curl -sS --cacert $CA https://c.example.net/`), `host=c\.example\.net .* exit 0$`, ``, []netip.Addr{Shared}},
	{"D5", "a denied name in other letters, with a dot at its end", "deny c.example.net, allow *.example.net", shell(`dig +noall +comments C.eXample.NET.`), `status: NXDOMAIN`, `names: c.example.net A: denied by a rule (rule 0)`, nil},
	{"D5", "an allowed one", "allow a.example.net", shell(`dig +short A.eXample.NET.`), `^198\.18\.0\.1 exit 0$`, ``, nil},
	{"D6", "a look-alike in other letters", "allow a.example.net", shell(`dig +noall +comments +noidnin xn--exmple-cua.net`), `status: NXDOMAIN`, `names: xn--exmple-cua.net A: no rule allows it (rule -1)`, nil},
	{"D7", "NUL in a name", "allow *.example.net", shell(`dig +noall +comments 'a\000.example.net'`), `status: NXDOMAIN`, `names: a\000.example.net. A: not a host name (rule -3)`, nil},
	{"D7", "blank in a name", "allow *.example.net", shell(`dig +noall +comments 'a b.example.net'`), `status: NXDOMAIN`, `names: a\ b.example.net. A: not a host name (rule -3)`, nil},
	{"D7", "at sign in a name", "allow *.example.net", shell(`dig +noall +comments 'a@b.example.net'`), `status: (NXDOMAIN|REFUSED)`, `names: a\@b.example.net. A: not a host name (rule -3)`, nil},
	{"D8", "a wildcard is for one label or more", "allow *.example.net", shell(`dig +short x.y.z.example.net`), `^198\.18\.0\.1 exit 0$`, ``, nil},
	{"D10", "where a CNAME leads is not allowed by itself", "allow alias.example.net", shell(`curl -sS https://other.example.org/`), notKnown, `names: other.example.org A: no rule allows it (rule -1)`, nil},
	{"D10", "and is reached by the name that is", "allow alias.example.net", shell(`curl -sS --cacert $CA https://alias.example.net/`), `host=alias\.example\.net .* exit 0$`, ``, []netip.Addr{Elsewhere}},
	{"D11", "data in a long label", "allow *.example.net", shell(`dig +noall +comments mzxw6ytboi2dgnbvgy3tqojqmfrggzdfmzxw6ytboi2dgnbvgy.example.net`), `status: REFUSED`, `names: mzxw6ytboi2dgnbvgy3tqojqmfrggzdfmzxw6ytboi2dgnbvgy.example.net A: label too long for a name that no rule spells out (rule 0)`, nil},
	{"D11", "data in many labels", "allow *.example.net",
		shell(`dig +noall +comments mzxw6ytboi2dgnbvgy3tqojqmfrggzdf.nb2hi4dthixs653xo4xgk6dbnvygyzj.onswg4tforzsa43fmnzgk5bamj2xiidopjtwyz3p.example.net`),
		`status: REFUSED`, `names: mzxw6ytboi2dgnbvgy3tqojqmfrggzdf.nb2hi4dthixs653xo4xgk6dbnvygyzj.onswg4tforzsa43fmnzgk5bamj2xiidopjtwyz3p.example.net A: name carries too much for one that no rule spells out (rule 0)`, nil},
	{"D11", "a flood", "allow a.example.net", python(flood, "a.example.net"), `^refused 0 exit 0$`, `names:  : too many queries a second (rule -3)`, nil},
	{"D12", "TXT", "allow a.example.net", shell(`dig +noall +comments a.example.net TXT`), `status: REFUSED`, `names: a.example.net. TXT: only A and AAAA are answered (rule -3)`, nil},
	{"D12", "NULL", "allow a.example.net", shell(`dig +noall +comments a.example.net NULL`), `status: REFUSED`, `names: a.example.net. NULL: only A and AAAA are answered (rule -3)`, nil},
	{"D12", "ANY", "allow a.example.net", shell(`dig +noall +comments +notcp a.example.net ANY`), `status: REFUSED`, `names: a.example.net. ANY: only A and AAAA are answered (rule -3)`, nil},
	{"D12", "HTTPS", "allow a.example.net", shell(`dig +noall +comments a.example.net HTTPS`), `status: REFUSED`, `names: a.example.net. HTTPS: only A and AAAA are answered (rule -3)`, nil},
	{"D12", "AXFR", "allow a.example.net", shell(`dig a.example.net AXFR`), `Transfer failed`, `names: a.example.net. AXFR: only A and AAAA are answered (rule -3)`, nil},
	{"D14", "by TCP", "allow a.example.net", shell(`dig +tcp +short b.example.net; dig +tcp +short a.example.net`), `^198\.18\.0\.1 exit 0$`, `names: b.example.net A: no rule allows it (rule -1)`, nil},
	{"D14", "EDNS with 64 KB and cookies", "allow a.example.net", shell(`dig +bufsize=65535 +cookie=0011223344556677 +short a.example.net`), `^198\.18\.0\.1 exit 0$`, ``, nil},
	{"D15", "DNS over TLS", "allow a.example.net", python(raw, Public.String(), "853", hello), refused, `relay: denied 45.9.1.10:853: no rule allows it (rule -1)`, nil},
	{"D15", "DNS over QUIC", "allow a.example.net", python(udp, Public.String(), "853"), refused, ``, nil},
	{"D15", "DNS over HTTPS to an address", "allow a.example.net", shell(`curl -sS -k https://45.9.1.10/dns-query`), curlReset, `relay: denied 45.9.1.10:443: no rule allows it (rule -1)`, nil},
	{"D15", "DNS over HTTPS by a name", "allow a.example.net", shell(`curl -sS https://www.example.com/dns-query`), notKnown, `names: www.example.com A: no rule allows it (rule -1)`, nil},
	{"D16", "another resolver", "allow a.example.net", shell(`dig +short @8.8.8.8 a.example.net; dig +short @8.8.8.8 www.example.com; dig +short @2001:4860:4860::8888 a.example.net`),
		"^198\\.18\\.0\\.1\n198\\.18\\.0\\.1 exit 0$", `names: www.example.com A: no rule allows it (rule -1)`, nil},
	{"D17", "a name with a private address", "allow private.example.net", shell(`curl -sS https://private.example.net/`), notKnown, `names: private.example.net A: a private address that no rule names (rule -2)`, nil},
	{"D17", "a name with a loopback address", "allow loopback.example.net", shell(`curl -sS https://loopback.example.net/`), notKnown, `names: loopback.example.net A: a loopback address, never reachable (rule -2)`, nil},
	{"D17", "a mapped address", "allow mapped.example.net", shell(`curl -sS https://mapped.example.net/`), notKnown, `names: mapped.example.net AAAA: a private address that no rule names (rule -2)`, nil},
	{"D17", "NAT64", "allow nat64.example.net", shell(`curl -sS https://nat64.example.net/`), notKnown, `names: nat64.example.net A: a translated address that no rule names (rule -2)`, nil},
	{"D17", "6to4", "allow 6to4.example.net", shell(`curl -sS https://6to4.example.net/`), notKnown, `names: 6to4.example.net A: a translated address that no rule names (rule -2)`, nil},
	{"D17", "a unique-local address", "allow ula.example.net", shell(`curl -sS https://ula.example.net/`), notKnown, `names: ula.example.net AAAA: a unique-local address that no rule names (rule -2)`, nil},
	{"D17", "a link-local address", "allow link.example.net", shell(`curl -sS https://link.example.net/`), notKnown, `names: link.example.net A: a link-local address that no rule names (rule -2)`, nil},
	{"D17", "a private address that a rule names", "allow private.example.net, allow 10.9.0.0/16",
		shell(`curl -sS --cacert $CA https://private.example.net/`), `host=private\.example\.net .* exit 0$`, ``, []netip.Addr{Private}},
	{"D17", "a private address beside a public one", "allow mixed.example.net", shell(`curl -sS -k https://mixed.example.net/`), `^www\.example\.com host=mixed\.example\.net .* exit 0$`, ``, []netip.Addr{Public}},
	{"D20", "metadata by its address", "default allow", shell(`curl -sS http://169.254.169.254/latest/`), curlReset, `relay: denied 169.254.169.254:80: a metadata address, never reachable (rule -2)`, nil},
	{"D20", "metadata by a range", "allow 0.0.0.0/0, allow ::/0", shell(`curl -sS http://169.254.169.254/latest/`), curlReset, `relay: denied 169.254.169.254:80: a metadata address, never reachable (rule -2)`, nil},
	{"D20", "metadata by a name of ours", "allow *.example.net", shell(`curl -sS http://metadata.example.net/`), notKnown, `names: metadata.example.net A: a metadata address, never reachable (rule -2)`, nil},
	{"D20", "metadata by its own name", "default allow", shell(`curl -sS http://metadata.google.internal/`), notKnown, `names: metadata.google.internal A: a metadata name, never reachable (rule -2)`, nil},
	{"D20", "Azure's", "default allow", python(raw, "168.63.129.16", "80", "x"), refused, `relay: denied 168.63.129.16:80: a metadata address, never reachable (rule -2)`, nil},
	{"D20", "Alibaba's", "default allow", python(raw, "100.100.100.200", "80", "x"), refused, `relay: denied 100.100.100.200:80: a metadata address, never reachable (rule -2)`, nil},
	{"D20", "AWS's by IPv6", "default allow", python(raw, "fd00:ec2::254", "80", "x"), refused, `relay: denied [fd00:ec2::254]:80: a metadata address, never reachable (rule -2)`, nil},
	{"D20", "mapped", "default allow", python(raw, "::ffff:169.254.169.254", "80", "x"), refused, `relay: denied 169.254.169.254:80: a metadata address, never reachable (rule -2)`, nil},
	{"D20", "by NAT64", "default allow", python(raw, "64:ff9b::a9fe:a9fe", "80", "x"), refused, `relay: denied [64:ff9b::a9fe:a9fe]:80: a translated address that no rule names (rule -2)`, nil},
	{"D23", "unspecified", "default allow", python(raw, "0.0.0.0", "80", "x"), refused, ``, nil},
	{"D23", "unspecified, of IPv6", "default allow", python(raw, "::", "80", "x"), refused, ``, nil},
	{"D23", "broadcast", "default allow", python(raw, "255.255.255.255", "80", "x"), unreachable, ``, nil},
	{"D23", "multicast", "default allow", python(raw, "224.0.0.1", "80", "x"), unreachable, ``, nil},
	{"D23", "multicast of IPv6", "default allow", python(raw, "ff0e::1", "80", "x"), unreachable, ``, nil},
	{"D23", "multicast by UDP", "default allow", python(udp, "224.0.0.251", "5353"), unreachable, ``, nil},
	{"D23", "multicast of IPv6 by UDP", "default allow", python(udp, "ff0e::fb", "5353"), unreachable, ``, nil},
	{"D23", "broadcast by UDP", "default allow", python(udp, "255.255.255.255", "9"), `^PermissionError 13 exit 0$`, ``, nil},
	{"D23", "broadcast by UDP that was asked for", "default allow", python(group, "255.255.255.255"), `^PermissionError 1 exit 0$`, ``, nil},
	{"D23", "multicast by UDP, by a device", "default allow", python(group, "224.0.0.251"), `^PermissionError 1 exit 0$`, ``, nil},
	{"D23", "multicast of IPv6 by UDP, by a device", "default allow", python(group, "ff02::fb"), `^(PermissionError 1|OSError 101) exit 0$`, ``, nil},
	{"D24", "IPv6 where rules speak of IPv4", "allow 0.0.0.0/0", python(raw, Both6.String(), "443", hello), refused, `relay: denied [2a09:1::10]:443: no rule allows it (rule -1)`, nil},
	{"D25", "a redirect to metadata", allowed, shell(`curl -sSL --cacert $CA https://redirect.example.net/to-metadata`), curlReset, `relay: denied 169.254.169.254:80: a metadata address, never reachable (rule -2)`, []netip.Addr{Redirect}},
	{"D26", "CONNECT to an address", "allow a.example.net", shell(`curl -sS -k -x http://198.19.255.2:3128 https://45.9.1.10/`), `403 exit (56|7)$`, `relay: denied 45.9.1.10:443: no rule allows it (rule -1)`, nil},
	{"D26", "CONNECT to a name that isn't allowed", "allow a.example.net", shell(`curl -sS -k -x http://198.19.255.2:3128 https://b.example.net/`), `403 exit (56|7)$`, `relay: denied b.example.net: no rule allows it (rule -1)`, nil},
	{"D26", "CONNECT to one that is", "allow a.example.net", shell(`curl -sS --cacert $CA -x http://198.19.255.2:3128 https://a.example.net/`), `host=a\.example\.net .* exit 0$`, ``, []netip.Addr{Shared}},
	{"D27", "SNI of a neighbour", "allow a.example.net", shell(`curl -sS -k --connect-to c.example.net:443:a.example.net:443 https://c.example.net/`), curlReset, `relay: denied a.example.net: the server name of TLS isn't the name that was dialled (rule -3)`, []netip.Addr{Shared}},
	{"D27", "SNI of a neighbour, by CONNECT", "allow a.example.net",
		shell(`curl -sS -k -x http://198.19.255.2:3128 --connect-to c.example.net:443:a.example.net:443 https://c.example.net/`), ` exit (16|35|56)$`, `relay: denied a.example.net: the server name of TLS isn't the name that was dialled (rule -3)`, []netip.Addr{Shared}},
	{"D27", "no SNI", "allow a.example.net", shell(`echo | openssl s_client -noservername -connect a.example.net:443 2>&1 | grep -o -e errno=104 -e 'no peer certificate' | head -1`), `^(errno=104|no peer certificate) exit 0$`, `relay: denied a.example.net: a TLS hello without a server name (rule -3)`, []netip.Addr{Shared}},
	{"D27", "Host of a neighbour", "allow a.example.net", shell(`curl -sS -H 'Host: c.example.net' http://a.example.net/`), curlReset, `relay: denied a.example.net: the host of HTTP isn't the name that was dialled (rule -3)`, []netip.Addr{Shared}},
	{"D27", "a name that is encrypted (ECH)", "allow a.example.net", python(ech, "a.example.net", "a.example.net"), reset, `relay: denied a.example.net: a TLS hello with an encrypted part (ECH) (rule -3)`, []netip.Addr{Shared}},
	{"D28", "the shared address by hand", "allow a.example.net", shell(`curl -sS -k --resolve c.example.net:443:45.9.1.1 https://c.example.net/`), curlReset, `relay: denied 45.9.1.1:443: no rule allows it (rule -1)`, nil},
	{"D28", "the neighbour's name at our synthetic address", "allow a.example.net", shell(`curl -sS -k --resolve c.example.net:443:$(dig +short a.example.net) https://c.example.net/`), curlReset, `relay: denied a.example.net: the server name of TLS isn't the name that was dialled (rule -3)`, []netip.Addr{Shared}},
	{"D28", "a denied name at an allowed address", "deny c.example.net, allow 45.9.1.1", shell(`curl -sS -k --resolve c.example.net:443:45.9.1.1 https://c.example.net/`), curlReset, `relay: denied 45.9.1.1:443: a rule denies the name that the client asks the server for (rule 0)`, []netip.Addr{Shared}},
	// A server that speaks first is heard; what the client says to it is not passed on.
	{"D29", "what isn't TLS on its port", "allow lines.example.net", python(raw, "lines.example.net", "443", `EHLO x\n`), `^(answer b'hello|ConnectionResetError 104)`, `relay: denied lines.example.net: not TLS on port 443 (rule -3)`, []netip.Addr{Lines}},
	{"D29", "a hello in many segments", "allow a.example.net", python(split, "a.example.net", "a.example.net"), `^answer b'\\x16\\x03`, ``, []netip.Addr{Shared}},
	{"D29", "a neighbour's hello in many segments", "allow a.example.net", python(split, "a.example.net", "c.example.net"), reset, `relay: denied a.example.net: the server name of TLS isn't the name that was dialled (rule -3)`, []netip.Addr{Shared}},
	{"D29", "a hello that is none", "allow a.example.net", python(raw, "a.example.net", "443", hello), reset, `relay: denied a.example.net: a malformed TLS hello (rule -3)`, []netip.Addr{Shared}},
	// What is inside of TLS goes to the host that is allowed, and is for that host to answer.
	{"D29", "TLS in TLS", "allow a.example.net", python(inner, "a.example.net", "c.example.net"), `^b'HTTP/1\.1 400' exit 0$`, ``, []netip.Addr{Shared}},
	{"D30", "two lengths", "allow a.example.net", python(raw, "a.example.net", "80", `POST / HTTP/1.1\r\nHost: a.example.net\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`), reset, `relay: denied a.example.net: an HTTP request whose body has no certain length (rule -3)`, []netip.Addr{Shared}},
	{"D30", "absolute form of another", "allow a.example.net", python(raw, "a.example.net", "80", `GET http://c.example.net/ HTTP/1.1\r\nHost: a.example.net\r\n\r\n`), reset, `relay: denied a.example.net: the host of HTTP isn't the name that was dialled (rule -3)`, []netip.Addr{Shared}},
	{"D30", "two hosts", "allow a.example.net", python(raw, "a.example.net", "80", `GET / HTTP/1.1\r\nHost: a.example.net\r\nHost: c.example.net\r\n\r\n`), reset, `relay: denied a.example.net: a malformed HTTP request (rule -3)`, []netip.Addr{Shared}},
	{"D30", ":authority of another, HTTP/2", "allow a.example.net", shell(`curl -sS --http2-prior-knowledge -H 'Host: c.example.net' http://a.example.net/`), curlReset, `relay: denied a.example.net: the host of HTTP isn't the name that was dialled (rule -3)`, []netip.Addr{Shared}},
	{"D30", "a second request for another", "allow a.example.net",
		python(raw, "a.example.net", "80", `HEAD / HTTP/1.1\r\nHost: a.example.net\r\n\r\nGET / HTTP/1.1\r\nHost: c.example.net\r\n\r\n`), `^(answer b'HTTP/1.1 200 OK|ConnectionResetError)`, `relay: denied a.example.net: the host of HTTP isn't the name that was dialled (rule -3)`, []netip.Addr{Shared}},
	{"D31", "QUIC", "default allow", python(udp, Shared.String(), "443"), refused, ``, nil},
	{"D31", "QUIC by IPv6", "default allow", python(udp, Both6.String(), "443"), refused, ``, nil},
	{"D31", "NTP", "default allow", python(udp, "192.0.2.1", "123"), refused, ``, nil},
	{"D31", "ping", "default allow", python(ping, Public.String()), `^(TimeoutError|ConnectionRefusedError|PermissionError) exit 0$`, ``, nil},
	{"D32", "a port that isn't listed", "allow www.example.com 443", python(raw, "www.example.com", "8443", hello), reset, `relay: denied www.example.com: no rule allows it (rule -1)`, nil},
	{"D33", "proxy variables unset, and a client that ignores them", "allow b.example.net", shell(`env -u https_proxy NO_PROXY='*' curl -sS https://a.example.net/`), notKnown, `names: a.example.net A: no rule allows it (rule -1)`, nil},
	{"D33", "node without a proxy", "allow b.example.net", []string{"node", "-e", nodeFetch, "https://a.example.net/"}, `ENOTFOUND exit 1$`, `names: a.example.net A: no rule allows it (rule -1)`, nil},
	{"D33", "Go that is told of a proxy and not to use it", "allow b.example.net", shell(`HTTPS_PROXY=http://198.19.255.2:3128 NO_PROXY='*' ` + goClient + `=1 $GO_CLIENT get https://a.example.net/`), `no such host exit 1$`, `names: a.example.net A: no rule allows it (rule -1)`, nil},
	{"D33", "a client that uses the proxy", "allow a.example.net", python(requestsByProxy, "https://a.example.net/x"), `sni=a\.example\.net HTTP/1\.1 /x exit 0$`, ``, []netip.Addr{Shared}},
	{"D33", "a client that uses the proxy without TLS", "allow a.example.net", python(requestsByProxy, "http://a.example.net/x"), `host=a\.example\.net .* /x exit 0$`, ``, []netip.Addr{Shared}},
	{"D33", "the proxy judges as well", "allow a.example.net", python(requestsByProxy, "http://b.example.net/x"), `(?i)(403|forbidden|reason|denie|not allow|no rule)`, `relay: denied b.example.net: no rule allows it (rule -1)`, nil},
	{"D38", "the relay's own port", "default allow", python(raw, "127.0.0.1", "15001", "x"), reset, `relay: denied 127.0.0.1:15001: the relay's own port (rule -3)`, nil},
	{"D38", "the relay's own port at another address", "default allow", python(raw, Public.String(), "15001", "x"), reset, `relay: denied 45.9.1.10:15001: the relay's own port (rule -3)`, nil},
	{"D38", "the daemon's host by its loopback", "default allow", python(raw, "127.0.0.1", "HOSTPORT", "x"), refused, ``, nil},
	{"D38", "the sandbox's own address", "default allow", python(raw, "198.19.255.1", "80", "x"), refused, ``, nil},
	{"D38", "a synthetic address that nobody was given", "default allow", python(raw, "198.18.77.1", "80", "x"), reset, `relay: denied 198.18.77.1:80: an address of the sandbox itself (rule -3)`, nil},
}
