package execd

import (
	"bytes"
	"encoding/json/v2"
	"fmt"
	"net/http"

	"github.com/sandboxd/sandboxd/runner/file"
)

// fileCodes are the faults of a file operation that have a code of their own here. Every other is INTERNAL.
var fileCodes = map[file.Code]string{
	file.NotFound: "NOT_FOUND", file.NotFile: "NOT_A_FILE", file.NotDirectory: "NOT_A_DIRECTORY", file.Link: "LINK", file.Outside: "OUTSIDE",
	file.HardLink: "HARD_LINK", file.Forbidden: "FORBIDDEN", file.ReadOnly: "READ_ONLY", file.NoSpace: "NO_SPACE", file.NoInodes: "NO_INODES",
	file.Quota: "QUOTA", file.TooLarge: "TOO_LARGE", file.BadRange: "RANGE", file.BadName: "BAD_NAME", file.Changed: "CHANGED",
	file.Incomplete: "INCOMPLETE",
}

// followedCodes are faults of orders that only façades give.
var followedCodes = map[file.Code]string{file.Exists: "EXISTS", file.BadOwner: "OWNER", file.BadPattern: "PATTERN"}

// fileFault is the answer to a fault.
func fileFault(f *file.Fault) *Error {
	if code, known := followedCodes[f.Code]; known {
		return &Error{Code: code, Message: f.Message, Field: "path", Kind: f.Kind, status: http.StatusBadRequest}
	}
	code, known := fileCodes[f.Code]
	if !known {
		return errorOf("INTERNAL", f.Message)
	}
	e := errorOf(code, f.Message)
	e.Field, e.Kind, e.Size = "path", f.Kind, f.Size
	return e
}

// fileResult reads what the child said. One that was killed said nothing, or half of it.
func fileResult(reply Reply) (file.Result, *Error) {
	switch reply.Outcome {
	case OutcomeOK, OutcomeError:
	case OutcomeDenied:
		denied := errorOf("DENIED", "policy says no")
		denied.Reasons = reply.Reasons
		return file.Result{}, denied
	case OutcomeMismatch:
		return file.Result{}, errorOf("MISMATCH", reply.Message)
	case OutcomeTimeout:
		return file.Result{}, errorOf("TIMEOUT", "the operation took longer than it may")
	default:
		return file.Result{}, errorOf("INTERNAL", fmt.Sprintf("the operation ended as %s: %s", reply.Outcome, reply.Message))
	}
	stdout, stderr := reply.Output()
	var result file.Result
	if err := json.UnmarshalRead(bytes.NewReader(stdout), &result, json.RejectUnknownMembers(true)); err != nil {
		return file.Result{}, errorOf("INTERNAL", fmt.Sprintf("the operation gave no result: %v; %.200s", err, stderr))
	}
	if result.Fault != nil {
		return result, fileFault(result.Fault)
	}
	if reply.Outcome != OutcomeOK {
		return result, errorOf("INTERNAL", "the operation failed without a reason")
	}
	return result, nil
}

// fileRecord adds to the record of an operation's end what became of the content: how much, its digest, and why it isn't whole.
func (w *walk) fileRecord(r *auditRecord, reply Reply) {
	if r.Ending != nil {
		r.Ending.Content = w.options.transfer.blob()
	}
	if reply.Outcome != OutcomeOK && reply.Outcome != OutcomeError {
		return
	}
	result, fault := fileResult(reply)
	switch {
	case fault != nil:
		r.Message = sentence(fmt.Errorf("%s: %s", fault.Code, fault.Message))
	case result.Changed:
		r.Message = "the file's size changed while it was read"
	}
}
