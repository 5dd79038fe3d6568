package execd

import (
	"context"
	"errors"
	"fmt"

	"github.com/sandboxd/sandboxd/enforcer/network"
	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/policy"
)

// PutNetwork walks a change of a sandbox's network to its end. The caller in it must be the kernel's word.
//
// The walk has one arrow a line. Whatever goes wrong before the change is a no that changes nothing; whatever goes wrong after it shuts the
// sandbox off.
func (s *Service) PutNetwork(ctx context.Context, r policy.Request) (reply NetworkReply, err error) {
	n := &networkWalk{service: s, request: r}
	if err := n.join(); err != nil { // the sandbox, if it is the caller's
		return reply, err
	}
	defer n.leave()

	if err := n.decide(ctx); err != nil { // what is in force
		return reply, n.refused(err)
	}
	if err := n.build(); err != nil { // rules, and a fence that they stand on
		return reply, n.refused(err)
	}
	if err := n.apply(); err != nil {
		return reply, n.shut(err)
	}
	if err := n.check(); err != nil { // the kernel's word
		return reply, n.shut(err)
	}
	if err := n.record(); err != nil { // on the disk
		return reply, n.shut(err)
	}
	if n.box.shared && !n.rules.Spec().DenyAll() { // there is no fresh one to have tried it in before
		s.chores.Go(s.proveStart)
	}
	return n.reply(), nil
}

// networkWalk is one change on its way. Each field is set by the arrow that makes it.
type networkWalk struct {
	service *Service
	request policy.Request
	box     *sandbox

	decision   policy.Decision
	rules      *network.Rules
	generation int64
	verdict    policy.Verdict
	sequence   int64
}

func (n *networkWalk) join() (err error) {
	if n.box, err = n.service.sandboxes.join(n.request.Sandbox, n.request.Caller); err == nil {
		n.box.changing.Lock() // one change at a time: what is checked and recorded is what was applied
	}
	return err
}

func (n *networkWalk) leave() {
	n.box.changing.Unlock()
	n.service.sandboxes.putBack(n.box)
}

func (n *networkWalk) decide(ctx context.Context) (err error) {
	fault("network.decide")
	if n.request, _, err = n.service.withImage(n.request); err != nil {
		return err
	}
	n.decision = n.service.engine.Decide(ctx, n.request)
	if ctx.Err() != nil {
		return ctx.Err() // what a decision says that was broken off says nothing of the request
	}
	if !n.decision.Allow {
		return &deniedError{n.decision.Reasons}
	}
	return nil
}

func (n *networkWalk) build() (err error) {
	fault("network.build")
	n.rules, err = n.service.rulesFor(n.box, n.decision.Effective.Network)
	return asDenied(err)
}

// apply puts the rules in force: from here on they judge, and what no longer fits is cut.
func (n *networkWalk) apply() (err error) {
	fault("network.apply")
	if n.box.outlet != nil {
		n.generation, err = n.box.outlet.set(n.rules)
	}
	return err
}

// check reads the sandbox back, its fence above all.
func (n *networkWalk) check() error {
	fault("network.check")
	var err error
	if n.verdict, err = verifyNetwork(n.box, n.rules); err != nil {
		return &mismatchError{fmt.Errorf("read-back of the network: %w", err)}
	}
	if !n.verdict.Held() {
		return &mismatchError{errors.New("read-back of the network: " + failedRows(n.verdict))}
	}
	return nil
}

func (n *networkWalk) record() (err error) {
	fault("network.record")
	r := n.line(audit.TypeNetwork)
	r.Verdict = recordedVerdict(n.verdict, n.verdict.Digest())
	n.sequence, err = n.append(r)
	fault("network.recorded")
	return err
}

// refused records and answers a no that has changed nothing.
func (n *networkWalk) refused(cause error) error {
	r := n.line(audit.TypeDecision)
	var denied *deniedError
	if errors.As(cause, &denied) {
		if n.decision.Allow {
			r.Refused = denied.reasons
		}
	} else {
		r.Message = sentence(cause)
	}
	if _, err := n.append(r); err != nil {
		return err
	}
	return asRefused(cause)
}

// shut lets nothing out of the sandbox any more, records that, and answers why.
func (n *networkWalk) shut(cause error) error {
	if n.box.outlet != nil {
		n.box.outlet.shutOff()
	}
	r := n.line(audit.TypeMismatch)
	r.Verdict, r.Message = recordedVerdict(n.verdict, n.verdict.Digest()), sentence(cause)
	if _, err := n.append(r); err != nil {
		return errors.Join(cause, err)
	}
	return cause
}

func (n *networkWalk) line(kind audit.Type) audit.Record {
	return audit.Record{
		Type: kind, Sandbox: n.request.Sandbox, Caller: &n.request.Caller, Request: audit.Describe(n.request), Decision: recordedDecision(n.decision),
	}
}

func (n *networkWalk) append(r audit.Record) (int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), n.service.config.RecordTimeout)
	defer cancel()
	return n.service.log.Append(ctx, r)
}
