package execd

import (
	"context"
	"encoding/json/v2"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// daemon is a service behind its socket, as clients meet it.
type daemon struct {
	*http.Client
	service *Service
	path    string
	api     openAPI
	// stop ends it gracefully and gives Serve's answer.
	stop func() error
}

func serve(t testing.TB, c Config, others ...net.Listener) *daemon {
	t.Helper()
	s, err := New(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "s")
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{service: s, path: filepath.Join(dir, "run", "s")}
	l, err := Listen(d.path, nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", d.path)
	}}
	d.Client = &http.Client{Transport: transport, Timeout: time.Minute}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, append(others, l)...) }()
	d.stop = sync.OnceValue(func() error { cancel(); return <-served })
	t.Cleanup(func() {
		if err := d.stop(); err != nil {
			t.Errorf("Serve: %v", err)
		}
		transport.CloseIdleConnections()
		os.RemoveAll(dir)
	})
	data, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &d.api); err != nil {
		t.Fatal(err)
	}
	return d
}

// answer is a response, whole.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) reply(t testing.TB) Reply {
	t.Helper()
	var r Reply
	if err := json.Unmarshal(a.body, &r, json.RejectUnknownMembers(true), wire); err != nil {
		t.Fatalf("%d %s: %v", a.status, a.body, err)
	}
	return r
}

func (a answer) failure(t testing.TB) Error {
	t.Helper()
	var e Error
	if err := json.Unmarshal(a.body, &e, json.RejectUnknownMembers(true)); err != nil || e.Code == "" || e.Message == "" {
		t.Fatalf("%d %s: no error shape (%v)", a.status, a.body, err)
	}
	if statuses[e.Code] != a.status {
		t.Errorf("code %s with status %d", e.Code, a.status)
	}
	return e
}

// do sends a request and checks that the status is one that the API's description has.
func (d *daemon) do(t testing.TB, method, path, body string, header ...string) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://sandboxd"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	return d.finish(t, d.Client, request)
}

// ask sends a request to another address of the same daemon.
func (d *daemon) ask(t testing.TB, client *http.Client, method, base, path, body string, tokens []string) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	request.Header["Authorization"] = tokens
	return d.finish(t, client, request)
}

func (d *daemon) finish(t testing.TB, client *http.Client, request *http.Request) answer {
	t.Helper()
	method, path := request.Method, request.URL.Path
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(path, "/v1/sandboxes/") {
		_, below, _ := strings.Cut(strings.TrimPrefix(path, "/v1/sandboxes/"), "/")
		path = strings.TrimSuffix("/v1/sandboxes/{id}/"+below, "/")
	}
	if operation, ok := d.api.Paths[path][strings.ToLower(method)]; ok && operation.Responses[strconv.Itoa(response.StatusCode)] == nil {
		t.Errorf("%s %s answers %d, which openapi.json doesn't have", method, path, response.StatusCode)
	}
	return answer{response.StatusCode, response.Header, data}
}

func (d *daemon) makeSandbox(t testing.TB) Sandbox {
	t.Helper()
	made := d.do(t, "POST", "/v1/sandboxes", "")
	var box Sandbox
	if err := json.Unmarshal(made.body, &box, json.RejectUnknownMembers(true)); err != nil || made.status != 201 {
		t.Fatalf("%d %s: %v", made.status, made.body, err)
	}
	return box
}

// waitFor waits until the metrics have a line.
func (d *daemon) waitFor(t testing.TB, line string) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		got := d.do(t, "GET", "/metrics", "")
		if strings.Contains(string(got.body), line+"\n") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no %s in\n%s", line, got.body)
		}
		time.Sleep(5 * time.Millisecond) // polls the state that the test is about
	}
}
