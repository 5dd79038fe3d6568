package sandboxd

import (
	"context"
	"net/http"
	"net/url"

	"github.com/sandboxd/sandboxd/policy"
)

// VerifyReply is what was read from the kernel, and tried, just now.
type VerifyReply struct {
	// Held says that every verdict below holds, and that forbidden acts were tried.
	Held   bool        `json:"held"`
	Tier   policy.Tier `json:"tier"`
	Kernel string      `json:"kernel"`
	BootID string      `json:"bootId"`
	// Daemon is the service itself.
	Daemon    Proof          `json:"daemon"`
	Sandboxes []SandboxProof `json:"sandboxes"`
	Execs     []ExecProof    `json:"execs"`
	// Probes are forbidden acts, tried now.
	Probes        []PlanProof `json:"probes"`
	AuditSequence int64       `json:"auditSequence"`
}

// SandboxProof is the read-back of one sandbox.
type SandboxProof struct {
	ID      string `json:"id"`
	Verdict Proof  `json:"verdict"`
}

// ExecProof is the read-back of one program that runs.
type ExecProof struct {
	ID      string `json:"id"`
	Sandbox string `json:"sandbox"`
	Verdict Proof  `json:"verdict"`
}

// PlanProof is what came of forbidden acts under one confinement.
type PlanProof struct {
	Plan    string `json:"plan"`
	Verdict Proof  `json:"verdict"`
	// Message says why nothing could be tried.
	Message string `json:"message,omitempty"`
}

// Verify reads everything back that this caller may look at, or one sandbox with what runs in it, and has forbidden acts tried. What doesn't hold is no
// error: see Held. rows asks for every row of the verdicts.
func (c *Client) Verify(ctx context.Context, sandbox string, rows bool) (reply VerifyReply, err error) {
	query := url.Values{}
	if rows {
		query.Set("rows", "true")
	}
	err = c.call(ctx, http.MethodPost, "/v1/verify", query, struct {
		Sandbox string `json:"sandbox,omitempty"`
	}{sandbox}, &reply)
	return reply, err
}
