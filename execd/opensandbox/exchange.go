package opensandbox

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json/v2"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/policy"
)

// exchange is one request on its way to its answer.
type exchange struct {
	facade *Facade
	w      *execd.BegunWriter
	r      *http.Request
	// id is the request's own, which every answer echoes.
	id string
	// caller is the owner: by its key, or of the sandbox whose token the request has.
	caller policy.Caller
	// box is the sandbox of a request to one of its endpoints; its token was right.
	box *sandbox
	// values are the parts of the path that a route has in braces.
	values map[string]string
}

// requestID is the client's, if it can be one, else made up.
func requestID(header http.Header) string {
	sent := header.Get("X-Request-Id")
	printable := strings.IndexFunc(sent, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
	if sent != "" && len(sent) <= 128 && printable {
		return sent
	}
	var id [16]byte
	rand.Read(id[:])
	return hex.EncodeToString(id[:])
}

// answer answers a value.
func (x *exchange) answer(status int, value any) {
	x.bounded(func() { writeJSON(x.w, status, value) })
}

// empty is a success without data: its length must be there.
func (x *exchange) empty() {
	x.w.Header().Set("Content-Length", "0")
	x.bounded(func() { x.w.WriteHeader(http.StatusOK) })
}

// fail answers an error, if nothing is answered yet. Else the connection is cut by the dispatcher.
func (x *exchange) fail(err error) {
	f := asFault(err)
	if f.status == http.StatusTooManyRequests {
		x.w.Header().Set("Retry-After", "1")
	}
	x.bounded(func() { writeError(x.w, f.status, f.Code, f.Message) })
}

// bounded writes within the bound.
func (x *exchange) bounded(write func()) {
	connection := http.NewResponseController(x.w)
	_ = connection.SetWriteDeadline(time.Now().Add(x.facade.config.WriteTimeout)) // a recorder in a test has none
	write()
	_ = connection.Flush()
	_ = connection.SetWriteDeadline(time.Time{})
}

// body reads a whole body within its bounds of size and time.
func (x *exchange) body(code string) ([]byte, error) {
	connection := http.NewResponseController(x.w)
	_ = connection.SetReadDeadline(time.Now().Add(x.facade.config.BodyTimeout))
	data, err := io.ReadAll(http.MaxBytesReader(x.w, x.r.Body, x.facade.config.BodyBytes))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, faultf(http.StatusBadRequest, code, "the body has more than %d bytes", large.Limit)
	case err != nil:
		return nil, faultf(http.StatusBadRequest, code, "the body didn't arrive whole: %v", err)
	}
	_ = connection.SetReadDeadline(time.Time{})
	return data, nil
}

// decode reads a JSON body into a value. Members that it doesn't know are left out, as the contract has it.
func (x *exchange) decode(code string, to any) error {
	data, err := x.body(code)
	if err != nil {
		return err
	}
	return decode(code, data, to)
}

func decode(code string, data []byte, to any) error {
	if err := json.Unmarshal(data, to); err != nil {
		return faultf(http.StatusBadRequest, code, "the body isn't what this call takes: %v", err)
	}
	return nil
}
