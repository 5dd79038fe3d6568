package engine

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"maps"
	"slices"

	"github.com/open-policy-agent/opa/v1/rego"

	"github.com/sandboxd/sandboxd/policy"
)

// decide is never an error: whatever goes wrong is a reason against the request. The error is beside it, for the log.
func (g *generation) decide(ctx context.Context, request policy.Request) (policy.Decision, error) {
	v := look(request)
	if decision, known := g.cache.get(v.key); known {
		return g.sign(clone(decision)), nil
	}
	if v.bytes > mostInput {
		return g.sign(deny(policy.Reason{
			Rule:    ruleInput,
			Message: "The request is larger than policy can look at; arguments, names and rules may have 256 KiB together.",
			Field:   largest(v),
		})), nil
	}
	decision, err := g.judge(ctx, v)
	if err != nil {
		// A failure may pass, such as a deadline on a busy machine: not remembered.
		return g.sign(deny(faultReason(err))), err
	}
	if v.bytes <= mostCachedBytes {
		g.cache.add(v.key, clone(decision))
	}
	return g.sign(decision), nil
}

// judge asks Rego and checks the answer.
func (g *generation) judge(ctx context.Context, v view, options ...rego.EvalOption) (policy.Decision, error) {
	value, err := g.watchdog.evaluate(ctx, g.query, document(v), options...)
	if err != nil {
		return policy.Decision{}, err
	}
	return conclude(value, v.request), nil
}

func conclude(value any, request policy.Request) policy.Decision {
	answer, err := readAnswer(value)
	if err != nil {
		return deny(policy.Reason{Rule: ruleType, Message: "The policy's answer has the wrong shape; nothing is allowed by it: " + err.Error() + "."})
	}
	if !answer.allow {
		return policy.Decision{Reasons: answer.reasons, Labels: answer.labels}
	}
	effective := answer.inForce(request)
	if reason := within(effective, request); reason != nil {
		return deny(*reason)
	}
	return policy.Decision{Allow: true, Reasons: []policy.Reason{}, Effective: effective, Accept: answer.accept, Labels: answer.labels}
}

func deny(reasons ...policy.Reason) policy.Decision { return policy.Decision{Reasons: reasons} }

// largest names the field that fills a request that is too large.
func largest(v view) string {
	sizes := []struct {
		field string
		texts []string
	}{
		{"command.argv", v.request.Command.Argv}, {"command.env", v.commandEnv}, {"program.env", v.programEnv},
	}
	field, most := "network.egress", 0
	for _, rule := range v.request.Network.Egress {
		most += len(rule.Action) + len(rule.Target) + 3*len(rule.Ports)
	}
	for _, part := range sizes {
		size := 0
		for _, text := range part.texts {
			size += len(text)
		}
		if size > most {
			field, most = part.field, size
		}
	}
	return field
}

// sign gives a decision its own id.
func (g *generation) sign(decision policy.Decision) policy.Decision {
	decision.ID = newID()
	decision.Revision = g.revision
	return decision
}

func newID() string {
	var id [16]byte
	rand.Read(id[:]) // Never fails: crypto/rand ends the program instead.
	return hex.EncodeToString(id[:])
}

// clone shares nothing with decision, so that whoever gets one may change it.
func clone(decision policy.Decision) policy.Decision {
	decision.Reasons = slices.Clone(decision.Reasons)
	for i, reason := range decision.Reasons {
		if reason.Change != nil {
			change := *reason.Change
			change.Value = slices.Clone(change.Value)
			decision.Reasons[i].Change = &change
		}
	}
	decision.Accept = slices.Clone(decision.Accept)
	decision.Labels = maps.Clone(decision.Labels)
	decision.Effective.SecurityContext = cloneContext(decision.Effective.SecurityContext)
	decision.Effective.Network.Egress = slices.Clone(decision.Effective.Network.Egress)
	for i, rule := range decision.Effective.Network.Egress {
		decision.Effective.Network.Egress[i].Ports = slices.Clone(rule.Ports)
	}
	return decision
}

func cloneContext(c policy.SecurityContext) policy.SecurityContext {
	c.Privileged, c.AllowPrivilegeEscalation = copyOf(c.Privileged), copyOf(c.AllowPrivilegeEscalation)
	c.ReadOnlyRootFilesystem, c.RunAsNonRoot = copyOf(c.ReadOnlyRootFilesystem), copyOf(c.RunAsNonRoot)
	c.RunAsUser, c.RunAsGroup = copyOf(c.RunAsUser), copyOf(c.RunAsGroup)
	c.SupplementalGroups = slices.Clone(c.SupplementalGroups)
	if c.Capabilities != nil {
		c.Capabilities = &policy.Capabilities{Add: slices.Clone(c.Capabilities.Add), Drop: slices.Clone(c.Capabilities.Drop)}
	}
	if c.SeccompProfile != nil {
		c.SeccompProfile = &policy.SeccompProfile{Type: c.SeccompProfile.Type, LocalhostProfile: copyOf(c.SeccompProfile.LocalhostProfile)}
	}
	c.ProcMount = copyOf(c.ProcMount)
	return c
}

func copyOf[T any](value *T) *T {
	if value == nil {
		return nil
	}
	return new(*value)
}
