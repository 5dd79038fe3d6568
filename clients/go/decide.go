package sandboxd

import (
	"context"
	"net/http"

	"github.com/sandboxd/sandboxd/policy"
)

// DecideReply is what policy and the daemon's host would say to a request.
type DecideReply struct {
	Decision policy.Decision `json:"decision"`
	// Refused is what the host can't hold of what policy allows; nil when it can hold all.
	Refused *policy.Reason `json:"refused"`
	// Changes are the smallest edits with which a denied request passes.
	Changes       []policy.Change `json:"changes"`
	RequestDigest string          `json:"requestDigest"`
	AuditSequence int64           `json:"auditSequence"`
}

// DecideExec asks without running anything. A no is no error: see Decision.Allow and Refused.
func (c *Client) DecideExec(ctx context.Context, r ExecRequest) (reply DecideReply, err error) {
	err = c.call(ctx, http.MethodPost, "/v1/decide", nil, struct {
		Action policy.Action `json:"action"`
		ExecRequest
	}{policy.ActionExec, r}, &reply)
	return reply, err
}

// DecideRun asks without running anything.
func (c *Client) DecideRun(ctx context.Context, r RunRequest) (reply DecideReply, err error) {
	err = c.call(ctx, http.MethodPost, "/v1/decide", nil, struct {
		Action policy.Action `json:"action"`
		RunRequest
	}{policy.ActionRun, r}, &reply)
	return reply, err
}

// DecideFile asks without touching anything.
func (c *Client) DecideFile(ctx context.Context, sandbox string, f policy.File) (reply DecideReply, err error) {
	err = c.call(ctx, http.MethodPost, "/v1/decide", nil, struct {
		Action  policy.Action `json:"action"`
		Sandbox string        `json:"sandbox"`
		File    policy.File   `json:"file"`
	}{policy.ActionFile, sandbox, f}, &reply)
	return reply, err
}
