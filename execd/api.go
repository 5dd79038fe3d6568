package execd

import (
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sandboxd/sandboxd/policy"
)

// route is one path and method of the API.
type route struct {
	method, path string
	// query are the parameters that may be there; any other is an error.
	query []string
	// answers are the statuses that it may have besides those of every route.
	answers []int
	handle  func(*exchange) error
}

// always are the statuses that every route may have: a bad request, a caller without a name, another method, a failure of ours.
var always = []int{400, 401, 405, 500}

// fileAnswers are the statuses that every file operation may have.
var fileAnswers = []int{200, 403, 404, 409, 413, 429, 503, 504}

// routes is the whole API; openapi.json describes the same, held by a test.
func (s *Service) routes() []route {
	metrics := promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{})
	return []route{
		{"POST", "/v1/exec", []string{"rows"}, []int{200, 403, 404, 409, 413, 429, 503}, s.postExec},
		{"POST", "/v1/run", []string{"rows"}, []int{200, 403, 404, 409, 413, 429, 503, 507}, s.postRun},
		{"POST", "/v1/decide", nil, []int{200, 413, 429, 503}, s.postDecide},
		{"POST", "/v1/verify", []string{"rows"}, []int{200, 404, 409, 413, 429, 503}, s.postVerify},
		{"PUT", "/v1/policy", nil, []int{200, 403, 409, 413, 429, 503}, s.putPolicy},
		{"GET", "/v1/status", nil, []int{200}, s.getStatus},
		{"GET", "/v1/audit", auditQuery, []int{200}, s.getAudit},
		{"POST", "/v1/sandboxes", nil, []int{201, 403, 413, 429, 503}, s.postSandbox},
		{"GET", "/v1/sandboxes", nil, []int{200}, s.listSandboxes},
		{"GET", "/v1/sandboxes/{id}", nil, []int{200, 404, 409}, s.getSandbox},
		{"DELETE", "/v1/sandboxes/{id}", nil, []int{204, 404}, s.deleteSandbox},
		{"GET", "/v1/network", []string{"sandbox"}, []int{200, 404, 409, 503}, s.getNetwork},
		{"PUT", "/v1/network", []string{"sandbox"}, []int{200, 403, 404, 409, 413, 503}, s.putNetwork},
		{"GET", "/v1/sandboxes/{id}/files", []string{"path"}, slices.Concat(fileAnswers, []int{206, 416}), s.getFile},
		{"HEAD", "/v1/sandboxes/{id}/files", []string{"path"}, fileAnswers, s.headFile},
		{"PUT", "/v1/sandboxes/{id}/files", []string{"path", "mode", "parents"}, slices.Concat(fileAnswers, []int{201, 507}), s.putFile},
		{"PATCH", "/v1/sandboxes/{id}/files", []string{"path", "mode"}, fileAnswers, s.patchFile},
		{"DELETE", "/v1/sandboxes/{id}/files", []string{"path"}, fileAnswers, s.deleteFile},
		{"GET", "/v1/sandboxes/{id}/directories", []string{"path"}, fileAnswers, s.listDirectory},
		{"POST", "/v1/stop", nil, []int{202, 403}, s.postStop},
		{"GET", "/healthz", nil, []int{200}, s.getHealth},
		{"GET", "/readyz", nil, []int{200, 503}, s.getReady},
		{"GET", "/metrics", nil, []int{200}, func(x *exchange) error { x.bounded(func() { metrics.ServeHTTP(x.w, x.r) }); return nil }},
	}
}

// exchange is one request with its answer.
type exchange struct {
	w      *countedWriter
	r      *http.Request
	caller policy.Caller
	// bound is how long a write may take.
	bound time.Duration
	// held is what its body has of the daemon's memory.
	held share
	// broken says that an answer has begun that can't be completed.
	broken bool
}

// countedWriter remembers the status, for the metric.
type countedWriter struct {
	http.ResponseWriter
	status int
}

func (w *countedWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *countedWriter) Write(data []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(data)
}

// Unwrap lets http.ResponseController find the connection.
func (w *countedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Handler is the API. Its requests need a caller in their context, which connections of a [Listener] have.
func (s *Service) Handler() http.Handler {
	methods := map[string][]route{}
	for _, r := range s.routes() {
		methods[r.path] = append(methods[r.path], r)
	}
	mux := http.NewServeMux()
	for path, routes := range methods {
		mux.Handle(path, s.handler(path, routes))
	}
	mux.Handle("/", s.handler("other", nil))
	return mux
}

// handler answers one path: it finds the route of the method, checks what every route has, and turns errors and panics into answers.
func (s *Service) handler(name string, routes []route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := &exchange{w: &countedWriter{ResponseWriter: w}, r: r, bound: s.config.WriteTimeout}
		defer x.held.end()
		defer func() {
			if cause := recover(); cause != nil {
				s.logger.Error("bug: panic in a handler; please report this", "path", name, "panic", cause, "stack", string(debug.Stack()))
				x.fail(errorOf("INTERNAL", "internal error; please report this"))
			}
			s.metrics.answers.WithLabelValues(name, strconv.Itoa(x.w.status)).Inc()
			if x.broken {
				panic(http.ErrAbortHandler) // net/http cuts the connection
			}
		}()
		if err := s.dispatch(x, routes); err != nil {
			if errors.Is(err, ErrBusy) {
				s.metrics.busy.Inc()
			}
			x.fail(err)
			x.drain()
		}
	})
}

func (s *Service) dispatch(x *exchange, routes []route) error {
	if err := x.identify(); err != nil {
		return err
	}
	if len(routes) == 0 {
		return errorOf("NOT_FOUND", "there is no such path; openapi.json has them all")
	}
	at := slices.IndexFunc(routes, func(r route) bool { return r.method == x.r.Method })
	if at < 0 {
		var allowed []string
		for _, r := range routes {
			allowed = append(allowed, r.method)
		}
		x.w.Header().Set("Allow", strings.Join(allowed, ", "))
		return errorOf("METHOD_NOT_ALLOWED", fmt.Sprintf("this path has %s only", strings.Join(allowed, ", ")))
	}
	if err := checkQuery(x.r, routes[at].query); err != nil {
		return err
	}
	return routes[at].handle(x)
}

// identify finds the caller: the kernel's word on the peer, or who has the token of the address.
func (x *exchange) identify() (err error) {
	var known bool
	if x.caller, known = callerOf(x.r.Context()); known {
		return nil
	}
	if x.caller, known, err = tokenCaller(x.r); !known {
		return errorOf("UNAUTHORIZED", "the kernel didn't say who connected")
	}
	if err != nil {
		x.w.Header().Set("WWW-Authenticate", "Bearer")
	}
	return err
}

// checkQuery refuses parameters that nobody reads: one that is misspelt would be a wish that isn't heard.
func checkQuery(r *http.Request, known []string) error {
	if r.URL.RawQuery == "" {
		return nil
	}
	values, err := parseQuery(r.URL.RawQuery)
	if err != nil {
		return badField("query", err.Error())
	}
	for name, list := range values {
		if !slices.Contains(known, name) {
			return badField("query."+name, "unknown parameter; nearest is "+nearest(name, known))
		}
		if len(list) != 1 {
			return badField("query."+name, "given more than once")
		}
	}
	return nil
}

// flag reads a parameter that is true or false.
func (x *exchange) flag(name string) (bool, error) {
	switch value := x.r.URL.Query().Get(name); value {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, badField("query."+name, fmt.Sprintf("%q: want true or false", value))
	}
}
