package execd

import (
	"context"
	"net"
	"net/http"

	"github.com/sandboxd/sandboxd/policy"
)

// Mount gives the requests of a listener to another handler than the API's: to that of a façade, which speaks another protocol. The connections are
// bounded, timed and ended like all others. Who asks is the handler's to find out, by [CallerOf].
func Mount(l net.Listener, h http.Handler) net.Listener { return &mounted{Listener: l, handler: h} }

// MountHTTP2 is [Mount] for a protocol that has HTTP/2 without TLS besides, as gRPC does in a pod.
func MountHTTP2(l net.Listener, h http.Handler) net.Listener {
	return &mounted{Listener: l, handler: h, http2: true}
}

type mounted struct {
	net.Listener
	handler http.Handler
	http2   bool
}

// speaksHTTP2 says of a listener that HTTP/2 is spoken there.
func speaksHTTP2(l net.Listener) bool {
	if bounded, ok := l.(*boundedListener); ok {
		l = bounded.Listener
	}
	m, ok := l.(*mounted)
	return ok && m.http2
}

func (m *mounted) onRefused(refused func(policy.Caller, string)) {
	if guard, ok := m.Listener.(interface {
		onRefused(func(policy.Caller, string))
	}); ok {
		guard.onRefused(refused)
	}
}

// mountKey is where a request's context has the handler of its listener.
type mountKey struct{}

// withMount puts the handler of a mounted listener into the context of its connections.
func withMount(l net.Listener) context.Context {
	ctx := context.Background()
	if bounded, ok := l.(*boundedListener); ok {
		l = bounded.Listener
	}
	if m, ok := l.(*mounted); ok {
		ctx = context.WithValue(ctx, mountKey{}, m.handler)
	}
	return ctx
}

// byListener is the handler of all listeners: a mounted one's own, else the API.
func byListener(api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if handler, ok := r.Context().Value(mountKey{}).(http.Handler); ok {
			handler.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	})
}

// CallerOf is who has sent a request: the kernel's word on the peer, or who has the token of the address. The error is an [*Error] with the status 401.
func CallerOf(r *http.Request) (policy.Caller, error) {
	if caller, known := callerOf(r.Context()); known {
		return caller, nil
	}
	caller, known, err := tokenCaller(r)
	if !known {
		return policy.Caller{}, errorOf("UNAUTHORIZED", "the kernel didn't say who connected")
	}
	return caller, err
}

// AsError finds what the API would answer to an error of this package or of package policy, with its status.
func AsError(err error) (e *Error, status int) {
	e = asError(err)
	return e, e.status
}
