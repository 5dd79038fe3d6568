package sandboxd

import (
	"context"
	"net/http"
	"net/url"

	"github.com/sandboxd/sandboxd/policy"
)

// NetworkReply is a sandbox's way out: what is in force, what is wanted and what was proven of it just now.
type NetworkReply struct {
	Sandbox string `json:"sandbox"`
	// Mode is "relay": every connection goes through the daemon; or "none": there is no way out at all.
	Mode    string             `json:"mode"`
	Network policy.NetworkSpec `json:"network"`
	Wanted  NetworkRevision    `json:"wanted"`
	Proven  NetworkRevision    `json:"proven"`
	// TightenedBy are the execs that run and let out less.
	TightenedBy []string `json:"tightenedBy"`
	Connections int64    `json:"connections"`
	Verdict     Proof    `json:"verdict"`
	// Decision and AuditSequence are of a change only.
	Decision      *policy.Decision `json:"decision,omitempty"`
	AuditSequence int64            `json:"auditSequence,omitzero"`
}

// NetworkRevision names rules: the Generation counts the changes of a sandbox's network.
type NetworkRevision struct {
	Generation int64  `json:"generation"`
	Digest     string `json:"digest"`
}

// Network reads a sandbox's way out back.
func (c *Client) Network(ctx context.Context, sandbox string) (reply NetworkReply, err error) {
	err = c.call(ctx, http.MethodGet, "/v1/network", url.Values{"sandbox": {sandbox}}, nil, &reply)
	return reply, err
}

// SetNetwork changes a sandbox's way out. It is in force and proven when this returns, and connections that no longer fit are cut.
func (c *Client) SetNetwork(ctx context.Context, sandbox string, spec policy.NetworkSpec) (reply NetworkReply, err error) {
	err = c.call(ctx, http.MethodPut, "/v1/network", url.Values{"sandbox": {sandbox}}, spec, &reply)
	return reply, err
}
