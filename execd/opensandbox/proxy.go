package opensandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"time"

	"github.com/sandboxd/sandboxd/runner"
)

// transport carries requests to one port of a sandbox. Connections are the sandbox's, and end with it.
func (f *Facade) transport(box *sandbox) *http.Transport {
	box.mu.Lock()
	defer box.mu.Unlock()
	if box.transport == nil {
		box.transport = &http.Transport{
			DialContext: func(_ context.Context, _, address string) (net.Conn, error) {
				_, port, err := net.SplitHostPort(address)
				if err != nil {
					return nil, err
				}
				number, err := strconv.ParseUint(port, 10, 16)
				if err != nil {
					return nil, err
				}
				return f.service.DialSandbox(box.inner, box.caller, uint16(number))
			},
			DisableCompression: true, MaxIdleConns: 8, MaxIdleConnsPerHost: 4, IdleConnTimeout: 15 * time.Second,
		}
	}
	return box.transport
}

// proxy passes a request on to a port of the sandbox's own, both ways as it comes, WebSockets too. What opens endpoints stays here.
func (f *Facade) proxy(x *exchange, port uint16, path string) error {
	host := fmt.Sprintf("127.0.0.1:%d", port)
	unescaped, err := url.PathUnescape(path)
	if err != nil {
		return bad("path", "%v", err)
	}
	var failed error
	passing := &httputil.ReverseProxy{
		Transport: f.transport(x.box), FlushInterval: -1, ErrorLog: nil,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", host
			r.Out.URL.Path, r.Out.URL.RawPath = unescaped, path
			r.Out.Host = host
			for _, name := range []string{headerKey, headerExecd, headerEgress, "X-Request-Id", "Open-Sandbox-Client-Ip"} {
				r.Out.Header.Del(name)
			}
		},
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) { failed = err },
		ModifyResponse: func(r *http.Response) error {
			r.Header.Del("X-Request-Id") // ours is there already
			return nil
		},
	}
	ctx, cancel := context.WithCancel(x.r.Context())
	defer cancel()
	defer context.AfterFunc(x.box.life, cancel)()
	passing.ServeHTTP(x.w, x.r.WithContext(ctx))
	switch {
	case errors.Is(failed, runner.ErrNoEntry):
		return faultf(http.StatusNotImplemented, codeUnsupported, "ports of a sandbox: %v", failed)
	case failed != nil:
		return faultf(http.StatusBadGateway, "PORT_NOT_REACHABLE", "port %d of the sandbox: %v", port, failed)
	}
	return nil
}
