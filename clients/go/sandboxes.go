package sandboxd

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/sandboxd/sandboxd/policy"
)

// Sandbox is one that is kept until it is deleted.
type Sandbox struct {
	ID        string    `json:"id"`
	CreatedAt time.Time `json:"createdAt"`
	// Image is what its root is made from; nil: the host's own system directories.
	Image *policy.Image `json:"image,omitempty"`
	// Paused says that nothing runs in it, as its owner wants.
	Paused bool `json:"paused,omitzero"`
	// Verdict is the read-back of its namespaces, root and launcher at its start.
	Verdict Proof `json:"verdict"`
}

// SandboxRequest is what a sandbox is made with; the zero value is one of the host's own directories, without a way out.
type SandboxRequest struct {
	Image           string                  `json:"image,omitempty"`
	SecurityContext *policy.SecurityContext `json:"securityContext,omitzero"`
	Network         *policy.NetworkSpec     `json:"network,omitzero"`
}

// CreateSandbox makes a sandbox. Delete it: the daemon keeps so many and no more.
func (c *Client) CreateSandbox(ctx context.Context, r SandboxRequest) (made Sandbox, err error) {
	err = c.call(ctx, http.MethodPost, "/v1/sandboxes", nil, r, &made)
	return made, err
}

// Sandboxes are this caller's, oldest first.
func (c *Client) Sandboxes(ctx context.Context) ([]Sandbox, error) {
	var list struct {
		Sandboxes []Sandbox `json:"sandboxes"`
	}
	err := c.call(ctx, http.MethodGet, "/v1/sandboxes", nil, nil, &list)
	return list.Sandboxes, err
}

// Sandbox is one of them: [ErrNotFound] when there is none, [ErrConflict] when it has ended or drifted.
func (c *Client) Sandbox(ctx context.Context, id string) (found Sandbox, err error) {
	err = c.call(ctx, http.MethodGet, sandboxPath(id), nil, nil, &found)
	return found, err
}

// DeleteSandbox ends what runs in a sandbox, then the sandbox, and returns when the kernel says that nothing is left.
func (c *Client) DeleteSandbox(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, sandboxPath(id), nil, nil, nil)
}

func sandboxPath(id string) string { return "/v1/sandboxes/" + url.PathEscape(id) }
