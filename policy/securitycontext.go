package policy

import (
	"io/fs"
	"slices"
	"strings"
)

// SecurityContext is the Kubernetes container securityContext in its JSON spelling (core/v1 SecurityContext), with supplementalGroups of
// the pod's. A nil field was not asked for; [SecurityContext.Defaulted] says what it means then.
type SecurityContext struct {
	Privileged               *bool `json:"privileged,omitempty"`
	AllowPrivilegeEscalation *bool `json:"allowPrivilegeEscalation,omitempty"`
	ReadOnlyRootFilesystem   *bool `json:"readOnlyRootFilesystem,omitempty"`
	RunAsNonRoot             *bool `json:"runAsNonRoot,omitempty"`
	// RunAsUser and RunAsGroup are ids in 1..2,147,483,647 in force; 0 parses, for policy to refuse. Nil: the sandbox's own unprivileged id.
	RunAsUser          *int64          `json:"runAsUser,omitempty"`
	RunAsGroup         *int64          `json:"runAsGroup,omitempty"`
	SupplementalGroups []int64         `json:"supplementalGroups,omitempty"`
	Capabilities       *Capabilities   `json:"capabilities,omitempty"`
	SeccompProfile     *SeccompProfile `json:"seccompProfile,omitempty"`
	// ProcMount is "Default" or "Unmasked".
	ProcMount *string `json:"procMount,omitempty"`
}

// Capabilities names Linux capabilities, with or without CAP_; "ALL" is every one.
type Capabilities struct {
	Add  []string `json:"add,omitempty"`
	Drop []string `json:"drop,omitempty"`
}

// SeccompProfile is core/v1 SeccompProfile.
type SeccompProfile struct {
	// Type is "RuntimeDefault", "Localhost" or "Unconfined".
	Type string `json:"type"`
	// LocalhostProfile is a file name in the configured profile directory, or a profile that comes with sandboxd ([BuiltinProfiles]); only with type
	// Localhost.
	LocalhostProfile *string `json:"localhostProfile,omitempty"`
}

// The seccomp profile types.
const (
	SeccompRuntimeDefault = "RuntimeDefault"
	SeccompLocalhost      = "Localhost"
	SeccompUnconfined     = "Unconfined"
)

// The kinds of /proc.
const (
	ProcMountDefault  = "Default"
	ProcMountUnmasked = "Unmasked"
)

// What an id and a list of groups may be: largestID is Kubernetes' bound, mostGroups is NGROUPS_MAX.
const (
	largestID  = 1<<31 - 1
	mostGroups = 65536
)

// notEnforced are fields that Kubernetes knows, of containers and pods, and that nothing here holds. Taking them silently would be a control
// that says it is on and isn't.
var notEnforced = map[string]bool{
	"seLinuxOptions": true, "windowsOptions": true, "appArmorProfile": true,
	"fsGroup": true, "fsGroupChangePolicy": true, "sysctls": true, "supplementalGroupsPolicy": true, "seLinuxChangePolicy": true,
	"hostNetwork": true, "hostPID": true, "hostIPC": true, "hostUsers": true, "shareProcessNamespace": true,
}

// Defaulted sets every field: what wasn't asked for gets the safe default, capability names are canonical and sets are sorted. RunAsUser and
// RunAsGroup stay nil where they are, which is the sandbox's own id. An empty drop list was not asked for either: it means ALL.
func (c SecurityContext) Defaulted() SecurityContext {
	capabilities := Capabilities{Drop: []string{CapabilityAll}, Add: []string{}}
	if c.Capabilities != nil {
		capabilities.Add = canonicalCapabilities(c.Capabilities.Add)
		if len(c.Capabilities.Drop) > 0 {
			capabilities.Drop = canonicalCapabilities(c.Capabilities.Drop)
		}
	}
	seccomp := SeccompProfile{Type: SeccompRuntimeDefault}
	if c.SeccompProfile != nil {
		seccomp = c.SeccompProfile.defaulted()
	}
	groups := slices.Clone(c.SupplementalGroups)
	slices.Sort(groups)
	return SecurityContext{
		Privileged:               orDefault(c.Privileged, false),
		AllowPrivilegeEscalation: orDefault(c.AllowPrivilegeEscalation, false),
		ReadOnlyRootFilesystem:   orDefault(c.ReadOnlyRootFilesystem, true),
		RunAsNonRoot:             orDefault(c.RunAsNonRoot, true),
		RunAsUser:                copyOf(c.RunAsUser),
		RunAsGroup:               copyOf(c.RunAsGroup),
		SupplementalGroups:       append([]int64{}, slices.Compact(groups)...),
		Capabilities:             &capabilities,
		SeccompProfile:           &seccomp,
		ProcMount:                orDefault(c.ProcMount, ProcMountDefault),
	}
}

