package agentsandbox

import (
	"encoding/json/v2"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/policy"
)

// fault is an answer that says no. Code is the name of gRPC's for it, as the REST API has it too; the older runtime's clients read message alone.
type fault struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	status  int
}

func (f *fault) Error() string { return f.Message }

func faultf(status int, code, format string, args ...any) *fault {
	return &fault{code, fmt.Sprintf(format, args...), status}
}

// The codes, with gRPC's numbers.
const (
	codeArgument        = "INVALID_ARGUMENT"
	codeDeadline        = "DEADLINE_EXCEEDED"
	codeNotFound        = "NOT_FOUND"
	codeForbidden       = "PERMISSION_DENIED"
	codeExhausted       = "RESOURCE_EXHAUSTED"
	codePrecondition    = "FAILED_PRECONDITION"
	codeAborted         = "ABORTED"
	codeUnimplemented   = "UNIMPLEMENTED"
	codeInternal        = "INTERNAL"
	codeUnavailable     = "UNAVAILABLE"
	codeUnauthenticated = "UNAUTHENTICATED"
	// codeConflict is the REST API's own.
	codeConflict = "CONFLICT"
)

var grpcNumbers = map[string]int{
	codeArgument: 3, codeDeadline: 4, codeNotFound: 5, codeForbidden: 7, codeExhausted: 8, codePrecondition: 9, codeAborted: 10, codeUnimplemented: 12,
	codeInternal: 13, codeUnavailable: 14, codeUnauthenticated: 16, codeConflict: 9,
}

// asFault finds the answer to an error of the packages below.
func asFault(err error) *fault {
	var known *fault
	var field *policy.FieldError
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &field):
		return faultf(http.StatusBadRequest, codeArgument, "%s: %s", field.Field, field.Message)
	}
	e, status := execd.AsError(err)
	message, code := e.Message, codeInternal
	if len(e.Reasons) > 0 {
		message = refusal(e.Reasons)
	}
	switch status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge:
		code = codeArgument
	case http.StatusForbidden:
		code = codeForbidden
	case http.StatusNotFound:
		code = codeNotFound
	case http.StatusConflict:
		code = codeAborted
	case http.StatusTooManyRequests, http.StatusInsufficientStorage:
		code = codeExhausted
	case http.StatusGatewayTimeout:
		code = codeDeadline
	case http.StatusServiceUnavailable:
		code = codeUnavailable
	case http.StatusInternalServerError:
		if e.Code == "MISMATCH" {
			message = "what is enforced isn't what was planned, so nothing was started: " + message
		}
	}
	return &fault{code, message, status}
}

// refusal is policy's no in one line.
func refusal(reasons []policy.Reason) string {
	var texts []string
	for _, r := range reasons {
		text := r.Rule + ": " + r.Message
		if r.Field != "" {
			text += " (" + r.Field + ")"
		}
		texts = append(texts, text)
	}
	return "refused by policy: " + strings.Join(texts, "; ")
}

// writeJSON answers a value with its length.
func writeJSON(w http.ResponseWriter, status int, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		panic(err) // answered by the dispatcher: every value here has a JSON form
	}
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", fmt.Sprint(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that has gone has no use for it
}
