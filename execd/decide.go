package execd

import (
	"context"

	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/policy"
)

// DecideReply is the answer to a dry run.
type DecideReply struct {
	Decision policy.Decision `json:"decision"`
	// Refused says what this host can't hold of what policy allows; null when it can hold all.
	Refused *policy.Reason `json:"refused"`
	// Changes are the smallest edits with which a denied request passes: the request with all of them was judged again and allowed. Empty when it
	// isn't denied, and when no such edits are known.
	Changes       []policy.Change `json:"changes"`
	RequestDigest string          `json:"requestDigest"`
	AuditSequence int64           `json:"auditSequence"`
}

// Decide says what policy and this host would say to a request. Nothing is made or started for it; the record says that it was a dry run. The
// error is that of a log that can't be written.
func (s *Service) Decide(ctx context.Context, r policy.Request) (DecideReply, error) {
	r, found, err := s.withImage(r)
	if err != nil {
		return DecideReply{}, err
	}
	explanation := s.engine.Explain(ctx, r)
	reply := DecideReply{Decision: explanation.Decision, Changes: []policy.Change{}, RequestDigest: policy.Digest(r)}
	if explanation.Passes && !reply.Decision.Allow {
		reply.Changes = explanation.Changes
	}
	if reply.Decision.Allow {
		if reply.Refused, err = s.refusedHere(reply.Decision, found); err != nil {
			return reply, err
		}
	}
	record := audit.Record{
		Type: audit.TypeDecision, DryRun: true, Caller: &r.Caller, Request: audit.Describe(r), Decision: recordedDecision(reply.Decision),
	}
	if reply.Refused != nil {
		record.Refused = []policy.Reason{*reply.Refused}
	}
	ctx, cancel := context.WithTimeout(ctx, s.config.RecordTimeout)
	defer cancel()
	reply.AuditSequence, err = s.log.Append(ctx, record)
	return reply, err
}
