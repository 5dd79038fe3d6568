package runner

import (
	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/policy"
)

// VerifyFence reads the fence of the sandbox's network back once more: rules, links, routes and sockets. The verdict has no rows where there is no fence.
func (s *Sandbox) VerifyFence() (policy.Verdict, error) {
	verdict := policy.Verdict{Tier: s.config.Host.Tier()}
	if s.fence == nil {
		return verdict, nil
	}
	state, err := s.fence.Observe()
	if err != nil {
		return verdict, err
	}
	namespace := s.state.Namespaces["net"]
	if s.peer != nil { // the daemon's own
		namespace = s.config.Host.Namespaces["net"]
	}
	verdict.Rows = enforcer.CheckFence(s.config.Plan, namespace, state)
	return verdict, nil
}
