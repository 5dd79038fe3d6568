package relay

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/net/http2/hpack"

	"github.com/sandboxd/sandboxd/policy"
)

var (
	fuzzName = target{name: "a.example", port: 8080}
	fuzzSpec = policy.NetworkSpec{Egress: []policy.EgressRule{{Action: policy.NetworkAllow, Target: "a.example"}}}
)

// A hello that passes is one in which Go's server finds the same name, or none at all. How it was cut into segments makes no difference.
func FuzzHello(f *testing.F) {
	f.Add(helloFor("a.example"))
	f.Add(goHello(f, "a.example"))
	f.Add(records(helloMessage(serverName("a.example"), extension{42, nil}), 9))
	f.Add(join(helloFor("a.example"), changeCipherSpec, helloFor("a.example")))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, n, err := parseHello(b)
		if err == nil {
			if name, reached := nameByGo(b[:n]); reached && name != h.serverName {
				t.Errorf("%q here, %q there", h.serverName, name)
			}
			for i := range n {
				if _, _, err := parseHello(b[:i]); !errors.Is(err, errShort) {
					t.Fatalf("%d of %d: %v", i, n, err)
				}
			}
		}
		sameInSegments(t, func() look { return &tlsLook{c: lookConn(t, fuzzName, fuzzSpec)} }, b)
	})
}

// sameInSegments: what passes and why the rest doesn't are the same, whether bytes come together or one by one.
func sameInSegments(t *testing.T, make func() look, b []byte) []byte {
	if len(b) > mostLooked/4 {
		return nil
	}
	whole, err := feed(make(), b, len(b)+1, true)
	pieces, err2 := feed(make(), b, 1, true)
	if !bytes.Equal(whole, pieces) || (err == nil) != (err2 == nil) {
		t.Errorf("together %q, %v; one by one %q, %v", whole, err, pieces, err2)
	}
	if !bytes.HasPrefix(b, whole) {
		t.Errorf("%q passed of %q", whole, b)
	}
	return whole
}

// Whatever requests Go's server finds in what passed are for the name that was dialled, or it refuses them.
func FuzzHTTP(f *testing.F) {
	for _, seed := range []string{
		"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n",
		"POST /x HTTP/1.1\r\nHost: a.example:8080\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\nHost: a.example\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\nGET / HTTP/1.1\r\nHost: evil\r\n\r\n",
		"GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a.example\r\nUpgrade: websocket\r\n\r\nx",
		"EHLO x\r\n", "SSH-2.0-x y\r\n", "\r\nGET / HTTP/1.1\r\nHost: evil\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		passed := sameInSegments(t, func() look { return &firstLook{c: lookConn(t, fuzzName, fuzzSpec)} }, b)
		if bytes.HasPrefix(passed, []byte(preface)) {
			return
		}
		r := bufio.NewReader(bytes.NewReader(passed))
		for {
			request, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			said, ok := parseHost(request.Host)
			if !ok || said.name != fuzzName.name {
				t.Fatalf("a request for %q passed in %q", request.Host, passed)
			}
			if len(request.Header.Values("Upgrade")) > 0 {
				return // what is behind it is another protocol: sameInSegments has the server switch
			}
			if _, err := io.Copy(io.Discard, request.Body); err != nil {
				return
			}
		}
	})
}

// Whatever requests Go's framer finds in what passed are for the name that was dialled.
func FuzzHTTP2(f *testing.F) {
	f.Add(join(frame(4, 0, 0, nil), frame(1, 5, 1, request2("a.example")), frame(1, 5, 3, request2("a.example:8080"))))
	f.Add(join(frame(1, 1, 1, request2("a.example")[:3]), frame(9, 4, 1, request2("a.example")[3:]), frame(0, 1, 1, []byte("data"))))
	f.Add(join(frame(1, 5|8|32, 1, join([]byte{2, 0, 0, 0, 0, 1}, request2("a.example"), []byte{0, 0})), frame(1, 5, 3, request2("evil"))))
	f.Fuzz(func(t *testing.T, b []byte) {
		b = append([]byte(preface), b...)
		passed := sameInSegments(t, func() look { return newHTTP2Look(lookConn(t, fuzzName, fuzzSpec)) }, b)
		if len(passed) < len(preface) {
			return
		}
		for _, authority := range authorities(passed[len(preface):]) {
			if said, ok := parseHost(authority); !ok || said.name != fuzzName.name {
				t.Fatalf("%q passed", authority)
			}
		}
	})
}

// authorities are all that header blocks say of hosts, read plainly: first all frames, then all blocks, then all fields.
func authorities(b []byte) (found []string) {
	var blocks [][]byte
	for len(b) >= 9 {
		length, kind, flags := int(b[0])<<16|int(b[1])<<8|int(b[2]), b[3], b[4]
		payload := b[9:min(len(b), 9+length)]
		b = b[9+len(payload):]
		switch kind {
		case 1:
			start, end := 0, len(payload)
			if flags&8 != 0 {
				start, end = 1, len(payload)-int(payload[0])
			}
			if flags&32 != 0 {
				start += 5
			}
			blocks = append(blocks, payload[start:end:end])
		case 9:
			blocks[len(blocks)-1] = append(blocks[len(blocks)-1], payload...)
		}
	}
	decoder := hpack.NewDecoder(4096, nil)
	decoder.SetAllowedMaxDynamicTableSize(1 << 30)
	for _, block := range blocks {
		fields, err := decoder.DecodeFull(block)
		if err != nil {
			return found
		}
		for _, f := range fields {
			if f.Name == ":authority" || strings.EqualFold(f.Name, "host") {
				found = append(found, f.Value)
			}
		}
	}
	return found
}

// A host has one spelling that it is compared in, and nothing that two readers read differently.
func FuzzHost(f *testing.F) {
	for _, seed := range []string{"a.example", "A.example.:80", "8.0.0.1:80", "[2600::1]:443", "127.1", "0x7f.1", "a..b", "[fe80::1%lo]", "a@b", "a:080", ":80", "[::ffff:1.2.3.4]"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		said, ok := parseHost(text)
		if !ok {
			return
		}
		if (said.name == "") == !said.addr.IsValid() {
			t.Errorf("%q is %+v", text, said)
		}
		if said.name != strings.ToLower(said.name) || strings.HasSuffix(said.name, ".") || strings.ContainsAny(said.name, ":/@%\\ \x00") {
			t.Errorf("%q is %q", text, said.name)
		}
		if _, err := netip.ParseAddr(said.name); err == nil {
			t.Errorf("%q is a name", said.name)
		}
		again := said.name
		if said.addr.Is6() {
			again = "[" + said.addr.String() + "]"
		} else if said.addr.IsValid() {
			again = said.addr.String()
		}
		if other, ok := parseHost(again); !ok || other.name != said.name || other.addr != said.addr {
			t.Errorf("%q is %+v, and %q is %+v", text, said, again, other)
		}
	})
}
