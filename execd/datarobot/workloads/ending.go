package workloads

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/policy"
)

// The words of a workload's status. The client polls on at all but the last three.
const (
	statusProvisioning = "provisioning"
	statusRunning      = "running"
	statusSucceeded    = "succeeded"
	statusErrored      = "errored"
	statusTimeout      = "timeout"
)

// ending is how a workload ended. Either it has a status word and an exit code, and a log that can be read; or Failure, and nothing of it counts.
type ending struct {
	Status   string `json:"status,omitempty"`
	ExitCode int    `json:"exitCode"`
	// Outcome and what follows are sandboxd's own words, for people and programs that look for them.
	Outcome       execd.Outcome `json:"outcome,omitempty"`
	DecisionID    string        `json:"decisionId,omitempty"`
	VerdictDigest string        `json:"verdictDigest,omitempty"`
	Degraded      []string      `json:"degraded,omitempty"`
	AuditSequence int64         `json:"auditSequence,omitempty"`
	Failure       *failure      `json:"failure,omitempty"`
}

// failure is a workload without a result: its status is answered with this instead.
type failure struct {
	Status  int             `json:"status"`
	Code    string          `json:"code"`
	Message string          `json:"message"`
	Reasons []policy.Reason `json:"reasons,omitempty"`
}

// endingOf names what a reply means to the client.
func endingOf(r execd.Reply) ending {
	e := ending{
		Outcome: r.Outcome, ExitCode: r.ExitStatus(), DecisionID: r.Decision.ID, VerdictDigest: r.Verdict.Digest, Degraded: r.Verdict.Degraded,
		AuditSequence: r.AuditSequence,
	}
	switch r.Outcome {
	case execd.OutcomeOK:
		e.Status = statusSucceeded
	case execd.OutcomeTimeout:
		e.Status = statusTimeout
	case execd.OutcomeError, execd.OutcomeSignaled, execd.OutcomeOOM, execd.OutcomeOutputLimit, execd.OutcomeNotStarted:
		e.Status = statusErrored
	case execd.OutcomeDenied: // policy has changed since the create
		e.Failure = &failure{Status: http.StatusForbidden, Code: "DENIED", Message: reasonsText(r.Reasons), Reasons: r.Reasons}
	case execd.OutcomeMismatch:
		e.Failure = &failure{Status: http.StatusInternalServerError, Code: "MISMATCH", Message: "it wasn't confined as planned, so nothing of it counts: " + r.Message}
	case execd.OutcomeCancelled:
		e.Failure = &failure{Status: http.StatusServiceUnavailable, Code: "INFRA", Message: "the server stopped before it ended; it isn't run again"}
	default:
		e.Failure = &failure{Status: http.StatusInternalServerError, Code: "INFRA", Message: "the server failed: " + r.Message}
	}
	return e
}

// notices are what sandboxd itself has to say on stderr about a reply, besides the last words that it has already (OOMKilled, refused calls).
func notices(r execd.Reply, seconds int64) (lines []string) {
	switch r.Outcome {
	case execd.OutcomeTimeout:
		lines = append(lines, fmt.Sprintf("sandbox exceeded timeout of %ds", seconds))
	case execd.OutcomeOutputLimit:
		lines = append(lines, "killed: more output than is allowed")
	}
	if r.Message != "" {
		lines = append(lines, r.Message)
	}
	for _, stream := range []struct {
		name      string
		truncated bool
		total     int64
	}{{"stdout", r.Truncated.Stdout, r.Bytes.Stdout}, {"stderr", r.Truncated.Stderr, r.Bytes.Stderr}} {
		if stream.truncated {
			lines = append(lines, fmt.Sprintf("%s was cut: %d bytes were written, more than is kept", stream.name, stream.total))
		}
	}
	if r.ReturnValueHow == "failed" {
		lines = append(lines, "no value: "+r.ReturnValueReason)
	}
	return lines
}

func reasonsText(reasons []policy.Reason) string {
	texts := make([]string, len(reasons))
	for i, reason := range reasons {
		texts[i] = reason.Message
	}
	return "denied: " + strings.Join(texts, "; ")
}
