package execd

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/runner"
)

// deniedError is a no by policy, or by a host that can't hold what policy allows.
type deniedError struct{ reasons []policy.Reason }

func (e *deniedError) Error() string {
	texts := make([]string, len(e.reasons))
	for i, reason := range e.reasons {
		texts[i] = reason.Message
	}
	return "denied: " + strings.Join(texts, "; ")
}

// asDenied makes a no of what this host can't hold; other errors pass as they are.
func asDenied(err error) error {
	var refused *enforcer.RefusedError
	if !errors.As(err, &refused) {
		return err
	}
	return &deniedError{[]policy.Reason{refusal(refused)}}
}

func refusal(refused *enforcer.RefusedError) policy.Reason {
	reason := policy.Reason{Rule: "host", Message: refused.Message, Field: refused.Field}
	if refused.Lack != "" {
		reason.Rule = "host." + refused.Lack
	}
	if refused.HowTo != "" {
		reason.Message += "; " + refused.HowTo
	}
	return reason
}

// mismatchError says that read-back failed.
type mismatchError struct{ error }

func (e *mismatchError) Unwrap() error { return e.error }

func failedRows(v policy.Verdict) string {
	var rows []string
	for _, row := range v.Failed() {
		rows = append(rows, row.Control+": want "+row.Want+", got "+row.Got)
	}
	if len(rows) == 0 {
		return "nothing was read"
	}
	return strings.Join(rows, "; ")
}

// outcomeOf names what an error on an arrow means. A step of the child that failed, and a sandbox that isn't what its plan says, are mismatches: a
// control that should be on isn't.
func (w *walk) outcomeOf(err error) Outcome {
	var denied *deniedError
	var mismatch *mismatchError
	var sandbox *runner.MismatchError
	var step *runner.StepError
	switch {
	case errors.As(err, &denied):
		return OutcomeDenied
	case errors.As(err, &sandbox):
		w.verdict = sandbox.Verdict
		return OutcomeMismatch
	case errors.As(err, &mismatch):
		return OutcomeMismatch
	case errors.As(err, &step) && step.Control:
		row := policy.Row{Control: step.Step, Want: step.Want, Got: step.Got, Evidence: policy.EvidenceReport}
		if step.Probe {
			row.Evidence = policy.EvidenceProbe
		}
		w.verdict.Rows = append(w.verdict.Rows, row)
		return OutcomeMismatch
	case errors.As(err, &step) && (step.Step == stepExecve || step.Step == stepChdir):
		return OutcomeNotStarted
	case w.ctx.Err() != nil:
		return OutcomeCancelled
	default:
		return OutcomeInfra
	}
}

// whyNotStarted says in a person's words why the program could not be executed.
func (w *walk) whyNotStarted(err error) string {
	var step *runner.StepError
	if !errors.As(err, &step) {
		return sentence(err)
	}
	if step.Step == stepChdir {
		return sentence(fmt.Errorf("directory %s: %w", w.program.Cwd, step.Errno))
	}
	target := w.program.Argv[0]
	switch {
	case step.Errno == syscall.ENOENT && w.released:
		return sentence(fmt.Errorf("%s: its interpreter: %w", target, step.Errno)) // the file itself was opened before the gate
	case step.Errno == syscall.ENOEXEC:
		return sentence(fmt.Errorf("%s: %w: neither a program for this machine nor a script that begins with #!", target, step.Errno))
	case step.Errno == syscall.EACCES:
		return sentence(fmt.Errorf("%s: %w: not an executable file", target, step.Errno))
	case step.Errno == 0:
		return sentence(err)
	}
	return sentence(fmt.Errorf("%s: %w", target, step.Errno))
}

// The steps whose failure is the request's and not ours.
const (
	stepExecve = "execve"
	stepChdir  = "chdir"
)
