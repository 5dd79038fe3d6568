package relay

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/net/http2/hpack"

	"github.com/sandboxd/sandboxd/policy"
)

// extension is one of a hello, by number.
type extension struct {
	kind uint16
	data []byte
}

func vector(size int, data []byte) []byte {
	var length []byte
	for i := size - 1; i >= 0; i-- {
		length = append(length, byte(len(data)>>(8*i)))
	}
	return append(length, data...)
}

func serverName(name string) extension {
	return extension{0, vector(2, append([]byte{0}, vector(2, []byte(name))...))}
}

// helloMessage is a ClientHello without records.
func helloMessage(extensions ...extension) []byte {
	body := append([]byte{3, 3}, make([]byte, 32)...)
	body = append(body, vector(1, make([]byte, 32))...)
	body = append(body, vector(2, []byte{0x13, 0x01, 0x13, 0x02})...)
	body = append(body, vector(1, []byte{0})...)
	if extensions != nil {
		var all []byte
		for _, e := range extensions {
			all = append(append(all, byte(e.kind>>8), byte(e.kind)), vector(2, e.data)...)
		}
		body = append(body, vector(2, all)...)
	}
	return append([]byte{1}, vector(3, body)...)
}

// records puts a message into records of at most size bytes.
func records(message []byte, size int) (b []byte) {
	for len(message) > 0 {
		n := min(size, len(message))
		b = append(append(b, 22, 3, 1), vector(2, message[:n])...)
		message = message[n:]
	}
	return b
}

func helloFor(name string) []byte { return records(helloMessage(serverName(name)), longestRecord) }

// goHello is what Go's client sends.
func goHello(t testing.TB, name string) []byte {
	client, server := net.Pipe()
	defer server.Close()
	go func() {
		_ = tls.Client(client, &tls.Config{ServerName: name, InsecureSkipVerify: name == ""}).Handshake()
		client.Close()
	}()
	b := make([]byte, 64<<10)
	n, err := server.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return b[:n]
}

var (
	changeCipherSpec = []byte{20, 3, 3, 0, 1, 1}
	finished         = append([]byte{23, 3, 3, 0, 4}, "DATA"...)
)

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// h2 frames.
func frame(kind, flags byte, stream uint32, payload []byte) []byte {
	return append(append(vector(3, payload)[:3], kind, flags, byte(stream>>24), byte(stream>>16), byte(stream>>8), byte(stream)), payload...)
}

