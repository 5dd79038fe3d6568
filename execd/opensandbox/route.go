package opensandbox

import (
	"errors"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/execd"
)

// route is one method and path of an API. A part of the path in braces takes any one part that isn't empty.
type route struct {
	method, path string
	handle       func(*exchange) error
}

// find is the route of a request, with the values of its braces. Where only the method is another, allowed are those that there are.
func find(routes []route, method, path string) (found *route, values map[string]string, allowed []string) {
	parts := strings.Split(path, "/")
	for i := range routes {
		taken, ok := match(strings.Split(routes[i].path, "/"), parts)
		if !ok {
			continue
		}
		if routes[i].method == method {
			return &routes[i], taken, nil
		}
		allowed = append(allowed, routes[i].method)
	}
	return nil, nil, allowed
}

func match(pattern, parts []string) (map[string]string, bool) {
	if len(pattern) != len(parts) {
		return nil, false
	}
	values := map[string]string{}
	for i, part := range parts {
		name, braced := strings.CutPrefix(pattern[i], "{")
		switch {
		case !braced && pattern[i] != part, braced && part == "":
			return nil, false
		case braced:
			text, err := url.PathUnescape(part)
			if err != nil {
				return nil, false
			}
			values[strings.TrimSuffix(name, "}")] = text
		}
	}
	return values, true
}

// ServeHTTP answers one request, by the lifecycle API or by an endpoint of a sandbox. Nothing is ever redirected: clients don't follow.
func (f *Facade) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{facade: f, w: &execd.BegunWriter{ResponseWriter: w}, r: r, id: requestID(r.Header)}
	w.Header().Set("X-Request-Id", x.id)
	defer func() {
		cause := recover()
		if cause == nil {
			return
		}
		if err, ok := cause.(error); x.w.Begun || ok && errors.Is(err, http.ErrAbortHandler) {
			panic(http.ErrAbortHandler) // net/http cuts the connection: what was sent can't be taken for a whole answer
		}
		f.config.Logger.Error("bug: panic in a handler; please report this", "panic", cause, "stack", string(debug.Stack()))
		x.fail(faultf(http.StatusInternalServerError, "UNKNOWN", "internal error; please report this"))
	}()
	if err := f.serve(x); err != nil {
		if x.w.Begun {
			panic(http.ErrAbortHandler)
		}
		x.fail(err)
	}
}

func (f *Facade) serve(x *exchange) error {
	path := x.r.URL.EscapedPath()
	if rest, ok := strings.CutPrefix(path, "/v1/sandboxes/"); ok {
		if id, rest, ok := strings.Cut(rest, "/proxy/"); ok && !strings.Contains(id, "/") {
			port, below, _ := strings.Cut(rest, "/")
			return f.endpoint(x, id, port, "/"+below)
		}
	}
	if path == "/health" {
		x.answer(http.StatusOK, map[string]string{"status": "healthy"})
		return nil
	}
	var err error
	if x.caller, err = f.config.owner(x.r.Header); err != nil {
		return err
	}
	return f.dispatch(x, f.lifecycle, strings.TrimPrefix(path, "/v1"), codeNotFound)
}

// dispatch finds the route and walks it.
func (f *Facade) dispatch(x *exchange, routes []route, path, code string) error {
	if len(path) > 1 {
		path = strings.TrimSuffix(path, "/")
	}
	found, values, allowed := find(routes, x.r.Method, path)
	if found != nil {
		x.values = values
		return found.handle(x)
	}
	if len(allowed) > 0 {
		slices.Sort(allowed)
		x.w.Header().Set("Allow", strings.Join(slices.Compact(allowed), ", "))
		return faultf(http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED", "this path doesn't have %s", x.r.Method)
	}
	return faultf(http.StatusNotFound, code, "there is no such path")
}
