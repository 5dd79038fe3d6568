package sandboxd

import (
	"context"
	"net/http"
	"time"

	"github.com/sandboxd/sandboxd/policy"
)

// Status is the daemon's own account.
type Status struct {
	Version string `json:"version"`
	// Ready says that a request would be served; Troubles why not.
	Ready         bool               `json:"ready"`
	Troubles      []string           `json:"troubles"`
	UptimeSeconds float64            `json:"uptimeSeconds"`
	Policy        PolicyStatus       `json:"policy"`
	Host          HostStatus         `json:"host"`
	Requests      RequestStatus      `json:"requests"`
	Sandboxes     SandboxesStatus    `json:"sandboxes"`
	Interpreters  InterpretersStatus `json:"interpreters"`
	Audit         AuditStatus        `json:"audit"`
	// Launcher is there where one connects.
	Launcher *LauncherStatus `json:"launcher,omitempty"`
	Proofs   ProofsStatus    `json:"proofs"`
}

// LauncherStatus is the launcher that somebody else starts.
type LauncherStatus struct {
	Connected bool `json:"connected"`
	// Sandbox is the one that it is in, empty while it isn't connected.
	Sandbox string `json:"sandbox,omitempty"`
	// Socket is where it is waited for, UID whose process it must be.
	Socket string `json:"socket"`
	UID    int    `json:"uid"`
}

// ProofsStatus counts proofs by forbidden acts of the plans that are in use.
type ProofsStatus struct {
	Plans  int `json:"plans"`
	Held   int `json:"held"`
	Failed int `json:"failed"`
	// OldestAt is when the oldest of those that hold was made.
	OldestAt time.Time `json:"oldestAt,omitzero"`
}

// PolicyStatus is the bundle in force. Stale: the directory has another, which could not be activated, for the reason in Error.
type PolicyStatus struct {
	Revision string    `json:"revision"`
	LoadedAt time.Time `json:"loadedAt"`
	Stale    bool      `json:"stale"`
	Error    string    `json:"error,omitempty"`
	Warnings []string  `json:"warnings,omitempty"`
	// Unbound: there is none yet, and everything is denied until one is bound.
	Unbound bool `json:"unbound,omitzero"`
}

// HostStatus is what the daemon's place lets it enforce.
type HostStatus struct {
	Tier policy.Tier `json:"tier"`
	// Place is "local" where the daemon makes its sandboxes, "attached" where its one sandbox is the container of a launcher that connects.
	Place      string      `json:"place"`
	Kernel     string      `json:"kernel"`
	Arch       string      `json:"arch"`
	UID        int         `json:"uid"`
	Mechanisms []Mechanism `json:"mechanisms"`
}

// Mechanism is one of them, with how to get it where it is missing.
type Mechanism struct {
	Name     string `json:"name"`
	Have     bool   `json:"have"`
	Detail   string `json:"detail"`
	HowToGet string `json:"howToGet,omitempty"`
}

// RequestStatus counts requests now.
type RequestStatus struct {
	Running int   `json:"running"`
	Waiting int64 `json:"waiting"`
}

// SandboxesStatus counts sandboxes now.
type SandboxesStatus struct {
	Ready       int `json:"ready"`
	Kept        int `json:"kept"`
	Quarantined int `json:"quarantined"`
	Drifted     int `json:"drifted"`
}

// InterpretersStatus counts interpreters that wait for a run. Trouble is why the last one didn't come to; runs start cold then.
type InterpretersStatus struct {
	Waiting     int    `json:"waiting"`
	MemoryBytes int64  `json:"memoryBytes"`
	Trouble     string `json:"trouble,omitempty"`
}

// AuditStatus is how the audit log is.
type AuditStatus struct {
	Directory string `json:"directory"`
	Sequence  int64  `json:"sequence"`
	Error     string `json:"error,omitempty"`
	// Anchored is the record of the last signed checkpoint, 0 before the first, AnchoredAt its time. PublicKey is what checkpoints are verified by. Copied says
	// that each line goes to another place too.
	Anchored   int64     `json:"anchored"`
	AnchoredAt time.Time `json:"anchoredAt,omitzero"`
	PublicKey  string    `json:"publicKey"`
	Copied     bool      `json:"copied"`
}

// Status asks the daemon how it is.
func (c *Client) Status(ctx context.Context) (reply Status, err error) {
	err = c.call(ctx, http.MethodGet, "/v1/status", nil, nil, &reply)
	return reply, err
}

// Ready is nil when the daemon serves requests, else an error that says why not.
func (c *Client) Ready(ctx context.Context) error {
	return c.call(ctx, http.MethodGet, "/readyz", nil, nil, nil)
}
