package execd

import (
	"context"
	"errors"

	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/runner"
)

// The record's type is named often here.
type auditRecord = audit.Record

// releaseRecord is what must be durable before the first instruction.
func (w *walk) releaseRecord() auditRecord {
	r := w.baseRecord(audit.TypeRelease)
	r.PlanDigest = w.plan.Digest()
	r.Verdict = recordedVerdict(w.verdict, w.verdictDigest())
	switch {
	case w.ahead != nil:
		r.Type, r.Prewarm = audit.TypePrewarm, w.prewarmed()
		r.Message = "an interpreter is started ahead, for no code but these imports"
	case w.waiter != nil:
		r.Prewarm = w.waiter.walk.prewarmed()
	case w.options.context != nil:
		r.Message = "the interpreter of a code context: what it runs has records of its own"
	case w.options.after != nil:
		r.Message = "the outputs of exec " + w.options.after.id
	}
	return r
}

// lastRecord says how a walk ended: with an outcome when something was released, else with what stopped it, which then has all that a
// release record would have.
func (w *walk) lastRecord(reply Reply, exit *runner.Exit) auditRecord {
	if w.sequence != 0 {
		r := auditRecord{Type: audit.TypeOutcome, Exec: w.id, Sandbox: w.request.Sandbox, Caller: &w.request.Caller, Message: reply.Message}
		if reply.Outcome == OutcomeMismatch {
			r.Verdict = recordedVerdict(w.verdict, w.verdictDigest())
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
	if w.plan.Tier != "" {
		r.PlanDigest = w.plan.Digest()
	}
	if len(w.verdict.Rows) > 0 {
		r.Verdict = recordedVerdict(w.verdict, w.verdictDigest())
	}
	if w.decision.Allow && len(reply.Reasons) > 0 {
		r.Refused = reply.Reasons
	}
	return r
}

func (w *walk) baseRecord(kind audit.Type) auditRecord {
	r := auditRecord{
		Type: kind, Exec: w.id, Sandbox: w.request.Sandbox, Caller: &w.request.Caller,
		Request: audit.Describe(w.request), Decision: recordedDecision(w.decision),
	}
	if of := w.options.cellOf; of != nil {
		r.Context = of.walk.id
	}
	return r
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

func recordedVerdict(v policy.Verdict, digest string) *audit.Verdict {
	return &audit.Verdict{
		Held: v.Held(), Tier: v.Tier, Digest: digest, Evidence: v.Count(), Degraded: v.Degraded, Failed: v.Failed(),
	}
}

// endingOf sums a reply up for the record: sizes and digests in place of what was written.
func endingOf(reply Reply, exit *runner.Exit) *audit.Ending {
	e := &audit.Ending{
		Outcome: string(reply.Outcome), ExitCode: reply.ExitCode, Signal: reply.Signal, OOMKills: reply.OOMKills, TreeEmpty: reply.TreeEmpty, TreeLeft: reply.TreeLeft,
		DurationSeconds: reply.DurationSeconds, CPUSeconds: reply.Usage.CPUSeconds, MaxRSSBytes: reply.Usage.MaxRSSBytes,
	}
	e.DeniedCalls, e.DeniedCallsCut = reply.DeniedCalls, reply.DeniedCallsCut
	if exit != nil {
		e.Stdout = &audit.Blob{Bytes: exit.Stdout.Total, Digest: audit.Digest(exit.Stdout.Data)}
		e.Stderr = &audit.Blob{Bytes: exit.Stderr.Total, Digest: audit.Digest(exit.Stderr.Data)}
	}
	return e
}

// append writes a record that something depends on. The caller's going away doesn't make it fail, a disk that hangs does: after a while for who
// meets it first, at once for all others.
func (w *walk) append(r auditRecord) (int64, error) {
	if err := w.service.log.Err(); errors.Is(err, audit.ErrStalled) {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), w.service.config.RecordTimeout)
	defer cancel()
	return w.service.log.Append(ctx, r)
}

// note writes a record that nothing waits for; that it can't be written is told and breaks the log for all that comes.
func (w *walk) note(r auditRecord) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), w.service.config.RecordTimeout)
	defer cancel()
	if _, err := w.service.log.Note(ctx, r); err != nil {
		w.service.logger.Error("audit", "exec", w.id, "type", r.Type, "error", err)
	}
}

// digested is the digest of the verdict as it was when its rows were these: record and reply have the same one.
type digested struct {
	first  *policy.Row
	rows   int
	digest string
}

// verdictDigest is the digest of the verdict as it is now: its rows are appended to, or others take their place; a row that is there is never changed.
func (w *walk) verdictDigest() string {
	rows := w.verdict.Rows
	if len(rows) == 0 {
		return w.verdict.Digest()
	}
	if w.digested.first != &rows[0] || w.digested.rows != len(rows) {
		w.digested = digested{&rows[0], len(rows), w.verdict.Digest()}
	}
	return w.digested.digest
}
