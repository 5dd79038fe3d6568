package sandboxd

import (
	"encoding/json/v2"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/sandboxd/sandboxd/policy"
)

// What an error of this package is, for [errors.Is]. Those from ErrDenied to ErrInfra are how an exec or a run ends that didn't end by itself; the first
// two, and ErrTimeout, are also what other requests meet.
var (
	ErrDenied       = errors.New("denied")          // policy says no, or this host can't hold what it allows; nothing ran. See [Reasons]
	ErrMismatch     = errors.New("mismatch")        // what was read back isn't as planned; nothing ran, or it was killed at once
	ErrTimeout      = errors.New("timeout")         // its time is over
	ErrOOM          = errors.New("out of memory")   // killed for memory
	ErrOutputLimit  = errors.New("output limit")    // killed, since it wrote more than limits.outputBytes
	ErrNotStarted   = errors.New("not started")     // there is no such program, or it can't be executed
	ErrCancelled    = errors.New("cancelled")       // the daemon was told to stop it
	ErrInfra        = errors.New("sandboxd failed") // not the program's fault
	ErrBusy         = errors.New("busy")            // come again after [RetryAfter]
	ErrBadRequest   = errors.New("bad request")     // Field of [*Error] names what is wrong
	ErrNotFound     = errors.New("not found")       // no such sandbox of this caller's, or no such file
	ErrConflict     = errors.New("conflict")        // the sandbox has ended or drifted, or a file changed meanwhile
	ErrTooLarge     = errors.New("too large")       // more than the daemon takes or gives in one request
	ErrNotReady     = errors.New("not ready")       // the daemon stops, or can't record
	ErrUnauthorized = errors.New("unauthorized")    // the token is missing or wrong
)

// codes are the errors of the API's codes. Those that aren't here are [*Error] and nothing else.
var codes = map[string]error{
	"DENIED": ErrDenied, "MISMATCH": ErrMismatch, "TIMEOUT": ErrTimeout, "BUSY": ErrBusy, "BAD_REQUEST": ErrBadRequest, "NOT_FOUND": ErrNotFound,
	"CONFLICT": ErrConflict, "CHANGED": ErrConflict, "TOO_LARGE": ErrTooLarge, "NOT_READY": ErrNotReady, "UNAUTHORIZED": ErrUnauthorized, "INTERNAL": ErrInfra,
}

// outcomes are the errors of outcomes; the others are ends of the program's own.
var outcomes = map[Outcome]error{
	OutcomeDenied: ErrDenied, OutcomeMismatch: ErrMismatch, OutcomeTimeout: ErrTimeout, OutcomeOOM: ErrOOM, OutcomeOutputLimit: ErrOutputLimit,
	OutcomeNotStarted: ErrNotStarted, OutcomeCancelled: ErrCancelled, OutcomeInfra: ErrInfra,
}

// Error is the daemon's answer when it has nothing else to give.
type Error struct {
	// Status is HTTP's.
	Status int `json:"-"`
	// Code is the API's word, such as "BUSY"; empty when the answer wasn't the API's.
	Code    string `json:"code"`
	Message string `json:"message"`
	// Field is the field, parameter or header that is wrong.
	Field string `json:"field,omitempty"`
	// Kind is what was found where a file or a directory was wanted; Size the file's, where it is the reason.
	Kind string `json:"kind,omitempty"`
	Size int64  `json:"size,omitzero"`
	// Reasons are policy's.
	Reasons []policy.Reason `json:"reasons,omitempty"`
	// RetryAfterSeconds is when another try may succeed, 0 where that isn't known.
	RetryAfterSeconds int `json:"retryAfterSeconds,omitzero"`
}

func (e *Error) Error() string {
	text := e.Message
	if e.Field != "" {
		text = e.Field + ": " + text
	}
	if len(e.Reasons) > 0 {
		text += ": " + e.Reasons[0].Message
	}
	if e.RetryAfterSeconds > 0 {
		text += fmt.Sprintf("; try again in %d s", e.RetryAfterSeconds)
	}
	return text
}

// Is has it be one of this package's.
func (e *Error) Is(target error) bool { return codes[e.Code] != nil && codes[e.Code] == target }

// ReplyError says that an exec or a run came to no end of its own. The reply is whole: what it wrote, the proof, the record.
type ReplyError struct{ Reply Reply }

func (e *ReplyError) Error() string {
	text := string(e.Reply.Outcome)
	switch {
	case len(e.Reply.Reasons) > 0:
		text += ": " + e.Reply.Reasons[0].Message
		if more := len(e.Reply.Reasons) - 1; more > 0 {
			text += fmt.Sprintf(" (and %d more)", more)
		}
	case e.Reply.Message != "":
		text += ": " + e.Reply.Message
	}
	return text
}

// Is has it be one of this package's.
func (e *ReplyError) Is(target error) bool { return outcomes[e.Reply.Outcome] == target }

// Reasons are policy's, or this host's, when an error says denied; nil else.
func Reasons(err error) []policy.Reason {
	if e, ok := errors.AsType[*ReplyError](err); ok {
		return e.Reply.Reasons
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reasons
	}
	return nil
}

// RetryAfter is when another try may succeed; 0 when err doesn't say so.
func RetryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*Error](err); ok {
		return time.Duration(e.RetryAfterSeconds) * time.Second
	}
	return 0
}

// errorOf reads the daemon's error.
func errorOf(response *http.Response, data []byte) *Error {
	e := &Error{}
	if json.Unmarshal(data, e, wire) != nil || e.Code == "" {
		e = &Error{Message: "the daemon answered " + response.Status}
	}
	e.Status = response.StatusCode
	if after, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && e.RetryAfterSeconds == 0 {
		e.RetryAfterSeconds = max(after, 0)
	}
	return e
}
