package policy

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
	// LocalhostProfile is a file name in the configured profile directory; only with type Localhost.
	LocalhostProfile *string `json:"localhostProfile,omitempty"`
}

// The seccomp profile types.
const (
	SeccompRuntimeDefault = "RuntimeDefault"
	SeccompLocalhost      = "Localhost"
	SeccompUnconfined     = "Unconfined"
)
