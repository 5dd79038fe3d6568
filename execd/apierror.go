package execd

import (
	"bytes"
	"encoding/json/v2"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/sandboxd/sandboxd/execd/spool"
	"github.com/sandboxd/sandboxd/policy"
)

// Error is what the API answers when it has no reply to give.
type Error struct {
	// Code is a word for programs, Message a sentence for people.
	Code    string `json:"code"`
	Message string `json:"message"`
	// Field is the field, query parameter or header that is wrong.
	Field string `json:"field,omitempty"`
	// Kind is what was found where a file or a directory was wanted; Size the file's, where it is the reason.
	Kind string `json:"kind,omitempty"`
	Size int64  `json:"size,omitzero"`
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
	"MISMATCH":           http.StatusInternalServerError,
	"TIMEOUT":            http.StatusGatewayTimeout,
	"NOT_READY":          http.StatusServiceUnavailable,

	// Those of a file operation.
	"NOT_A_FILE":      http.StatusBadRequest,
	"NOT_A_DIRECTORY": http.StatusBadRequest,
	"LINK":            http.StatusBadRequest,
	"OUTSIDE":         http.StatusBadRequest,
	"HARD_LINK":       http.StatusBadRequest,
	"BAD_NAME":        http.StatusBadRequest,
	"INCOMPLETE":      http.StatusBadRequest,
	"FORBIDDEN":       http.StatusForbidden,
	"READ_ONLY":       http.StatusForbidden,
	"CHANGED":         http.StatusConflict,
	"RANGE":           http.StatusRequestedRangeNotSatisfiable,
	"NO_SPACE":        http.StatusInsufficientStorage, // of a run with long inputs as well
	"NO_INODES":       http.StatusInsufficientStorage,
	"QUOTA":           http.StatusInsufficientStorage,
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
	var mismatch *mismatchError
	var long *policy.TooLongError
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &field):
		return badField(field.Field, sentence(field))
	case errors.As(err, &long):
		e := errorOf("TOO_LARGE", tooLong(long))
		e.Field = long.Field
		return e
	case errors.Is(err, spool.ErrNoSpace):
		return errorOf("NO_SPACE", sentence(err))
	case errors.Is(err, ErrNoSandbox):
		e := errorOf("NOT_FOUND", err.Error())
		e.Field = "sandbox"
		return e
	case errors.As(err, &mismatch):
		return errorOf("MISMATCH", sentence(err))
	case errors.Is(err, ErrGone), errors.Is(err, ErrDrifted), errors.Is(err, ErrPaused), errors.Is(err, errShut):
		return errorOf("CONFLICT", err.Error())
	case errors.Is(err, ErrBusy), errors.Is(err, errTooMany), errors.Is(err, spool.ErrFull):
		e := errorOf("BUSY", err.Error())
		e.RetryAfterSeconds = 1
		return e
	case errors.Is(err, errStopping):
		return errorOf("NOT_READY", err.Error())
	}
	return errorOf("INTERNAL", sentence(err))
}

// tooLong says which limit it is, and what changes it.
func tooLong(err *policy.TooLongError) string {
	flag := "--body-bytes"
	if err.Field == "inputs" {
		flag = "--input-bytes"
	}
	return err.Error() + "; serve " + flag + " gives more"
}

// fail answers an error, unless an answer has begun: then the connection is cut, so that what was sent can't be taken for a whole answer.
func (x *exchange) fail(err error) {
	if x.broken = x.w.status != 0; x.broken {
		return
	}
	e := asError(err)
	if e.RetryAfterSeconds > 0 {
		x.w.Header().Set("Retry-After", strconv.Itoa(e.RetryAfterSeconds))
	}
	x.answer(e.status, e)
}

// answer answers a value.
func (x *exchange) answer(status int, value any) {
	if reply, ok := value.(Reply); ok {
		x.answerReply(status, reply)
		return
	}
	var body bytes.Buffer
	if err := json.MarshalWrite(&body, value, wire); err != nil {
		panic(err) // answered by the handler's own recovery: every value here has a JSON form
	}
	body.WriteByte('\n')
	x.w.Header().Set("Content-Type", "application/json")
	x.w.Header().Set("Content-Length", strconv.Itoa(body.Len()))
	x.bounded(func() {
		x.w.WriteHeader(status)
		_, _ = x.w.Write(body.Bytes()) // a client that has gone has no use for it
	})
}

// bounded writes within the bound: a client that doesn't read must not hold a place for ever.
func (x *exchange) bounded(write func()) {
	connection := http.NewResponseController(x.w)
	_ = connection.SetWriteDeadline(time.Now().Add(x.bound)) // a recorder in a test has none
	write()
	_ = connection.Flush()
	_ = connection.SetWriteDeadline(time.Time{})
}
