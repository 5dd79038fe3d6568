package execd

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"time"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/execd/audit"
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

// fail ends a walk on which an arrow failed: nothing runs on, the record is written, and the reply has the outcome of the error.
func (w *walk) fail(err error) Reply {
	outcome := w.outcomeOf(err)
	var exit *runner.Exit
	if w.child != nil && w.released && !w.ended {
		w.child.Kill()
		bounded, cancel := context.WithTimeout(context.Background(), w.service.config.KillTimeout)
		last := w.child.Wait(bounded)
		cancel()
		w.ended = true
		w.proveEmpty(&last)
		exit = &last
	}
	w.end()
	reply := w.reply(outcome)
	reply.TreeEmpty = exit == nil || exit.TreeEmpty
	reply.Message = sentence(err)
	if outcome == OutcomeNotStarted {
		reply.Errno = errnoName(err)
	}
	var denied *deniedError
	if errors.As(err, &denied) {
		reply.Reasons = denied.reasons
		reply.Message = ""
	}
	if exit != nil {
		w.output(&reply, *exit)
	}
	return w.answer(reply, exit)
}

// outcomeOf names what an error on an arrow means. A failing probe, and a sandbox that isn't what its plan says, are mismatches: a control
// that should be on isn't.
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
	case errors.As(err, &step) && step.Probe:
		w.verdict.Rows = append(w.verdict.Rows, policy.Row{
			Control: step.Step, Want: step.Want, Got: step.Got, Evidence: policy.EvidenceProbe,
		})
		return OutcomeMismatch
	case errors.As(err, &step) && (step.Step == "execve" || step.Step == "chdir"):
		return OutcomeNotStarted
	case w.ctx.Err() != nil:
		return OutcomeCancelled
	default:
		return OutcomeInfra
	}
}

// finish ends a walk whose child has ended.
func (w *walk) finish(exit runner.Exit) Reply {
	e := ending{known: exit.Known, status: exit.Status, killed: w.killedBy(exit), oomKills: exit.OOMKills}
	reply := w.reply(e.outcome())
	reply.ExitCode, reply.Signal = e.exitCode(), e.signal()
	reply.TimedOut = reply.Outcome == OutcomeTimeout
	reply.TreeEmpty = exit.TreeEmpty
	switch reply.Outcome {
	case OutcomeMismatch:
		reply.ExitCode, reply.Signal = nil, nil
		reply.Message = sentence(w.mismatch)
	case OutcomeInfra:
		if w.unstarted != nil {
			reply.Message = sentence(w.unstarted)
			break
		}
		reply.Message = "the kernel gave no exit status: worker or sandbox ended first"
	}
	w.output(&reply, exit)
	w.returnValue(&reply, exit)
	return w.answer(reply, &exit)
}

// killedBy says why we killed the tree while its leader was alive, if we did.
func (w *walk) killedBy(exit runner.Exit) cause {
	switch {
	case w.mismatch != nil:
		return causeMismatch
	case exit.Known && !exit.Killed:
		return causeNone
	case w.unstarted != nil:
		return causeFailure
	case exit.OutputLimit:
		return causeOutputLimit
	case errors.Is(context.Cause(w.clock), errDeadline):
		return causeDeadline
	case w.clock.Err() != nil:
		return causeCaller
	}
	return causeNone
}

// reply has what every reply of this walk has.
func (w *walk) reply(outcome Outcome) Reply {
	empty := ""
	return Reply{
		ID: w.id, Outcome: outcome, TreeEmpty: true, Stdout: &empty, Stderr: &empty,
		Decision: judgmentOf(w.decision), Verdict: proofOf(w.verdict, w.options.Rows), AuditSequence: w.sequence,
	}
}

// output puts in what the child wrote and used.
func (w *walk) output(reply *Reply, exit runner.Exit) {
	reply.Stdout, reply.StdoutBase64 = asText(exit.Stdout.Data, exit.Stdout.Truncated)
	reply.Stderr, reply.StderrBase64 = asText(exit.Stderr.Data, exit.Stderr.Truncated)
	reply.Truncated = Truncated{Stdout: exit.Stdout.Truncated, Stderr: exit.Stderr.Truncated}
	reply.Bytes = Bytes{Stdout: exit.Stdout.Total, Stderr: exit.Stderr.Total}
	reply.OOMKills = exit.OOMKills
	reply.DurationSeconds = exit.Duration.Seconds()
	reply.Usage = Usage{
		CPUSeconds:  seconds(exit.Rusage.Utime) + seconds(exit.Rusage.Stime),
		MaxRSSBytes: exit.Rusage.Maxrss << 10, // getrusage(2): kilobytes
	}
}

