package execd

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// A listener for scrapers has numbers and two words, and none of the API.
func TestNumbers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	service := start(t, testConfig(t))
	server := &http.Server{Handler: service.Numbers()}
	go func() { _ = server.Serve(l) }() // until it is closed
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, row := range []struct {
		method, path string
		status       int
		body         string
	}{
		{"GET", "/metrics", 200, "sandboxd_sandboxes_ready"},
		{"GET", "/healthz", 200, "ok\n"},
		{"GET", "/readyz", 0, ""}, // ready or not, in a word
		{"GET", "/v1/status", 404, ""},
		{"POST", "/v1/exec", 404, ""},
		{"GET", "/v1/sandboxes", 404, ""},
		{"GET", "/", 404, ""},
		{"POST", "/metrics", 405, ""},
	} {
		request, err := http.NewRequestWithContext(t.Context(), row.method, "http://"+l.Addr().String()+row.path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if row.status != 0 && response.StatusCode != row.status || !strings.Contains(string(body), row.body) {
			t.Errorf("%s %s: %d %.200q", row.method, row.path, response.StatusCode, string(body))
		}
		if row.path == "/readyz" && string(body) != "ok\n" && string(body) != "not ready\n" {
			t.Errorf("%s: %d %q", row.path, response.StatusCode, string(body))
		}
	}
}
