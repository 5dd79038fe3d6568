package workloads

import (
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/policy"
)

// ServeHTTP answers one request. Paths are taken with and without a slash at their end and with and without /api/v2 in front, and nothing is ever
// redirected: the client doesn't follow.
func (f *Facade) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begun := &begun{ResponseWriter: w}
	defer func() {
		cause := recover()
		if cause == nil {
			return
		}
		if err, ok := cause.(error); begun.begun || ok && errors.Is(err, http.ErrAbortHandler) {
			panic(http.ErrAbortHandler) // net/http cuts the connection: what was sent can't be taken for a whole answer
		}
		f.config.Logger.Error("bug: panic in a handler; please report this", "panic", cause, "stack", string(debug.Stack()))
		f.fail(begun, failure{Status: http.StatusInternalServerError, Code: "INTERNAL", Message: "internal error; please report this"})
	}()
	caller, err := execd.CallerOf(r)
	if err != nil {
		begun.Header().Set("WWW-Authenticate", "Bearer")
		f.fail(begun, asFailure(err))
		return
	}
	path := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/api/v2"), "/")
	switch parts := strings.Split(strings.TrimPrefix(path, "/"), "/"); {
	case len(parts) == 1 && parts[0] == "workloads":
		f.route(begun, r, map[string]func(){http.MethodPost: func() { f.create(begun, r, caller) }})
	case len(parts) == 2 && parts[0] == "workloads":
		f.route(begun, r, map[string]func(){
			http.MethodGet: func() { f.getStatus(begun, parts[1]) }, http.MethodDelete: func() { f.delete(begun, parts[1]) },
		})
	case len(parts) == 4 && parts[0] == "otel" && parts[1] == "workload" && parts[3] == "logs":
		f.route(begun, r, map[string]func(){http.MethodGet: func() { f.getLogs(begun, r, parts[2]) }})
	default:
		f.fail(begun, failure{Status: http.StatusNotFound, Code: "NOT_FOUND", Message: "there is no such path"})
	}
}

// begun knows whether an answer has.
type begun struct {
	http.ResponseWriter
	begun bool
}

func (b *begun) WriteHeader(status int) {
	b.begun = true
	b.ResponseWriter.WriteHeader(status)
}

func (b *begun) Write(data []byte) (int, error) {
	b.begun = true
	return b.ResponseWriter.Write(data)
}

// Unwrap lets http.ResponseController find the connection.
func (b *begun) Unwrap() http.ResponseWriter { return b.ResponseWriter }

func (f *Facade) route(w http.ResponseWriter, r *http.Request, methods map[string]func()) {
	if handle := methods[r.Method]; handle != nil {
		handle()
		return
	}
	for method := range methods {
		w.Header().Add("Allow", method)
	}
	f.fail(w, failure{Status: http.StatusMethodNotAllowed, Code: "METHOD_NOT_ALLOWED", Message: "this path doesn't have " + r.Method})
}

// create takes a workload, if policy and this host let it run.
func (f *Facade) create(w http.ResponseWriter, r *http.Request, caller policy.Caller) {
	o, err := f.order(w, r)
	if err != nil {
		f.fail(w, asFailure(err))
		return
	}
	taken := (*workload)(nil)
	defer func() {
		if taken == nil {
			o.close()
		}
	}()
	o.request.Caller = caller
	reasons, err := f.service.Judge(r.Context(), o.request)
	switch {
	case err != nil:
		f.fail(w, asFailure(err))
		return
	case len(reasons) > 0:
		f.fail(w, failure{Status: http.StatusForbidden, Code: "DENIED", Message: reasonsText(reasons), Reasons: reasons})
		return
	}
	if taken, err = f.take(o); err != nil {
		f.fail(w, asFailure(err))
		return
	}
	f.answer(w, http.StatusCreated, statusOf(taken))
}

// order reads a body within its bounds of size and time, a few at once, and what it orders.
func (f *Facade) order(w http.ResponseWriter, r *http.Request) (order, error) {
	select {
	case f.uploads <- struct{}{}:
		defer func() { <-f.uploads }()
	case <-r.Context().Done():
		return order{}, context.Cause(r.Context())
	}
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return order{}, &fault{http.StatusUnsupportedMediaType, "Content-Encoding", strconv.Quote(cut(encoding)) + ": want none"}
	}
	long := newLifted(f.service.Spool(), f.config.RestBytes)
	defer long.close()
	connection := http.NewResponseController(w)
	body := &pacedReader{from: http.MaxBytesReader(w, r.Body, f.config.BodyBytes), deadline: connection.SetReadDeadline, bound: f.config.BodyTimeout}
	piece := make([]byte, pieceBytes)
	for {
		n, err := body.Read(piece)
		if _, unfit := long.Write(piece[:n]); unfit != nil {
			return order{}, unfit
		}
		var large *http.MaxBytesError
		switch {
		case err == nil:
			continue
		case errors.As(err, &large):
			return order{}, &fault{http.StatusRequestEntityTooLarge, "", fmt.Sprintf("the body has more than %d bytes", large.Limit)}
		case !errors.Is(err, io.EOF):
			return order{}, &fault{http.StatusBadRequest, "", "the body didn't arrive whole and in time"}
		}
		_ = connection.SetReadDeadline(time.Time{})
		o, err := f.config.parseLifted(long.rest, long)
		if err != nil {
			o.close()
		}
		return o, err
	}
}

// pacedReader gives each mebibyte of a body the time that a short body has as a whole.
type pacedReader struct {
	from     io.Reader
	deadline func(time.Time) error
	bound    time.Duration
	left     int
}

func (r *pacedReader) Read(p []byte) (int, error) {
	if r.left <= 0 {
		r.left = 1 << 20
		_ = r.deadline(time.Now().Add(r.bound)) // a recorder in a test has none
	}
	n, err := r.from.Read(p)
	r.left -= n
	return n, err
}

func (f *Facade) getStatus(w http.ResponseWriter, id string) {
	found := f.find(id)
	if found == nil {
		f.missing(w)
		return
	}
	if how := found.now().how; how != nil && how.Failure != nil {
		f.fail(w, *how.Failure)
		return
	}
	f.answer(w, http.StatusOK, statusOf(found))
}

// delete answers when nothing of the workload runs any more, and goes on when nobody waits for that.
func (f *Facade) delete(w http.ResponseWriter, id string) {
	if !f.remove(id) {
		f.missing(w)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (f *Facade) missing(w http.ResponseWriter) {
	f.fail(w, failure{Status: http.StatusNotFound, Code: "NOT_FOUND", Message: "there is no such workload"})
}

func (f *Facade) fail(w http.ResponseWriter, why failure) {
	if why.Status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	f.answer(w, why.Status, why)
}

// answer answers a value, within the bound of a write.
func (f *Facade) answer(w http.ResponseWriter, status int, value any) {
	text, err := json.Marshal(value, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		panic(err) // every value here has a JSON form
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	connection := http.NewResponseController(w)
	_ = connection.SetWriteDeadline(time.Now().Add(f.config.WriteTimeout))
	w.WriteHeader(status)
	_, _ = w.Write(text) // a client that has gone has no use for it
	_ = connection.Flush()
	_ = connection.SetWriteDeadline(time.Time{})
}