func seconds(t syscall.Timeval) float64 {
	return (time.Duration(t.Sec)*time.Second + time.Duration(t.Usec)*time.Microsecond).Seconds()
}

// answer writes the last record of the walk and completes the reply. The sequence number is that of the record that has the proof.
func (w *walk) answer(reply Reply, exit *runner.Exit) Reply {
	last := w.lastRecord(reply, exit)
	if w.sequence != 0 {
		w.note(last)
	} else if sequence, err := w.append(last); err == nil {
		reply.AuditSequence = sequence
	} else {
		w.service.logger.Error("audit", "exec", w.id, "type", last.Type, "error", err)
	}
	w.service.metrics.finished(w.request.Action, reply.Outcome, time.Since(w.began))
	return reply
}

// The record's type is named often here.
type auditRecord = audit.Record

// releaseRecord is what must be durable before the first instruction.
func (w *walk) releaseRecord() auditRecord {
	r := w.baseRecord(audit.TypeRelease)
	r.PlanDigest = w.plan.Digest()
	r.Verdict = recordedVerdict(w.verdict)
	return r
}

// lastRecord says how a walk ended: with an outcome when something was released, else with what stopped it, which then has all that a
// release record would have.
func (w *walk) lastRecord(reply Reply, exit *runner.Exit) auditRecord {
	if w.sequence != 0 {
		r := auditRecord{Type: audit.TypeOutcome, Exec: w.id, Sandbox: w.request.Sandbox, Message: reply.Message}
		if reply.Outcome == OutcomeMismatch {
			r.Verdict = recordedVerdict(w.verdict)
		}
		r.Ending = endingOf(reply, exit)
		return r
	}
	kind := audit.TypeOutcome
	switch reply.Outcome {
	case OutcomeDenied:
		kind = audit.TypeDecision
	case OutcomeMismatch:
		kind = audit.TypeMismatch
	}
	r := w.baseRecord(kind)
	r.Message = reply.Message
	r.Ending = endingOf(reply, exit)
	if len(w.verdict.Rows) > 0 {
		r.PlanDigest = w.plan.Digest()
		r.Verdict = recordedVerdict(w.verdict)
	}
	if w.decision.Allow && len(reply.Reasons) > 0 {
		r.Refused = reply.Reasons
	}
	return r
}

func (w *walk) baseRecord(kind audit.Type) auditRecord {
	return auditRecord{
		Type: kind, Exec: w.id, Sandbox: w.request.Sandbox, Caller: &w.request.Caller,
		Request: audit.Describe(w.request), Decision: recordedDecision(w.decision),
	}
}

func recordedDecision(d policy.Decision) *audit.Decision {
	if d.ID == "" {
		return nil
	}
	recorded := &audit.Decision{
		ID: d.ID, Allow: d.Allow, Reasons: d.Reasons, Accept: d.Accept, Labels: d.Labels, Revision: d.Revision,
	}
	if d.Allow {
		recorded.Effective = policy.Canonical(d.Effective)
	}
	return recorded
}

func recordedVerdict(v policy.Verdict) *audit.Verdict {
	return &audit.Verdict{
		Held: v.Held(), Tier: v.Tier, Digest: policy.Digest(v), Evidence: v.Count(), Degraded: v.Degraded, Failed: v.Failed(),
	}
}

// endingOf sums a reply up for the record: sizes and digests in place of what was written.
func endingOf(reply Reply, exit *runner.Exit) *audit.Ending {
	e := &audit.Ending{
		Outcome: string(reply.Outcome), ExitCode: reply.ExitCode, Signal: reply.Signal, OOMKills: reply.OOMKills, TreeEmpty: reply.TreeEmpty,
		DurationSeconds: reply.DurationSeconds, CPUSeconds: reply.Usage.CPUSeconds, MaxRSSBytes: reply.Usage.MaxRSSBytes,
	}
	if exit != nil {
		e.Stdout = &audit.Blob{Bytes: exit.Stdout.Total, Digest: audit.Digest(exit.Stdout.Data)}
		e.Stderr = &audit.Blob{Bytes: exit.Stderr.Total, Digest: audit.Digest(exit.Stderr.Data)}
	}
	return e
}