// canonicalNames is what was asked with capability names in their canonical spelling, so that a rule can compare them. Nothing is filled in.
func (c SecurityContext) canonicalNames() SecurityContext {
	if c.Capabilities == nil {
		return c
	}
	named := &Capabilities{}
	if c.Capabilities.Add != nil {
		named.Add = canonicalCapabilities(c.Capabilities.Add)
	}
	if c.Capabilities.Drop != nil {
		named.Drop = canonicalCapabilities(c.Capabilities.Drop)
	}
	c.Capabilities = named
	return c
}

// check says what no SecurityContext may be, whoever made it.
func (c SecurityContext) check(field string) *FieldError {
	for _, id := range []struct {
		name  string
		value *int64
	}{{"runAsUser", c.RunAsUser}, {"runAsGroup", c.RunAsGroup}} {
		if id.value != nil && (*id.value < 0 || *id.value > largestID) {
			return faultf(member(field, id.name), "%d is out of range 0..%d", *id.value, largestID)
		}
	}
	if len(c.SupplementalGroups) > mostGroups {
		return faultf(member(field, "supplementalGroups"), "%d groups, at most %d", len(c.SupplementalGroups), mostGroups)
	}
	for i, group := range c.SupplementalGroups {
		if group < 0 || group > largestID {
			return faultf(element(member(field, "supplementalGroups"), i), "%d is out of range 0..%d", group, largestID)
		}
	}
	if c.Capabilities != nil {
		where := member(field, "capabilities")
		if fault := checkCapabilities(member(where, "add"), c.Capabilities.Add); fault != nil {
			return fault
		}
		if fault := checkCapabilities(member(where, "drop"), c.Capabilities.Drop); fault != nil {
			return fault
		}
	}
	if c.ProcMount != nil {
		if fault := checkEnum(member(field, "procMount"), *c.ProcMount, []string{ProcMountDefault, ProcMountUnmasked}); fault != nil {
			return fault
		}
	}
	if c.SeccompProfile != nil {
		return c.SeccompProfile.check(member(field, "seccompProfile"))
	}
	return nil
}

func (p SeccompProfile) check(field string) *FieldError {
	typeField, nameField := member(field, "type"), member(field, "localhostProfile")
	if p.Type == "" {
		return faultf(typeField, "missing, want one of %s", strings.Join(seccompTypes, ", "))
	}
	if fault := checkEnum(typeField, p.Type, seccompTypes); fault != nil {
		return fault
	}
	if p.Type != SeccompLocalhost {
		if p.LocalhostProfile != nil {
			return faultf(nameField, "only with type %s", SeccompLocalhost)
		}
		return nil
	}
	if p.LocalhostProfile == nil {
		return faultf(nameField, "missing, type %s needs it", SeccompLocalhost)
	}
	name := *p.LocalhostProfile
	if !fs.ValidPath(name) || name == "." || len(name) > longestPath || strings.ContainsFunc(name, isControl) {
		return faultf(nameField, "%s isn't a file name beneath the profile directory", quote(name))
	}
	return nil
}

var seccompTypes = []string{SeccompRuntimeDefault, SeccompLocalhost, SeccompUnconfined}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// orDefault copies what value points to, or the default.
func orDefault[T any](value *T, otherwise T) *T {
	if value != nil {
		otherwise = *value
	}
	return &otherwise
}

func copyOf[T any](value *T) *T {
	if value == nil {
		return nil
	}
	return new(*value)
}
