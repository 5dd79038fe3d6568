package engine

import (
	"errors"

	"github.com/sandboxd/sandboxd/policy"
)

// inForce puts what the policy named over what was asked, in their Defaulted forms.
func (a answer) inForce(request policy.Request) policy.Effective {
	effective := policy.Effective{
		SecurityContext: request.SecurityContext.Defaulted(),
		Network:         request.Network.Defaulted(),
		Limits:          request.Limits.Defaulted(),
		OnOutputLimit:   a.effective.OnOutputLimit,
		ExplainDenials:  a.effective.ExplainDenials,
	}
	if a.context {
		effective.SecurityContext = overlayContext(effective.SecurityContext, a.effective.SecurityContext).Defaulted()
	}
	if a.network {
		effective.Network = a.effective.Network.Defaulted()
	}
	if a.limits {
		effective.Limits = overlayLimits(effective.Limits, a.effective.Limits)
	}
	return effective
}

// within says in Go what Rego is not trusted with: that nothing is looser than asked.
func within(effective policy.Effective, request policy.Request) *policy.Reason {
	for _, err := range []error{
		policy.Within(effective.SecurityContext, request.SecurityContext.Defaulted()),
		policy.WithinNetwork(effective.Network, request.Network.Defaulted()),
		policy.WithinLimits(effective.Limits, request.Limits.Defaulted()),
	} {
		if err == nil {
			continue
		}
		reason := &policy.Reason{Rule: ruleWidened, Message: "The policy answered with more than was asked for; it may only tighten: " + err.Error() + "."}
		var fault *policy.FieldError
		if errors.As(err, &fault) {
			reason.Field = fault.Field
		}
		return reason
	}
	return nil
}

func overlayContext(under, over policy.SecurityContext) policy.SecurityContext {
	return policy.SecurityContext{
		Privileged:               either(over.Privileged, under.Privileged),
		AllowPrivilegeEscalation: either(over.AllowPrivilegeEscalation, under.AllowPrivilegeEscalation),
		ReadOnlyRootFilesystem:   either(over.ReadOnlyRootFilesystem, under.ReadOnlyRootFilesystem),
		RunAsNonRoot:             either(over.RunAsNonRoot, under.RunAsNonRoot),
		RunAsUser:                either(over.RunAsUser, under.RunAsUser),
		RunAsGroup:               either(over.RunAsGroup, under.RunAsGroup),
		SupplementalGroups:       eitherList(over.SupplementalGroups, under.SupplementalGroups),
		Capabilities:             either(over.Capabilities, under.Capabilities),
		SeccompProfile:           either(over.SeccompProfile, under.SeccompProfile),
		ProcMount:                either(over.ProcMount, under.ProcMount),
	}
}

func overlayLimits(under, over policy.Limits) policy.Limits {
	return policy.Limits{
		TimeoutSeconds: named(over.TimeoutSeconds, under.TimeoutSeconds),
		OutputBytes:    named(over.OutputBytes, under.OutputBytes),
		MemoryBytes:    named(over.MemoryBytes, under.MemoryBytes),
		Pids:           named(over.Pids, under.Pids),
		CPU:            named(over.CPU, under.CPU),
		CPUSeconds:     named(over.CPUSeconds, under.CPUSeconds),
		OpenFiles:      named(over.OpenFiles, under.OpenFiles),
		FileBytes:      named(over.FileBytes, under.FileBytes),
	}
}

func either[T any](over, under *T) *T {
	if over != nil {
		return over
	}
	return under
}

// eitherList tells an empty list, which takes everything away, from none.
func eitherList[T any](over, under []T) []T {
	if over != nil {
		return over
	}
	return under
}

func named[T int64 | float64](over, under T) T {
	if over != 0 {
		return over
	}
	return under
}
