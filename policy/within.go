package policy

import "slices"

// Within says whether effective is as tight as requested or tighter, field by field, both in their [SecurityContext.Defaulted] form. It is a
// partial order: what can't be compared (two Localhost profiles of somebody's own) is not within. The error is a *FieldError of the first field that loosens.
func Within(effective, requested SecurityContext) error {
	const field = "securityContext"
	have, asked := effective.Defaulted(), requested.Defaulted()
	// An effective context that isn't one, such as an id of -1, is nothing to compare.
	if fault := have.check(field); fault != nil {
		return fault
	}
	for _, control := range []struct {
		name        string
		have, asked bool
		tight       bool
	}{
		{"privileged", *have.Privileged, *asked.Privileged, false},
		{"allowPrivilegeEscalation", *have.AllowPrivilegeEscalation, *asked.AllowPrivilegeEscalation, false},
		{"readOnlyRootFilesystem", *have.ReadOnlyRootFilesystem, *asked.ReadOnlyRootFilesystem, true},
		{"runAsNonRoot", *have.RunAsNonRoot, *asked.RunAsNonRoot, true},
	} {
		if control.have != control.asked && control.have != control.tight {
			return faultf(member(field, control.name), "%t in force, but %t was asked for", control.have, control.asked)
		}
	}
	if fault := withinID(member(field, "runAsUser"), have.RunAsUser, asked.RunAsUser); fault != nil {
		return fault
	}
	if fault := withinID(member(field, "runAsGroup"), have.RunAsGroup, asked.RunAsGroup); fault != nil {
		return fault
	}
	for _, group := range have.SupplementalGroups {
		if !slices.Contains(asked.SupplementalGroups, group) {
			return faultf(member(field, "supplementalGroups"), "%d in force, but wasn't asked for", group)
		}
	}
	if fault := withinCapabilities(member(field, "capabilities"), *have.Capabilities, *asked.Capabilities); fault != nil {
		return fault
	}
	if fault := withinSeccomp(member(field, "seccompProfile"), *have.SeccompProfile, *asked.SeccompProfile); fault != nil {
		return fault
	}
	if *have.ProcMount != *asked.ProcMount && *have.ProcMount != ProcMountDefault {
		return faultf(member(field, "procMount"), "%s in force, but %s was asked for", *have.ProcMount, *asked.ProcMount)
	}
	return nil
}

// withinID orders ids: root is loosest, then "the sandbox's own" (nil, never root), then each single unprivileged id.
func withinID(field string, have, asked *int64) *FieldError {
	switch {
	case asked != nil && *asked == 0:
		return nil
	case have != nil && *have == 0:
		return faultf(field, "0 in force, but root wasn't asked for")
	case asked == nil:
		return nil
	case have == nil:
		return faultf(field, "the sandbox's own id in force, but %d was asked for", *asked)
	case *have != *asked:
		return faultf(field, "%d in force, but %d was asked for", *have, *asked)
	}
	return nil
}

func withinCapabilities(field string, have, asked Capabilities) *FieldError {
	for _, name := range have.Add {
		if !hasCapability(asked.Add, name) {
			return faultf(member(field, "add"), "%s in force, but wasn't asked for", name)
		}
	}
	for _, name := range asked.Drop {
		if !hasCapability(have.Drop, name) {
			return faultf(member(field, "drop"), "%s was asked for, but isn't in force", name)
		}
	}
	return nil
}

// hasCapability: ALL has every name; every name together isn't ALL, which has those of a newer kernel too.
func hasCapability(set []string, name string) bool {
	return slices.Contains(set, CapabilityAll) || slices.Contains(set, name)
}

// withinSeccomp: any profile is tighter than none, and those that come with sandboxd are in an order. Of two others nothing is known here but whether
// they are the same.
func withinSeccomp(field string, have, asked SeccompProfile) *FieldError {
	if have.String() == asked.String() || asked.Type == SeccompUnconfined && have.Type != SeccompUnconfined {
		return nil
	}
	if name := have.ordered(); name != "" && (name == asked.ordered() || slices.Contains(looser[name], asked.ordered())) {
		return nil
	}
	return faultf(field, "%s in force, but %s was asked for", have, asked)
}

// String is the type, with the profile's name in parentheses.
func (p SeccompProfile) String() string {
	if p.LocalhostProfile == nil {
		return p.Type
	}
	return p.Type + "(" + *p.LocalhostProfile + ")"
}

// WithinLimits says whether every limit of effective is as low as requested's or lower, both in their [Limits.Defaulted] form; 0 is unlimited
// then. The error is a *FieldError of the first one that is higher.
func WithinLimits(effective, requested Limits) error {
	have, asked := effective.Defaulted(), requested.Defaulted()
	for _, row := range limitTable {
		high, most := row.get(have), row.get(asked)
		if most == 0 {
			continue
		}
		// Written so that a NaN isn't within.
		if !(high > 0 && high <= most) {
			return faultf(member("limits", row.name), "%s in force, but %s was asked for", orUnlimited(high), number(most))
		}
	}
	return nil
}

func orUnlimited(value float64) string {
	if value == 0 {
		return "no limit"
	}
	return number(value)
}
