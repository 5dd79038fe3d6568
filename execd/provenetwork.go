package execd

import (
	"context"
	"errors"
	"time"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/enforcer/network"
	"github.com/sandboxd/sandboxd/policy"
)

// probeSpec lets one name out that no resolver knows (RFC 6761), so that names and relay of a sandbox serve. The acts ask for nothing that it allows.
var probeSpec = policy.NetworkSpec{
	Egress: []policy.EgressRule{{Action: policy.NetworkAllow, Target: "probe.sandboxd.invalid", Ports: []int{443}}},
}.Defaulted()

// letProbesOut has the network of a fresh sandbox served, for a plan that lets something out: who refuses then are names and relay, not the kernel. A kept
// one has the network that it has.
func (s *Service) letProbesOut(box *sandbox, plan enforcer.Plan) error {
	if plan.Network != enforcer.NetworkRelay {
		return nil
	}
	if box.shared && box.closed() {
		return errors.New("nothing is let out of the shared sandbox now")
	}
	if box.kept {
		return nil
	}
	if box.outlet == nil {
		return enforcer.NoFence(s.host)
	}
	rules, err := network.Compile(probeSpec)
	if err != nil {
		return err
	}
	box.lent, box.used = Self(), true
	box.outlet.probed.Store(true)
	_, err = box.outlet.set(rules)
	return err
}

// relayPlan is the default plan with a network that lets something out; there is none where this host can't hold one.
func (s *Service) relayPlan(ctx context.Context, box *sandbox) (enforcer.Plan, bool) {
	if box == nil || box.outlet == nil || box.outlet.outlets.lack != nil || box.shared && box.closed() {
		return enforcer.Plan{}, false
	}
	decision := s.prover().Decide(ctx, defaultRequest())
	decision.Effective.Network = probeSpec
	plan, err := enforcer.Build(decision, s.host, box.Plan(), s.profiles)
	return plan, err == nil
}

// closed says that the sandbox's own rules let nothing out.
func (box *sandbox) closed() bool {
	if box.outlet == nil {
		return true
	}
	rules, _ := box.outlet.rules()
	return rules.Spec().DenyAll()
}

// proveStart has the default plan, and the same with a network that lets something out, tried when the service begins to serve. It keeps nobody waiting:
// what is found not to hold stops what runs under that plan from then on, and the service isn't ready.
func (s *Service) proveStart() {
	if s.config.ProbeInterval == 0 {
		return
	}
	if err := s.provePlans(); err != nil && s.life.Err() == nil {
		s.logger.Warn("probes: not everything could be tried at the start", "error", err)
	}
}

func (s *Service) provePlans() error {
	box, err := s.sandboxes.take(s.life, "", Self(), rootSpec{})
	if err != nil {
		return err
	}
	plan, err := s.defaultPlan(s.life, box)
	open, there := s.relayPlan(s.life, box)
	s.sandboxes.putBack(box)
	if err != nil {
		return err
	}
	var wrong []error
	for _, one := range []struct {
		plan enforcer.Plan
		is   bool
	}{{plan, true}, {open, there}} {
		if !one.is || s.proofs.fresh(one.plan, time.Now().Add(-s.config.ProbeInterval)) {
			continue
		}
		_, err := s.proveFresh(s.life, one.plan, rootSpec{})
		wrong = append(wrong, err)
	}
	return errors.Join(wrong...)
}
