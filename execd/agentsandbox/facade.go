package agentsandbox

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/policy"
)

// Facade answers agent-sandbox's clients. [Open] makes it, [Facade.Close] ends it.
type Facade struct {
	config  Config
	service *execd.Service
	routes  []route
	// life ends when the façade closes.
	life context.Context
	die  context.CancelCauseFunc
	// places has one for each request that is here.
	places    chan struct{}
	place     place
	processes processes
}

// errClosing ends what runs when the server stops.
var errClosing = errors.New("the server is stopping")

// Open makes a façade of a service.
func Open(service *execd.Service, c Config) (*Facade, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	f := &Facade{config: c, service: service, places: make(chan struct{}, c.Requests)}
	f.processes.all = map[int32]*process{}
	f.life, f.die = context.WithCancelCause(context.Background())
	f.routes = f.newRoutes()
	return f, nil
}

// Close ends what runs. The sandbox ends with the service.
func (f *Facade) Close() { f.die(errClosing) }

// exchange is one request on its way to its answer.
type exchange struct {
	facade *Facade
	w      *execd.BegunWriter
	r      *http.Request
	caller policy.Caller
	// name is the file that the path names.
	name string
}

// route is one method and path of the REST APIs. A path that ends in a slash takes all that follows: the name of a file, which clients escape whole, and in
// which dots and slashes are the client's own.
type route struct {
	method, path string
	handle       func(*exchange) error
}

func (f *Facade) newRoutes() []route {
	return []route{
		{"POST", "/execute", f.postExecute},
		{"POST", "/upload", f.postUpload},
		{"GET", "/download/", f.getDownload},
		{"GET", "/list/", f.getList},
		{"GET", "/exists/", f.getExists},
		{"GET", "/v1/files/", f.getFile},
		{"HEAD", "/v1/files/", f.headFile},
		{"PUT", "/v1/files/", f.putFile},
		{"DELETE", "/v1/files/", f.deleteFile},
		{"GET", "/v1/metadata", f.getMetadata},
	}
}

// dispatch finds the route and walks it.
func (f *Facade) dispatch(x *exchange) error {
	path := x.r.URL.EscapedPath()
	for _, one := range f.routes {
		rest, ok := strings.CutPrefix(path, one.path)
		if !ok || one.method != x.r.Method || rest != "" && !strings.HasSuffix(one.path, "/") {
			continue
		}
		var err error
		if x.name, err = url.PathUnescape(rest); err != nil {
			return faultf(http.StatusBadRequest, codeArgument, "the path isn't escaped right: %v", err)
		}
		return one.handle(x)
	}
	return faultf(http.StatusNotFound, codeNotFound, "there is no %s %.200q", x.r.Method, path)
}

// ServeHTTP answers one request. Nothing is ever redirected: clients don't follow.
func (f *Facade) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{facade: f, w: &execd.BegunWriter{ResponseWriter: w}, r: r}
	grpc := r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")
	answer := x.fail
	if grpc {
		answer = func(err error) { endGRPC(x.w, asFault(err)) }
	}
	defer func() {
		cause := recover()
		if cause == nil {
			return
		}
		if err, ok := cause.(error); x.w.Begun || ok && errors.Is(err, http.ErrAbortHandler) {
			panic(http.ErrAbortHandler) // net/http cuts the connection or the stream: what was sent can't be taken for a whole answer
		}
		f.config.Logger.Error("bug: panic in a handler; please report this", "panic", cause, "stack", string(debug.Stack()))
		answer(faultf(http.StatusInternalServerError, codeInternal, "internal error; please report this"))
	}()
	if err := f.serve(x, grpc); err != nil {
		if x.w.Begun {
			panic(http.ErrAbortHandler)
		}
		answer(err)
	}
}

func (f *Facade) serve(x *exchange, grpc bool) (err error) {
	if path := x.r.URL.EscapedPath(); !grpc && x.r.Method == http.MethodGet && (path == "/" || path == "/v1/health") {
		return f.getHealth(x) // as kubelets ask it, who have neither token nor a known address
	}
	if x.caller, err = f.config.Access.admit(x.r); err != nil {
		return err
	}
	select {
	case f.places <- struct{}{}:
		defer func() { <-f.places }()
	default:
		return faultf(http.StatusTooManyRequests, codeExhausted, "as many requests as this server allows")
	}
	if grpc {
		return f.serveGRPC(x)
	}
	return f.dispatch(x)
}

// fail answers an error.
func (x *exchange) fail(err error) {
	no := asFault(err)
	if no.status == http.StatusTooManyRequests {
		x.w.Header().Set("Retry-After", "1")
	}
	x.answer(no.status, no)
}

// answer answers a value.
func (x *exchange) answer(status int, value any) {
	x.bounded(func() { writeJSON(x.w, status, value) })
}

// empty is a success without data.
func (x *exchange) empty(status int) { x.bounded(func() { x.w.WriteHeader(status) }) }

// getHealth says whether commands and files are served.
func (f *Facade) getHealth(x *exchange) error {
	status := f.service.Status()
	if !status.Ready {
		return faultf(http.StatusServiceUnavailable, codeUnavailable, "%s", strings.Join(status.Troubles, "; "))
	}
	x.answer(http.StatusOK, map[string]any{"status": "ok", "uptime_seconds": int64(status.UptimeSeconds)})
	return nil
}

// getMetadata is what an orchestrator has told the sandbox: this daemon passes nothing of its environment on.
func (f *Facade) getMetadata(x *exchange) error {
	x.answer(http.StatusOK, map[string]any{"env": map[string]string{}})
	return nil
}
