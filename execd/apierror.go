package execd

import (
	"encoding/json/v2"
	"errors"
	"net/http"
	"strconv"

	"github.com/sandboxd/sandboxd/policy"
)

// Error is what the API answers when it has no reply to give.
type Error struct {
	// Code is a word for programs, Message a sentence for people.
	Code    string `json:"code"`
	Message string `json:"message"`
	// Field is the field, query parameter or header that is wrong.
	Field string `json:"field,omitempty"`
	// Reasons are policy's.
	Reasons []policy.Reason `json:"reasons,omitempty"`
	// RetryAfterSeconds is when another try may succeed; the header Retry-After says the same.
	RetryAfterSeconds int `json:"retryAfterSeconds,omitzero"`

	status int
}

func (e *Error) Error() string { return e.Message }

// The codes, each with its status.
var statuses = map[string]int{
	"BAD_REQUEST":        http.StatusBadRequest,
	"UNAUTHORIZED":       http.StatusUnauthorized,
	"DENIED":             http.StatusForbidden,
	"NOT_FOUND":          http.StatusNotFound,
	"METHOD_NOT_ALLOWED": http.StatusMethodNotAllowed,
	"CONFLICT":           http.StatusConflict,
	"TOO_LARGE":          http.StatusRequestEntityTooLarge,
	"BUSY":               http.StatusTooManyRequests,
	"INTERNAL":           http.StatusInternalServerError,
	"NOT_READY":          http.StatusServiceUnavailable,
}

// errorOf makes an error of a code.
func errorOf(code, message string) *Error {
	return &Error{Code: code, Message: message, status: statuses[code]}
}

func badField(field, message string) *Error {
	e := errorOf("BAD_REQUEST", message)
	e.Field = field
	return e
}

// asError finds the answer to an error of the packages below.
func asError(err error) *Error {
	var known *Error
	var field *policy.FieldError
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &field):
		return badField(field.Field, sentence(field))
	case errors.Is(err, ErrNoSandbox):
		e := errorOf("NOT_FOUND", err.Error())
		e.Field = "sandbox"
		return e
	case errors.Is(err, ErrGone):
		return errorOf("CONFLICT", err.Error())
	case errors.Is(err, ErrBusy), errors.Is(err, errTooMany):
		e := errorOf("BUSY", err.Error())
		e.RetryAfterSeconds = 1
		return e
	case errors.Is(err, errStopping):
		return errorOf("NOT_READY", err.Error())
	}
	return errorOf("INTERNAL", sentence(err))
}

// writeError answers an error.
func writeError(w http.ResponseWriter, err error) {
	e := asError(err)
	if e.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(e.RetryAfterSeconds))
	}
	writeJSON(w, e.status, e)
}

// writeJSON answers a value.
func writeJSON(w http.ResponseWriter, status int, value any) {
	data, err := json.Marshal(value, wire)
	if err != nil {
		panic(err) // answered by the handler's own recovery: every value here has a JSON form
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)+1))
	w.WriteHeader(status)
	w.Write(append(data, '\n')) //nolint:errcheck // a client that has gone has no use for it
}
