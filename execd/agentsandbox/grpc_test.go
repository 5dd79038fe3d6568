package agentsandbox

import (
	"bytes"
	"encoding/binary"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// facade is one that answers what never gets as far as a walk.
func facade(access Access) *Facade {
	c := DefaultConfig()
	c.Access = access
	f := &Facade{config: c, places: make(chan struct{}, 1)}
	f.processes.all = map[int32]*process{}
	f.routes = f.newRoutes()
	return f
}

func framed(message []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
}

func call(f *Facade, path string, body []byte) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", path, bytes.NewReader(body))
	r.ProtoMajor = 2
	r.Header.Set("Content-Type", "application/grpc")
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	return w
}

func TestGRPCRefusals(t *testing.T) {
	f := facade(Access{Insecure: true})
	const execute = "/process.v1.ProcessService/Execute"
	compressed := framed(nil)
	compressed[0] = 1
	long := []byte{0, 0xff, 0xff, 0xff, 0xff}
	for name, test := range map[string]struct {
		path   string
		body   []byte
		status string
		words  string
	}{
		"another service":    {"/grpc.health.v1.Health/Check", framed(nil), "12", "process.v1.ProcessService is"},
		"another call":       {"/process.v1.ProcessService/Attach", framed(nil), "12", "there is no"},
		"compressed":         {execute, compressed, "12", "compressed"},
		"too long":           {execute, long, "8", "at most"},
		"cut":                {execute, framed([]byte("x"))[:5], "3", "whole"},
		"two":                {execute, append(framed(nil), framed(nil)...), "3", "more than one"},
		"no message":         {execute, nil, "3", "whole"},
		"no command":         {execute, framed(nil), "3", "config.command"},
		"not protobuf":       {execute, framed([]byte{0xff}), "3", "ExecuteRequest"},
		"a terminal's field": {"/process.v1.ProcessService/Start", framed(appendBytes(nil, 2, appendInt32(nil, 3, 1))), "3", "PTY"},
		"no such process":    {"/process.v1.ProcessService/SendSignal", framed(appendInt32(nil, 1, 5)), "5", "no process 5"},
	} {
		t.Run(name, func(t *testing.T) {
			answer := call(f, test.path, test.body).Result()
			if got := answer.Trailer.Get("Grpc-Status"); answer.StatusCode != 200 || got != test.status || !strings.Contains(answer.Trailer.Get("Grpc-Message"), test.words) {
				t.Errorf("%d, status %q, %q", answer.StatusCode, got, answer.Trailer.Get("Grpc-Message"))
			}
		})
	}
}

func TestAccess(t *testing.T) {
	peers := []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00::/8")}
	for _, test := range []struct {
		access Access
		from   string
		status int
	}{
		{Access{Peers: peers}, "10.1.2.3:4", 404},
		{Access{Peers: peers}, "[::ffff:10.1.2.3]:4", 404},
		{Access{Peers: peers}, "[fd00::1%eth0]:4", 404},
		{Access{Peers: peers}, "10.2.2.3:4", 403},
		{Access{Peers: peers}, "127.0.0.1:4", 403},
		{Access{Peers: peers}, "@", 403},
		{Access{Peers: peers, hasKey: true}, "10.1.2.3:4", 401},
		{Access{hasKey: true}, "10.1.2.3:4", 401},
		{Access{Insecure: true}, "10.1.2.3:4", 404},
	} {
		f := facade(test.access)
		r := httptest.NewRequest("GET", "/none", nil)
		r.RemoteAddr = test.from
		w := httptest.NewRecorder()
		f.ServeHTTP(w, r)
		if w.Code != test.status {
			t.Errorf("%+v from %s: %d, want %d", test.access, test.from, w.Code, test.status)
		}
	}
	for _, access := range []Access{{}, {Insecure: true, hasKey: true}, {Insecure: true, Peers: peers}} {
		c := DefaultConfig()
		c.Access = access
		if c.Validate() == nil {
			t.Errorf("%+v was taken", access)
		}
	}
}

func TestRequestsAreBounded(t *testing.T) {
	f := facade(Access{Insecure: true})
	f.places <- struct{}{}
	w := httptest.NewRecorder()
	f.ServeHTTP(w, httptest.NewRequest("GET", "/none", nil))
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	if got := call(f, "/process.v1.ProcessService/Execute", framed(nil)).Result().Trailer.Get("Grpc-Status"); got != "8" {
		t.Errorf("status %q", got)
	}
}

func TestTimeout(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"": 0, "5S": 5 * time.Second, "250m": 250 * time.Millisecond, "1u": time.Millisecond, "99999999H": time.Hour, "3601S": time.Hour, "2M": 2 * time.Minute,
		"S": -1, "5": -1, "5s": -1, "-5S": -1, "999999999S": -1,
	} {
		x := &exchange{facade: facade(Access{}), r: httptest.NewRequest("POST", "/", nil)}
		x.r.Header.Set("Grpc-Timeout", text)
		if got, err := x.timeout(); err == nil && got != want || (err != nil) != (want < 0) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

func TestInside(t *testing.T) {
	f := facade(Access{})
	for name, want := range map[string]string{
		"": "/work", "/": "/work", ".": "/work", "a/b": "/work/a/b", "/a//b/": "/work/a/b", "a/../b": "/work/b", "..a": "/work/..a",
		"..": "", "../work/a": "", "/../etc": "", "a/../../etc": "", "a\x00b": "",
	} {
		if got, err := f.inside(name); got != want && err == nil || (err != nil) != (want == "") {
			t.Errorf("%q: %q, %v", name, got, err)
		}
	}
}
