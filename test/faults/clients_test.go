package faults

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// dial connects and says something.
func (d *daemon) dial(t *testing.T, text string) net.Conn {
	t.Helper()
	conn, err := net.Dial("unix", d.socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, strings.ReplaceAll(text, `\n`, "\r\n")); err != nil {
		t.Fatal(err)
	}
	return conn
}

// TestSlowLoris: connections on which a request never comes to its end take places and little memory, others are answered meanwhile, and they
// are closed when the header's time is over.
func TestSlowLoris(t *testing.T) {
	needRoot(t)
	t.Parallel()
	d := start(t, binaries(t, ""), stateDir(t))
	d.exec(t, `"argv":["true"]`, "")
	before := d.memory(t, "VmRSS")
	began := time.Now()
	var slow []net.Conn
	for range 900 {
		slow = append(slow, d.dial(t, `POST /v1/exec HTTP/1.1\nHost: sandboxd\nX-Slow: `))
	}
	if got := d.exec(t, `"argv":["echo","ran"]`, ""); got.Outcome != "ok" {
		t.Errorf("beside 900 slow ones: %+v", got)
	}
	for range 600 { // the bound is 1,024
		slow = append(slow, d.dial(t, `GET `))
	}
	if got := d.exec(t, `"argv":["echo","ran"]`, ""); got.status != 429 || got.Code != "BUSY" || got.took > 5*time.Second {
		t.Errorf("beside more than may be: %+v, want 429 at once", got)
	}
	if now := d.memory(t, "VmRSS"); now-before > 48<<10 {
		t.Errorf("%d KiB before, %d with 1,500 slow connections", before, now)
	}
	// One byte now and then doesn't buy time.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var dripping sync.WaitGroup
	for _, conn := range slow[:10] {
		dripping.Go(func() {
			for ctx.Err() == nil {
				if _, err := io.WriteString(conn, "x"); err != nil {
					return
				}
				time.Sleep(200 * time.Millisecond) // it is the slow one
			}
		})
	}
	for _, conn := range slow {
		_ = conn.SetReadDeadline(began.Add(30 * time.Second))
		data, err := io.ReadAll(conn)
		if err != nil && !strings.Contains(err.Error(), "connection reset") {
			t.Fatalf("after %v: %q, %v; want a connection that is closed", time.Since(began), data, err)
		}
		if text := string(data); text != "" && !strings.Contains(text, " 408 ") && !strings.Contains(text, " 429 ") && !strings.Contains(text, " 400 ") {
			t.Errorf("answered %q", text)
		}
	}
	cancel()
	dripping.Wait()
	if got := d.exec(t, `"argv":["echo","ran"]`, ""); got.Outcome != "ok" {
		t.Errorf("afterwards: %+v", got)
	}
	d.stop(t)
}

// TestClientsThatLeave: a client that hangs up, or that only says it won't send any more, is a client that has gone: what runs for it is killed, and
// recorded as cancelled.
func TestClientsThatLeave(t *testing.T) {
	needRoot(t)
	t.Parallel()
	d := start(t, binaries(t, ""), stateDir(t))
	for name, leave := range map[string]func(conn net.Conn) error{
		"closed":      func(conn net.Conn) error { return conn.Close() },
		"half closed": func(conn net.Conn) error { return conn.(*net.UnixConn).CloseWrite() },
	} {
		for _, stream := range []string{"", `,"stream":true`} {
			before := strings.Count(d.records(t), `"outcome":"cancelled"`)
			conn := d.dial(t, request(fmt.Sprintf(`{"command":{`+everything+`}%s}`, d.marker, stream)))
			d.awaitRunning(t)
			if err := leave(conn); err != nil {
				t.Fatal(err)
			}
			d.gone(t, name+stream)
			for deadline := time.Now().Add(5 * time.Second); strings.Count(d.records(t), `"outcome":"cancelled"`) != before+1; time.Sleep(5 * time.Millisecond) { // polls the record
				if time.Now().After(deadline) {
					t.Fatalf("%s%s: not recorded as cancelled:\n%s", name, stream, d.records(t))
				}
			}
		}
	}
	// A request cut anywhere starts nothing.
	whole := request(`{"command":{"argv":["sh","-c","sleep 60 # ` + d.marker + `"]}}`)
	for at := 1; at < len(whole)-1; at += 7 {
		conn := d.dial(t, strings.TrimSuffix(whole[:at], `\`))
		_ = conn.(*net.UnixConn).CloseWrite()
		_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		if data, err := io.ReadAll(conn); err != nil || strings.Contains(string(data), "200 OK") {
			t.Errorf("%q and no more: %q, %v", whole[:at], data, err)
		}
	}
	d.gone(t, "cut requests")
	d.stop(t)
}

// gone waits until nothing runs: launchers of the pool do.
func (d *daemon) gone(t *testing.T, what string) {
	t.Helper()
	var left []string
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) { // polls what the test is about
		left = left[:0]
		for _, process := range d.left() {
			if strings.Contains(process, d.marker) {
				left = append(left, process)
			}
		}
		if len(left) == 0 {
			return
		}
	}
	t.Errorf("%s: %v runs on", what, left)
}
