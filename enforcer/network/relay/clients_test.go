package relay

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/policy"
)

// Go's own client and server through the relay: what they say must be understood, and what isn't for this name must not arrive.
func TestGoClients(t *testing.T) {
	w := newWorld(t, policy.NetworkSpec{Egress: []policy.EgressRule{{Action: policy.NetworkAllow, Target: "a.example"}, {Action: policy.NetworkAllow, Target: "b.example"}}}, nil)
	handler := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprintf(rw, "%s %s %s %d", r.Proto, r.Host, r.URL.Path, n)
	})
	secure := httptest.NewUnstartedServer(handler)
	secure.EnableHTTP2 = true
	secure.StartTLS()
	plain := httptest.NewUnstartedServer(handler)
	plain.Config.Protocols = new(http.Protocols)
	plain.Config.Protocols.SetHTTP1(true)
	plain.Config.Protocols.SetUnencryptedHTTP2(true)
	plain.Start()
	t.Cleanup(func() {
		w.server.Close()
		secure.Close()
		plain.Close()
	})
	w.hosts = map[netip.AddrPort]string{netip.MustParseAddrPort("8.0.0.1:443"): secure.Listener.Addr().String(), netip.MustParseAddrPort("8.0.0.1:80"): plain.Listener.Addr().String()}
	listeners := map[string]string{}
	for _, name := range []string{"a.example", "b.example"} {
		a := w.name(name, "8.0.0.1")
		for _, port := range []uint16{80, 443} {
			listeners[fmt.Sprintf("%s:%d", name, port)] = w.listen(at(a, port))
		}
	}
	proxy, _ := url.Parse("http://" + w.listen(proxyAddress))
	transport := func(change func(*http.Transport)) *http.Client {
		tr := &http.Transport{
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
			ForceAttemptHTTP2: true,
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				if through, ok := listeners[address]; ok { // what DNS and the fence do
					address = through
				}
				return new(net.Dialer).DialContext(ctx, network, address)
			},
		}
		change(tr)
		t.Cleanup(tr.CloseIdleConnections)
		return &http.Client{Transport: tr}
	}
	http2Only := new(http.Protocols)
	http2Only.SetUnencryptedHTTP2(true)
	direct := transport(func(*http.Transport) {})
	clear2 := transport(func(tr *http.Transport) { tr.Protocols = http2Only })
	proxied := transport(func(tr *http.Transport) { tr.Proxy = http.ProxyURL(proxy) })

	do := func(client *http.Client, url, host string, body io.Reader) (string, error) {
		request, err := http.NewRequestWithContext(t.Context(), "POST", url, body)
		if err != nil {
			return "", err
		}
		request.Host = host
		response, err := client.Do(request)
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		b, err := io.ReadAll(response.Body)
		return fmt.Sprint(response.StatusCode, " ", string(b)), err
	}
	for range 3 { // connections are used again
		for _, test := range []struct {
			client *http.Client
			url    string
			want   string
		}{
			{direct, "http://a.example/x", "200 HTTP/1.1 a.example /x 70000"},
			{direct, "https://b.example/x", "200 HTTP/2.0 b.example /x 70000"},
			{clear2, "http://a.example/x", "200 HTTP/2.0 a.example /x 70000"},
			{proxied, "http://a.example/x", "200 HTTP/1.1 a.example /x 70000"},
			{proxied, "http://b.example/x", "200 HTTP/1.1 b.example /x 70000"},
			{proxied, "https://b.example/x", "200 HTTP/2.0 b.example /x 70000"},
		} {
			for _, body := range []io.Reader{strings.NewReader(strings.Repeat("x", 70000)), io.MultiReader(strings.NewReader(strings.Repeat("x", 70000)))} { // a length, and chunks
				if got, err := do(test.client, test.url, "", body); err != nil || got != test.want {
					t.Errorf("%s: %q, %v; want %q", test.url, got, err, test.want)
				}
			}
		}
	}
	for _, client := range []*http.Client{direct, clear2} { // on connections that are open
		if got, err := do(client, "http://a.example/x", "b.example", strings.NewReader("x")); err == nil {
			t.Errorf("another host: %q", got)
		}
	}
	if got, err := do(proxied, "http://c.example/", "", nil); err != nil || !strings.HasPrefix(got, `403 {"code":"denied","message":"c.example:80: no rule allows it"`) {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := do(proxied, "https://c.example/", "", nil); err == nil || !strings.Contains(err.Error(), "Forbidden") {
		t.Errorf("%v", err)
	}
}