func headers(fields ...string) []byte {
	var b bytes.Buffer
	encoder := hpack.NewEncoder(&b)
	for i := 0; i < len(fields); i += 2 {
		_ = encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return b.Bytes()
}

func request2(authority string) []byte {
	return headers(":method", "GET", ":scheme", "http", ":path", "/", ":authority", authority)
}

func TestLooks(t *testing.T) {
	named := func(port uint16) target { return target{name: "a.example", port: port} }
	literal := target{addr: netip.MustParseAddr("8.0.0.1"), port: 443}
	plain := target{addr: netip.MustParseAddr("8.0.0.1"), port: 8080}
	ech := extension{0xfe0d, []byte{0, 0, 1, 0, 1, 0, 0, 0, 0, 0}}
	get := "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n"
	evil := "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"
	second := func(host string) string {
		return "POST /x HTTP/1.1\r\nHost: " + host + "\r\nContent-Length: 3\r\n\r\nabc"
	}
	settings := frame(4, 0, 0, nil)

	for _, test := range []struct {
		what     string
		on       target
		sent     []byte
		switched bool
		want     string // the reason; empty: all of it passes
	}{
		{"TLS", named(443), helloFor("a.example"), false, ""},
		{"TLS, upper case", named(443), helloFor("A.Example"), false, ""},
		{"TLS of Go", named(443), goHello(t, "a.example"), false, ""},
		{"TLS on another port", named(8443), helloFor("a.example"), false, ""},
		{"another server name", named(443), helloFor("evil.example"), false, reasonOtherName},
		{"another server name of Go's, other port", named(8443), goHello(t, "evil.example"), false, reasonOtherName},
		{"name beneath", named(443), helloFor("b.a.example"), false, reasonOtherName},
		{"dot at the end", named(443), helloFor("a.example."), false, reasonBadHello},
		{"NUL in the name", named(443), helloFor("a.example\x00.evil"), false, reasonBadHello},
		{"port in the name", named(443), helloFor("a.example:443"), false, reasonBadHello},
		{"no server name", named(443), records(helloMessage(extension{10, nil}), longestRecord), false, reasonNoName},
		{"no extensions", named(443), records(helloMessage(), longestRecord), false, reasonNoName},
		{"no server name, other port", named(993), records(helloMessage(), longestRecord), false, reasonNoName},
		{"empty server name", named(443), helloFor(""), false, reasonBadHello},
		{"two server names", named(443), records(helloMessage(extension{0, vector(2, join([]byte{0}, vector(2, []byte("a.example")), []byte{0}, vector(2, []byte("evil"))))}), longestRecord), false, reasonBadHello},
		{"extension twice", named(443), records(helloMessage(serverName("a.example"), serverName("evil.example")), longestRecord), false, reasonBadHello},
		{"ECH", named(443), records(helloMessage(serverName("a.example"), ech), longestRecord), false, reasonECH},
		{"ECH to an address", literal, records(helloMessage(ech), longestRecord), false, reasonECH},
		{"ESNI", named(443), records(helloMessage(serverName("a.example"), extension{0xffce, nil}), longestRecord), false, reasonECH},
		{"hello in many records", named(443), records(helloMessage(serverName("a.example")), 1), false, ""},
		{"hello in many records, another name", named(443), records(helloMessage(serverName("evil.example")), 7), false, reasonOtherName},
		{"more behind the hello in its record", named(443), records(append(helloMessage(serverName("a.example")), 1), longestRecord), false, reasonBadHello},
		{"an alert inside the hello", named(443), join(records(helloMessage(serverName("a.example")), 60)[:65], []byte{21, 3, 3, 0, 2, 1, 0}), false, reasonBadHello},
		{"empty record", named(443), []byte{22, 3, 1, 0, 0, 22}, false, reasonBadHello},
		{"long hello", named(443), records(helloMessage(serverName("a.example"), extension{21, make([]byte, 20000)}), longestRecord), false, reasonLongHello},
		{"long hello by tiny records", named(443), records(helloMessage(serverName("a.example"), extension{21, make([]byte, 10000)}), 1), false, reasonLongHello},
		{"SSL 2 hello", named(443), []byte{0x80, 0x2e, 1, 3, 1, 0, 0x15}, false, reasonNotTLS},
		{"garbage for a hello", named(443), append([]byte{22, 3, 1, 0, 40}, make([]byte, 40)...), false, reasonBadHello},
		{"HTTP on 443", named(443), []byte(get), false, reasonNotTLS},
		{"CONNECT on 443", named(443), []byte("CONNECT evil.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n"), false, reasonNotTLS},
		{"SSH on 443", named(443), []byte("SSH-2.0-x\r\n"), false, reasonNotTLS},
		{"TLS goes on", named(443), join(helloFor("a.example"), changeCipherSpec, finished, []byte("anything")), false, ""},
		{"TLS 1.2 goes on", named(443), join(helloFor("a.example"), []byte{22, 3, 3, 0, 4, 16, 0, 0, 0}, changeCipherSpec), false, ""},
		{"second hello", named(443), join(helloFor("a.example"), changeCipherSpec, helloFor("a.example"), finished), false, ""},
		{"second hello, another name", named(443), join(helloFor("a.example"), changeCipherSpec, helloFor("evil.example"), finished), false, reasonOtherName},
		{"second hello behind an alert", named(443), join(helloFor("a.example"), []byte{21, 3, 3, 0, 2, 1, 90}, helloFor("evil.example")), false, reasonOtherName},
		{"second hello behind early data", named(443), join(records(helloMessage(serverName("a.example"), extension{42, nil}), longestRecord), changeCipherSpec, finished, finished, helloFor("evil.example")), false, reasonOtherName},
		{"early data", named(443), join(records(helloMessage(serverName("a.example"), extension{42, nil}), longestRecord), changeCipherSpec, finished, finished), false, ""},
		{"no server name to an address", literal, records(helloMessage(), longestRecord), false, ""},
		{"an address as server name", literal, helloFor("8.0.0.1"), false, ""},
		{"another address as server name", literal, helloFor("8.0.0.2"), false, reasonOtherName},
		{"some name at an address", literal, helloFor("b.example"), false, ""},
		{"a denied name at an address", literal, helloFor("denied.example"), false, reasonClaimed},

		{"HTTP", named(80), []byte(get), false, ""},
		{"HTTP 1.0", named(80), []byte("GET / HTTP/1.0\r\nHost: a.example\r\n\r\n"), false, ""},
		{"HTTP on another port", named(8080), []byte(strings.Replace(get, "a.example", "a.example:8080", 1)), false, ""},
		{"another port in Host", named(8080), []byte(strings.Replace(get, "a.example", "a.example:80", 1)), false, reasonOtherPort},
		{"another Host", named(80), []byte(evil), false, reasonOtherHost},
		{"another Host on another port", named(8080), []byte(evil), false, reasonOtherHost},
		{"an address as Host", named(80), []byte("GET / HTTP/1.1\r\nHost: 8.0.0.1\r\n\r\n"), false, reasonOtherHost},
		{"no Host", named(80), []byte("GET / HTTP/1.0\r\n\r\n"), false, reasonNoHost},
		{"no version", named(80), []byte("GET /\r\n"), false, reasonBadHTTP},
		{"no version on another port", named(8080), []byte("GET /\r\n\r\n"), false, reasonBadHTTP},
		{"absolute without a version on another port", named(8080), []byte("GET http://evil.example/\r\n\r\n"), false, reasonBadHTTP},
		{"two Hosts", named(80), []byte("GET / HTTP/1.1\r\nHost: a.example\r\nHost: evil.example\r\n\r\n"), false, reasonBadHTTP},
		{"space before the colon", named(80), []byte("GET / HTTP/1.1\r\nHost: a.example\r\nHost : evil.example\r\n\r\n"), false, reasonBadHTTP},
		{"continued line", named(80), []byte("GET / HTTP/1.1\r\nX: a\r\n Host: evil.example\r\nHost: a.example\r\n\r\n"), false, reasonBadHTTP},
		{"lone line feed", named(80), []byte("GET / HTTP/1.1\nHost: evil.example\r\nHost: a.example\r\n\r\n"), false, reasonBadHTTP},
		{"lone line feed inside", named(80), []byte("GET / HTTP/1.1\r\nX: a\nHost: evil.example\r\nHost: a.example\r\n\r\n"), false, reasonBadHTTP},
		{"lone carriage return", named(80), []byte("GET / HTTP/1.1\r\nX: a\rHost: evil.example\r\nHost: a.example\r\n\r\n"), false, reasonBadHTTP},
		{"NUL in Host", named(80), []byte("GET / HTTP/1.1\r\nHost: a.example\x00.evil\r\n\r\n"), false, reasonBadHTTP},
		{"user in Host", named(80), []byte("GET / HTTP/1.1\r\nHost: a.example@evil.example\r\n\r\n"), false, reasonBadHTTP},
		{"empty line first", named(80), []byte("\r\n" + evil), false, reasonBadHTTP},
		{"empty line first on another port", named(8080), []byte("\r\n" + evil), false, reasonBadHTTP},
		{"space first on another port", named(8080), []byte(" " + evil), false, reasonBadHTTP},
		{"two spaces", named(80), []byte("GET  / HTTP/1.1\r\nHost: a.example\r\n\r\n"), false, reasonBadHTTP},
		{"tab for a space on another port", named(8080), []byte("GET\t/\tHTTP/1.1\r\nHost: evil.example\r\n\r\n"), false, reasonBadHTTP},
		{"absolute form", named(80), []byte("GET http://a.example/x HTTP/1.1\r\nHost: a.example\r\n\r\n"), false, ""},
		{"absolute form, another Host", named(80), []byte("GET http://a.example/x HTTP/1.1\r\nHost: evil.example\r\n\r\n"), false, reasonOtherHost},
		{"absolute form of another", named(80), []byte("GET http://evil.example/x HTTP/1.1\r\nHost: a.example\r\n\r\n"), false, reasonOtherHost},
		{"absolute form of another, on another port", named(3128), []byte("GET http://evil.example/x HTTP/1.1\r\nHost: a.example\r\n\r\n"), false, reasonOtherHost},
		{"absolute form with a user", named(80), []byte("GET http://a.example@evil.example/x HTTP/1.1\r\nHost: a.example\r\n\r\n"), false, reasonBadHTTP},
		{"absolute form, https", named(80), []byte("GET https://a.example/x HTTP/1.1\r\nHost: a.example\r\n\r\n"), false, reasonBadHTTP},
		{"target that is no path", named(80), []byte("GET evil.example HTTP/1.1\r\nHost: a.example\r\n\r\n"), false, reasonBadHTTP},
		{"OPTIONS *", named(80), []byte("OPTIONS * HTTP/1.1\r\nHost: a.example\r\n\r\n"), false, ""},
		{"CONNECT", named(80), []byte("CONNECT evil.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n"), false, reasonConnect},
		{"CONNECT to a proxy outside", named(3128), []byte("CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:3128\r\n\r\n"), false, reasonConnect},
		{"requests", named(80), []byte(get + second("a.example") + get), false, ""},
		{"another Host later", named(80), []byte(get + second("a.example") + evil), false, reasonOtherHost},
		{"another Host behind a body", named(80), []byte(second("a.example") + second("evil.example")), false, reasonOtherHost},
		{"chunked", named(80), []byte("POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA\r\n0123456789\r\n0\r\nX: y\r\n\r\n" + get), false, ""},
		{"another Host behind chunks", named(80), []byte("POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" + evil), false, reasonOtherHost},
		{"CL and TE", named(80), []byte("POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + evil), false, reasonFraming},
		{"TE and CL", named(80), []byte("POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n" + evil), false, reasonFraming},
		{"two lengths", named(80), []byte("POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\n"), false, reasonFraming},
		{"list of lengths", named(80), []byte("POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 4, 4\r\n\r\n"), false, reasonFraming},
		{"signed length", named(80), []byte("POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: +4\r\n\r\n"), false, reasonFraming},
		{"hexadecimal length", named(80), []byte("POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 0x4\r\n\r\n"), false, reasonFraming},
		{"empty length", named(80), []byte("POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length:\r\n\r\n"), false, reasonFraming},
		{"other encoding", named(80), []byte("POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: xchunked\r\n\r\n"), false, reasonFraming},
		{"two encodings", named(80), []byte("POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"), false, reasonFraming},
		{"encoding twice", named(80), []byte("POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n"), false, reasonFraming},
		{"chunks in HTTP 1.0", named(80), []byte("POST / HTTP/1.0\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n"), false, reasonFraming},
		{"chunk extension", named(80), []byte("POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\n\r\n"), false, reasonFraming},
		{"chunk longer than told", named(80), []byte("POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n"), false, reasonFraming},
		{"chunk with a lone line feed", named(80), []byte("POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n"), false, reasonFraming},
		{"huge chunk", named(80), []byte("POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n"), false, reasonFraming},
		{"Host in a trailer", named(80), []byte("POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nHost: evil.example\r\n\r\n"), false, reasonBadHTTP},
		{"long head", named(80), []byte("GET / HTTP/1.1\r\nHost: a.example\r\nX: " + strings.Repeat("x", mostLooked) + "\r\n\r\n"), false, reasonLongHTTP},
		{"long line on another port", named(8080), []byte(strings.Repeat("x", mostLooked+1)), false, reasonLongHTTP},
		{"upgrade that happens", named(80), []byte("GET / HTTP/1.1\r\nHost: a.example\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nanything" + evil), true, ""},
		{"upgrade that doesn't", named(80), []byte("GET / HTTP/1.1\r\nHost: a.example\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n" + evil), false, reasonOtherHost},
		{"upgrade to HTTP/2", named(80), join([]byte("GET / HTTP/1.1\r\nHost: a.example\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n"+preface), settings, frame(1, 5, 3, request2("a.example"))), true, ""},
		{"upgrade to HTTP/2, another authority", named(80), join([]byte("GET / HTTP/1.1\r\nHost: a.example\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n"+preface), settings, frame(1, 5, 3, request2("evil.example"))), true, reasonOtherHost},
		{"upgrade to one of several", named(80), []byte("GET / HTTP/1.1\r\nHost: a.example\r\nUpgrade: websocket, h2c\r\n\r\n"), true, reasonUpgrade},
		{"upgrade with a body", named(80), []byte("GET / HTTP/1.1\r\nHost: a.example\r\nUpgrade: websocket\r\nContent-Length: 3\r\n\r\nabc"), true, reasonFraming},
		{"upgrade later", named(80), []byte(get + "GET / HTTP/1.1\r\nHost: a.example\r\nUpgrade: websocket\r\n\r\n"), true, reasonUpgrade},
		{"some Host at an address", plain, []byte("GET / HTTP/1.1\r\nHost: b.example:8080\r\n\r\nGET / HTTP/1.1\r\nHost: 8.0.0.1:8080\r\n\r\n"), false, ""},
		{"a denied Host at an address", plain, []byte("GET / HTTP/1.1\r\nHost: denied.example\r\n\r\n"), false, reasonClaimed},
		{"another address for a Host", plain, []byte("GET / HTTP/1.1\r\nHost: 169.254.169.254\r\n\r\n"), false, reasonOtherHost},

		{"HTTP/2", named(80), join([]byte(preface), settings, frame(1, 5, 1, request2("a.example")), frame(8, 0, 0, make([]byte, 4)), frame(1, 5, 3, request2("A.example:80"))), false, ""},
		{"HTTP/2 on another port", named(50051), join([]byte(preface), frame(1, 4, 1, request2("a.example:50051")), frame(0, 0, 1, make([]byte, 20000)), frame(1, 5, 1, headers("x", "y"))), false, ""},
		{"another authority", named(80), join([]byte(preface), settings, frame(1, 5, 1, request2("evil.example"))), false, reasonOtherHost},
		{"another authority in a later stream", named(50051), join([]byte(preface), frame(1, 5, 1, request2("a.example")), frame(0, 1, 1, []byte("x")), frame(1, 5, 3, request2("evil.example"))), false, reasonOtherHost},
		{"no authority", named(80), join([]byte(preface), frame(1, 5, 1, headers(":method", "GET", ":path", "/"))), false, reasonNoHost},
		{"host for authority", named(80), join([]byte(preface), frame(1, 5, 1, headers(":method", "GET", ":path", "/", "host", "a.example"))), false, ""},
		{"another host beside authority", named(80), join([]byte(preface), frame(1, 5, 1, headers(":method", "GET", ":path", "/", ":authority", "a.example", "host", "evil.example"))), false, reasonOtherHost},
		{"another path", named(80), join([]byte(preface), frame(1, 5, 1, headers(":method", "GET", ":path", "http://evil.example/", ":authority", "a.example"))), false, reasonBadHTTP2},
		{"CONNECT of HTTP/2", named(80), join([]byte(preface), frame(1, 4, 1, headers(":method", "CONNECT", ":authority", "a.example:80"))), false, reasonConnect},
		{"authority in continuations", named(80), join([]byte(preface), frame(1, 1, 1, request2("evil.example")[:3]), frame(9, 0, 1, nil), frame(9, 4, 1, request2("evil.example")[3:])), false, reasonOtherHost},
		{"continued with something else", named(80), join([]byte(preface), frame(1, 1, 1, request2("a.example")[:3]), frame(0, 0, 1, nil)), false, reasonBadHTTP2},
		{"continuation of nothing", named(80), join([]byte(preface), frame(9, 4, 1, request2("a.example"))), false, reasonBadHTTP2},
		{"padded with priority", named(80), join([]byte(preface), frame(1, 5|8|32, 1, join([]byte{2, 0, 0, 0, 0, 1}, request2("evil.example"), []byte{0, 0}))), false, reasonOtherHost},
		{"authority as a trailer", named(80), join([]byte(preface), frame(1, 4, 1, request2("a.example")), frame(1, 5, 1, request2("evil.example"))), false, reasonBadHTTP2},
		{"upper case", named(80), join([]byte(preface), frame(1, 4, 1, headers(":method", "GET", ":path", "/", ":authority", "a.example", "Host", "evil.example"))), false, reasonBadHTTP2},
		{"long header block", named(80), join([]byte(preface), frame(1, 0, 1, make([]byte, 10000)), frame(9, 0, 1, make([]byte, 10000))), false, reasonLongHTTP},
		{"promise of a client", named(80), join([]byte(preface), frame(5, 4, 1, request2("evil.example"))), false, reasonBadHTTP2},

		{"SSH", named(22), []byte("SSH-2.0-OpenSSH_9.9 Debian-4\r\nanything"), false, ""},
		{"SMTP", named(25), []byte("EHLO host.example\r\nMAIL FROM:<x@y>\r\n"), false, ""},
		{"PostgreSQL", named(5432), append([]byte{0, 0, 0, 8, 4, 210, 22, 47}, "anything"...), false, ""},
		{"Redis", named(6379), []byte("*1\r\n$4\r\nPING\r\n"), false, ""},
		{"git", named(9418), []byte("0033git-upload-pack /project.git\x00host=a.example\x00"), false, ""},
		{"TLS record of no version", named(9000), []byte{22, 9, 1}, false, ""},
		{"memcached", named(11211), []byte("get /path http://x\r\n"), false, ""},
		{"vertical tab for a space on another port", named(8080), []byte("GET\v/\vHTTP/1.1\r\nHost: evil.example\r\n\r\n"), false, reasonBadHTTP},
		{"form feed first on another port", named(8080), []byte("\fGET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"), false, reasonBadHTTP},
		{"carriage returns for line ends", named(8080), []byte("GET / HTTP/1.1\rHost: evil.example\r\r"), false, reasonUnfinished},
		{"lower case on another port", named(8080), []byte("get / http/1.1\r\nHost: evil.example\r\n\r\n"), false, reasonBadHTTP},
		{"something on 80", named(80), []byte("SSH-2.0-OpenSSH\r\n"), false, reasonNotHTTP},
		{"binary on 80", named(80), []byte{0, 1, 2, 3}, false, reasonNotHTTP},
		{"PROXY 1", named(8080), []byte("PROXY TCP4 1.1.1.1 2.2.2.2 1 2\r\n" + evil), false, reasonPROXY},
		{"PROXY 2", named(8080), []byte(proxyV2 + "\x21\x11\x00\x0c"), false, reasonPROXY},
	} {
		spec := policy.NetworkSpec{Egress: []policy.EgressRule{
			{Action: policy.NetworkAllow, Target: "a.example"}, {Action: policy.NetworkDeny, Target: "denied.example"}, {Action: policy.NetworkAllow, Target: "8.0.0.0/24"},
		}}
		for _, segment := range []int{1, 2, 3, 7, 100, 1460, 1 << 20} {
			if len(test.sent)/segment > 5000 {
				continue // it would be the same, for longer
			}
			c := lookConn(t, test.on, spec)
			passed, err := feed(&firstLook{c: c}, test.sent, segment, test.switched)
			var denial refusal
			switch {
			case test.want == "" && (err != nil || !bytes.Equal(passed, test.sent)):
				t.Errorf("%s, by %d: %v after %.200q of %.200q", test.what, segment, err, passed, test.sent)
			case test.want != "" && (!errors.As(err, &denial) || denial.reason != test.want):
				t.Errorf("%s, by %d: %v after %.200q, want %q", test.what, segment, err, passed, test.want)
			case test.want != "" && bytes.Contains(passed, []byte("evil")):
				t.Errorf("%s, by %d: %.300q passed", test.what, segment, passed)
			}
		}
	}
}

// What claims to be Go's is what Go's server understands, too.
func TestHelloOfGo(t *testing.T) {
	for _, name := range []string{"", "a.example", strings.Repeat("a.", 100) + "example"} {
		sent := goHello(t, name)
		h, n, err := parseHello(sent)
		if err != nil || n != len(sent) || h.serverName != name || h.encrypted || h.early {
			t.Errorf("%q: %+v, %d of %d, %v", name, h, n, len(sent), err)
		}
		for i := range sent {
			if _, _, err := parseHello(sent[:i]); !errors.Is(err, errShort) {
				t.Fatalf("%d bytes: %v", i, err)
			}
		}
	}
}

var errRead = errors.New("read")

// oneWay is a connection that has said all it says.
type oneWay struct {
	net.Conn
	io.Reader
}

func (c oneWay) Read(b []byte) (int, error) { return c.Reader.Read(b) }
func (oneWay) Write(b []byte) (int, error)  { return len(b), nil }
func (oneWay) Close() error                 { return nil }

// nameByGo is the server name that Go's server finds in a hello, if it comes so far as to look for a certificate.
func nameByGo(b []byte) (name string, reached bool) {
	config := &tls.Config{GetConfigForClient: func(info *tls.ClientHelloInfo) (*tls.Config, error) {
		name, reached = info.ServerName, true
		return nil, errRead
	}}
	_ = tls.Server(oneWay{Reader: bytes.NewReader(b)}, config).Handshake()
	return name, reached
}
