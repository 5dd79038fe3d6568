package policy

import "encoding/json/jsontext"

// Decision is what policy answers. The zero value denies.
type Decision struct {
	// ID is unique to this decision: 16 random bytes in hex.
	ID    string `json:"id"`
	Allow bool   `json:"allow"`
	// Reasons has every rule that spoke against the request, in rule order; empty when Allow.
	Reasons []Reason `json:"reasons"`
	// Effective is what is in force in place of what was asked; every field is set, and each is as tight as the request's or tighter.
	Effective Effective `json:"effective"`
	// Accept names what the host may lack (such as "cgroup.memory") without refusing the request.
	Accept []string `json:"accept,omitempty"`
	// Labels are the policy's own words for the record.
	Labels map[string]string `json:"labels,omitempty"`
	// Revision is the digest of the bundle that decided: "sha256:" and hex.
	Revision string `json:"revision"`
}

// Reason is one rule's no.
type Reason struct {
	// Rule is the label of the rule, such as "context.capabilities.add".
	Rule string `json:"rule"`
	// Message says what is wrong and what would be allowed, in one sentence.
	Message string `json:"message"`
	// Field is the request's field, such as "securityContext.capabilities.add".
	Field string `json:"field,omitempty"`
	// Change is the smallest change to that field with which this rule would be content.
	Change *Change `json:"change,omitempty"`
}

// Change is an edit to a request: Op "set" puts Value at Field, Op "remove" takes Field out.
type Change struct {
	Op    string         `json:"op"`
	Field string         `json:"field"`
	Value jsontext.Value `json:"value,omitempty"`
}

// Effective is what is in force.
type Effective struct {
	SecurityContext SecurityContext `json:"securityContext"`
	Network         NetworkSpec     `json:"network"`
	Limits          Limits          `json:"limits"`
	// OnOutputLimit is "truncate" (cut and go on) or "kill".
	OnOutputLimit string `json:"onOutputLimit"`
	// ExplainDenials names the system calls that the seccomp filter refuses, whether the caller asked for it or not.
	ExplainDenials bool `json:"explainDenials,omitzero"`
}
