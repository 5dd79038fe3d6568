package opensandbox

import (
	"encoding/json/v2"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/policy"
)

// fault is an answer that says no: {"code", "message"}, both there always, since a client that doesn't find them loses the status too.
type fault struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	status  int
}

func (f *fault) Error() string { return f.Message }

func faultf(status int, code, format string, args ...any) *fault {
	return &fault{code, fmt.Sprintf(format, args...), status}
}

// The codes of the lifecycle API, and of execd.
const (
	codeRequest     = "SANDBOX::INVALID_REQUEST"
	codeNotFound    = "SANDBOX::NOT_FOUND"
	codeDenied      = "SANDBOX::POLICY_DENIED"
	codeUnsupported = "SANDBOX::API_NOT_SUPPORTED"
	codeOption      = "SANDBOX::OPTION_NOT_SUPPORTED"
	codeConflict    = "SANDBOX::INVALID_STATE"

	execdBody    = "INVALID_REQUEST_BODY"
	execdQuery   = "MISSING_QUERY"
	execdRuntime = "RUNTIME_ERROR"
	execdContext = "CONTEXT_NOT_FOUND"
	execdLacks   = "NOT_SUPPORTED"
)

// bad is a request that breaks a rule of the lifecycle API.
func bad(field, format string, args ...any) *fault {
	return faultf(http.StatusBadRequest, codeRequest, "%s: %s", field, fmt.Sprintf(format, args...))
}

// badBody is one that breaks a rule of execd's.
func badBody(field, format string, args ...any) *fault {
	return faultf(http.StatusBadRequest, execdBody, "%s: %s", field, fmt.Sprintf(format, args...))
}

// asBadBody names the field of policy's own error, as it is called here.
func asBadBody(err error) error {
	var field *policy.FieldError
	if !errors.As(err, &field) {
		return badBody("command", "%v", err)
	}
	name := strings.TrimPrefix(strings.TrimPrefix(field.Field, "command."), "program.")
	if rest, ok := strings.CutPrefix(name, "env."); ok {
		name = "envs." + rest
	}
	return badBody(name, "%s", field.Message)
}

// asFault finds the answer to an error of the packages below. A status that clients try again on, 502 and 503, is none that lasts.
func asFault(err error) *fault {
	var known *fault
	var field *policy.FieldError
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &field):
		return bad(field.Field, "%s", field.Message)
	}
	e, status := execd.AsError(err)
	code := "SANDBOX::" + e.Code
	switch e.Code {
	case "DENIED":
		code = codeDenied
	case "NOT_FOUND":
		code = codeNotFound
	}
	message := e.Message
	if len(e.Reasons) > 0 {
		message = reasonsText(e.Reasons)
	}
	return &fault{code, message, status}
}

// reasonsText is policy's reasons in one line.
func reasonsText(reasons []policy.Reason) string {
	var texts []string
	for _, r := range reasons {
		text := r.Rule + ": " + r.Message
		if r.Field != "" {
			text += " (" + r.Field + ")"
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}

// writeError answers a no.
func writeError(w http.ResponseWriter, status int, code, message string) {
	writeJSON(w, status, &fault{Code: code, Message: message})
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
