package execd

import (
	"fmt"
	"time"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/policy/engine"
)

// Status is the service's own account.
type Status struct {
	Version string `json:"version"`
	// Ready says that a request would be served; Troubles why not.
	Ready         bool            `json:"ready"`
	Troubles      []string        `json:"troubles"`
	UptimeSeconds float64         `json:"uptimeSeconds"`
	Policy        engine.Status   `json:"policy"`
	Host          HostStatus      `json:"host"`
	Requests      RequestStatus   `json:"requests"`
	Sandboxes     SandboxesStatus `json:"sandboxes"`
	// Interpreters are those that wait for a run.
	Interpreters InterpretersStatus `json:"interpreters"`
	Audit        AuditStatus        `json:"audit"`
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

// HostStatus is what this place lets us enforce.
type HostStatus struct {
	Tier policy.Tier `json:"tier"`
	// Place is "local" where this daemon makes its sandboxes, "attached" where its one sandbox is the container of a launcher that connects.
	Place      string               `json:"place"`
	Kernel     string               `json:"kernel"`
	Arch       string               `json:"arch"`
	UID        int                  `json:"uid"`
	Mechanisms []enforcer.Mechanism `json:"mechanisms"`
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

// InterpretersStatus counts interpreters that were started ahead and wait. Trouble is why the last one of them didn't come to; runs start cold then.
type InterpretersStatus struct {
	Waiting     int    `json:"waiting"`
	MemoryBytes int64  `json:"memoryBytes"`
	Trouble     string `json:"trouble,omitempty"`
}

// AuditStatus is how the log is.
type AuditStatus struct {
	Directory string `json:"directory"`
	Sequence  int64  `json:"sequence"`
	// Anchored is the record of the last signed checkpoint, 0 before the first, AnchoredAt its time. PublicKey is what checkpoints are verified by. Copied says
	// that each line goes to another place too.
	Anchored   int64     `json:"anchored"`
	AnchoredAt time.Time `json:"anchoredAt,omitzero"`
	PublicKey  string    `json:"publicKey"`
	Copied     bool      `json:"copied"`
	Error      string    `json:"error,omitempty"`
}

// Status says how the service is.
func (s *Service) Status() Status {
	ready, kept, quarantined, _ := s.sandboxes.count()
	troubles := s.troubles()
	status := Status{
		Version: s.config.Version, Ready: len(troubles) == 0, Troubles: troubles, UptimeSeconds: time.Since(s.began).Seconds(),
		Policy: s.engine.Status(),
		Host: HostStatus{
			Tier: s.host.Tier(), Place: s.place(), Kernel: s.host.Kernel, Arch: s.host.Arch, UID: s.host.UID, Mechanisms: s.host.Doctor(),
		},
		Requests:  RequestStatus{Running: s.queue.running(), Waiting: s.queue.waiting.Load()},
		Sandboxes: SandboxesStatus{Ready: ready, Kept: kept, Quarantined: quarantined, Drifted: len(s.sandboxes.alive(hasDrifted))},
		Audit:     AuditStatus{Directory: s.log.Dir(), Sequence: s.log.Last(), PublicKey: s.log.PublicKey(), Copied: s.config.AuditCopy != nil},
	}
	status.Audit.Anchored, status.Audit.AnchoredAt = s.log.Anchor()
	status.Proofs = s.proofs.status()
	if s.config.Attach.on() {
		id := s.sandboxes.sharedID()
		status.Launcher = &LauncherStatus{Connected: id != "", Sandbox: id, Socket: s.config.Attach.Socket, UID: s.config.Attach.UID}
	}
	waiting, bytes, trouble := s.interpreters.count()
	status.Interpreters = InterpretersStatus{Waiting: waiting, MemoryBytes: bytes}
	if trouble != nil {
		status.Interpreters.Trouble = sentence(trouble)
	}
	if err := s.log.Err(); err != nil {
		status.Audit.Error = sentence(err)
	}
	return status
}

func (s *Service) place() string {
	if s.config.Attach.on() {
		return "attached"
	}
	return "local"
}

// troubles says what keeps the service from doing its job. A policy that is stale doesn't: the last good one is in force.
func (s *Service) troubles() []string {
	troubles := []string{}
	if s.stopping() {
		troubles = append(troubles, errStopping.Error())
	}
	if err := s.log.Err(); err != nil {
		troubles = append(troubles, fmt.Sprintf("the audit log can't be written: %v", err))
	}
	if _, _, _, err := s.sandboxes.count(); err != nil {
		if s.config.Attach.on() {
			troubles = append(troubles, sentence(err))
		} else {
			troubles = append(troubles, fmt.Sprintf("the last sandbox could not be made: %v", err))
		}
	}
	for _, box := range s.sandboxes.alive(hasDrifted) {
		troubles = append(troubles, fmt.Sprintf("sandbox %s isn't gone yet: %v", box.id, box.drift.Load()))
	}
	return append(troubles, s.proofs.failed()...)
}

func hasDrifted(box *sandbox) bool { return box.drift.Load() != nil }

// Host is what this place can do, as it was found at the start.
func (s *Service) Host() enforcer.Host { return s.host }

// InspectPolicy says whether a directory would be taken as a policy's by who may write it, and why changes of it may not be seen.
func InspectPolicy(dir string) (warnings []string, err error) { return engine.Inspect(dir) }
