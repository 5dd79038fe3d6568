package workloads

import (
	"time"

	"github.com/sandboxd/sandboxd/execd"
)

// document is the status of a workload.
type document struct {
	ID         string `json:"id"`
	WorkloadID string `json:"workloadId"`
	Name       string `json:"name"`
	Status     string `json:"status"`
	// ExitCode is null until it has ended.
	ExitCode  *int       `json:"exitCode"`
	CreatedAt time.Time  `json:"createdAt"`
	EndedAt   *time.Time `json:"endedAt"`
	// StatusDetails are null until it has ended.
	StatusDetails *details `json:"statusDetails"`
}

// details are what a client of this façade knows besides. LogTail is empty: the whole log can be read.
type details struct {
	LogTail []string `json:"logTail"`
	// Sandboxd is the proof: how it ended in sandboxd's words, by which decision, under which verdict, and where that is recorded.
	Sandboxd proof `json:"sandboxd"`
}

type proof struct {
	Outcome       execd.Outcome `json:"outcome"`
	DecisionID    string        `json:"decisionId"`
	VerdictDigest string        `json:"verdictDigest"`
	Degraded      []string      `json:"degraded"`
	AuditSequence int64         `json:"auditSequence"`
}

func statusOf(w *workload) document {
	now := w.now()
	d := document{ID: w.id, WorkloadID: w.id, Name: w.name, Status: now.status, CreatedAt: w.created.UTC()}
	if now.how == nil || now.how.Failure != nil {
		return d
	}
	d.ExitCode, d.EndedAt = new(now.how.ExitCode), new(now.ended.UTC())
	d.StatusDetails = &details{LogTail: []string{}, Sandboxd: proof{
		Outcome: now.how.Outcome, DecisionID: now.how.DecisionID, VerdictDigest: now.how.VerdictDigest,
		Degraded: append([]string{}, now.how.Degraded...), AuditSequence: now.how.AuditSequence,
	}}
	return d
}
