package execd

import (
	"context"
	"errors"

	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/policy"
)

// rejudgeNetworks asks a policy that has just come into force about every network that lets something out. A running exec keeps what it was started
// with; where it may connect to follows policy at once.
func (s *Service) rejudgeNetworks() {
	for _, box := range s.sandboxes.alive(func(box *sandbox) bool { return box.outlet != nil }) {
		box.changing.Lock()
		s.rejudge(box)
		box.changing.Unlock()
	}
}

func (s *Service) rejudge(box *sandbox) {
	rules, _ := box.outlet.rules()
	if rules.Spec().DenyAll() {
		return
	}
	n := &networkWalk{service: s, box: box, request: policy.Request{
		Action: policy.ActionNetwork, Caller: box.user(), Sandbox: box.id, Network: rules.Spec(),
	}}
	ctx, cancel := context.WithTimeout(s.life, s.config.RecordTimeout)
	defer cancel()
	wanted := closedRules
	err := n.decide(ctx)
	if err == nil {
		if wanted, err = s.rulesFor(box, n.decision.Effective.Network); err == nil && wanted.Digest() == rules.Digest() {
			return
		}
	}
	if err != nil {
		wanted = closedRules
	}
	if _, failed := box.outlet.set(wanted); failed != nil {
		if !errors.Is(failed, errShut) {
			s.logger.Error("network: policy was reloaded", "sandbox", box.id, "error", n.shut(failed))
		}
		return
	}
	r := n.line(audit.TypeNetwork)
	r.Message = "policy was reloaded; the network follows it"
	if err != nil {
		r.Message = "policy was reloaded; nothing is let out any more: " + sentence(err)
	}
	if _, err := n.append(r); err != nil {
		s.logger.Error("audit", "type", r.Type, "error", n.shut(err))
	}
}
