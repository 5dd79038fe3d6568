package execd

import (
	"context"
	"errors"
	"time"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/execd/image"
	"github.com/sandboxd/sandboxd/policy"
)

// Judge says, before a walk begins, why it would be denied: by policy, or by what this host can't hold. No reasons: it would not be, and the walk
// asks again. It is for a façade that has to answer first. A no is recorded as the walk's own would be; the error is that of a daemon that
// releases nothing now.
func (s *Service) Judge(ctx context.Context, r policy.Request) ([]policy.Reason, error) {
	if err := s.open(); err != nil {
		return nil, err
	}
	began := time.Now()
	r, found, err := s.withImage(r)
	if err != nil {
		return nil, err
	}
	decision := s.engine.Decide(ctx, r)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx) // what a decision says that was broken off says nothing of the request
	}
	record := audit.Record{Type: audit.TypeDecision, Caller: &r.Caller, Request: audit.Describe(r), Decision: recordedDecision(decision)}
	reasons := decision.Reasons
	if decision.Allow {
		refused, err := s.refusedHere(decision, found)
		if refused == nil || err != nil {
			return nil, err
		}
		reasons = []policy.Reason{*refused}
		record.Refused = reasons
	}
	ctx, cancel := context.WithTimeout(ctx, s.config.RecordTimeout)
	defer cancel()
	s.metrics.finished(r.Action, OutcomeDenied, time.Since(began))
	_, err = s.log.Append(ctx, record)
	return reasons, err
}

// refusedHere is what a fresh sandbox on this host can't hold of a decision; nil when it can hold all.
func (s *Service) refusedHere(d policy.Decision, found *image.Image) (*policy.Reason, error) {
	pattern, err := s.pattern, error(nil)
	if found != nil {
		pattern, err = enforcer.BuildSandbox(s.host, s.sandboxes.spec(0, rootOf(found, d)))
	}
	if err == nil {
		_, err = enforcer.Build(d, s.host, pattern, s.profiles)
	}
	var refused *enforcer.RefusedError
	if !errors.As(err, &refused) {
		return nil, err
	}
	reason := refusal(refused)
	return &reason, nil
}

// Admit waits for a place among the execs that run at once, until ctx ends or the service stops. leave gives it back.
func (s *Service) Admit(ctx context.Context) (leave func(), err error) {
	if s.stopping() {
		return nil, errStopping
	}
	q := s.queue
	q.waiting.Add(1)
	defer q.waiting.Add(-1)
	select {
	case q.places <- struct{}{}:
		return func() { <-q.places }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-s.life.Done():
		return nil, errStopping
	}
}
