package opensandbox

import (
	"errors"
	"fmt"
	"net/http"
	"syscall"
	"time"

	"github.com/sandboxd/sandboxd/execd"
)

// ending is how a command ended, as clients are told.
type ending struct {
	// code is the exit status; -1 of what was killed, at its deadline, by a signal or at somebody's wish. 0 is a success, and has no name.
	code int
	name string
	// trace says in a line what happened; line goes to stderr before it, where the program itself couldn't say.
	trace, line string
	duration    time.Duration
	// left says that processes of it live on.
	left bool
}

// The names of errors.
const (
	nameExec     = "CommandExecError"
	nameTimeout  = "CommandTimeout"
	nameRefused  = "CommandRefused"
	killedCode   = -1
	refusedCode  = 125
	notFoundCode = 127
	notExecCode  = 126
)

// endingOf reads a reply. interrupted: somebody asked for the end.
func endingOf(r execd.Reply, interrupted bool) ending {
	e := ending{name: nameExec, left: r.TreeLeft, duration: time.Duration(r.DurationSeconds * float64(time.Second))}
	switch r.Outcome {
	case execd.OutcomeOK, execd.OutcomeError:
		if r.ExitCode != nil {
			e.code = *r.ExitCode
		}
		e.trace = fmt.Sprintf("exit status %d", e.code)
		if interrupted {
			e.code, e.trace = killedCode, "signal: interrupted"
		}
	case execd.OutcomeTimeout:
		e.code, e.name, e.trace = killedCode, nameTimeout, "signal: killed: the time limit is over"
	case execd.OutcomeOOM:
		e.code, e.trace, e.line = killedCode, "signal: killed: out of memory", "OOMKilled: it had more memory than its sandbox may have"
	case execd.OutcomeSignaled:
		e.code, e.trace = killedCode, "signal: killed"
		if r.Signal != nil {
			e.trace = "signal: " + syscall.Signal(*r.Signal).String()
		}
	case execd.OutcomeCancelled:
		e.code, e.trace = killedCode, "signal: killed: it was interrupted, or its sandbox has ended"
	case execd.OutcomeNotStarted:
		if e.code = notExecCode; r.Errno == "ENOENT" {
			e.code = notFoundCode
		}
		e.trace, e.line = r.Message, r.Message
	case execd.OutcomeDenied:
		e.code, e.name = refusedCode, nameRefused
		e.trace = "refused: " + reasonsText(r.Reasons)
		e.line = e.trace
	default:
		e.code, e.name, e.trace = refusedCode, nameRefused, string(r.Outcome)+": "+r.Message
		e.line = e.trace
	}
	return e
}

// before is the answer to a command that never began, where it isn't one in the stream: nil where it is.
func before(r execd.Reply) *fault {
	switch {
	case r.Outcome == execd.OutcomeNotStarted && r.BadDirectory():
		return badBody("cwd", "%s", r.Message)
	case r.Outcome == execd.OutcomeMismatch:
		return faultf(http.StatusInternalServerError, "MISMATCH", "what is enforced isn't what was planned, so nothing was started: %s", r.Message)
	case r.Outcome == execd.OutcomeInfra, r.Outcome == execd.OutcomeCancelled:
		return faultf(http.StatusInternalServerError, execdRuntime, "%s: %s", r.Outcome, r.Message)
	}
	return nil
}

// notAdmitted is the answer to a command that got no place.
func notAdmitted(err error) error {
	var known *fault
	if errors.As(err, &known) {
		return known
	}
	return faultf(http.StatusInternalServerError, execdRuntime, "the command got no place to run: %v", err)
}
