package faults

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestBrokenLogIsToldEarly: with a log that can't be written a request is refused before its body is read, and one that waited for a place
// meanwhile before anything is made for it.
func TestBrokenLogIsToldEarly(t *testing.T) {
	needRoot(t)
	t.Parallel()
	state := stateDir(t)
	disk := filepath.Join(filepath.Dir(state), "disk")
	d := start(t, binaries(t, "fault"), state, "SANDBOXD_FAULT_DISK="+disk, "--max-running 1", "--pool 0")
	// One runs, and one waits for its place.
	running, leave := context.WithCancel(t.Context())
	defer leave()
	first, second := make(chan reply, 1), make(chan reply, 1)
	go func() {
		first <- d.post(running, "/v1/exec", fmt.Sprintf(`{"command":{"argv":["sh","-c","sleep 60 # %s"]}}`, d.marker))
	}()
	d.awaitMarker(t)
	go func() { second <- d.post(t.Context(), "/v1/exec", sayRan) }()
	for deadline := time.Now().Add(10 * time.Second); d.metric(t, "sandboxd_waiting") != 1; time.Sleep(5 * time.Millisecond) { // polls what the test is about
		if time.Now().After(deadline) {
			t.Fatal("nobody waits")
		}
	}
	if err := os.WriteFile(disk, []byte("write EIO"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := d.post(t.Context(), "/v1/sandboxes", "{}"); got.err != nil || got.status/100 != 5 {
		t.Errorf("the one that meets the fault: %+v", got)
	}
	for _, path := range []string{"/v1/exec", "/v1/run", "/v1/decide", "/v1/sandboxes", "/v1/network?sandbox=x"} {
		if status, body := d.withoutBody(t, path); status != http.StatusServiceUnavailable || !strings.Contains(body, "audit log") {
			t.Errorf("%s: %d %s, want 503 before the body is there", path, status, body)
		}
	}
	leave()
	if got := <-second; got.err != nil || got.status != http.StatusServiceUnavailable || got.Code != "NOT_READY" {
		t.Errorf("the one that waited: %+v, want 503 NOT_READY", got)
	}
	<-first
	if err := os.Remove(disk); err != nil {
		t.Fatal(err)
	}
	d.mends(t, "write EIO")
	d.stop(t)
}

// withoutBody sends the head of a request whose body comes only if it is wanted (100), and gives the first answer.
func (d *daemon) withoutBody(t *testing.T, path string) (int, string) {
	t.Helper()
	conn, err := net.Dial("unix", d.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	method := http.MethodPost
	if strings.HasPrefix(path, "/v1/network") {
		method = http.MethodPut
	}
	if _, err := fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: sandboxd\r\nContent-Type: application/json\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n", method, path); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(body)
}
