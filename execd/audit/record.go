package audit

import (
	"encoding/json/jsontext"
	"slices"

	"github.com/sandboxd/sandboxd/policy"
)

// Type is what a record is about.
type Type string

// The types.
const (
	TypeStart       Type = "start"       // a daemon has begun
	TypeStop        Type = "stop"        // it has ended on purpose
	TypeDecision    Type = "decision"    // policy was asked and nothing is released by it: denied, or a dry run
	TypeRelease     Type = "release"     // decision and proof of an exec; durable before its first instruction
	TypePrewarm     Type = "prewarm"     // an interpreter is started ahead of a job, durable before; or one that got none was ended. No caller's code is released by it
	TypeMismatch    Type = "mismatch"    // read-back failed; nothing was released, or it was killed at once
	TypeOutcome     Type = "outcome"     // how an exec ended
	TypeInterrupted Type = "interrupted" // an exec whose release is in the log and whose outcome never will be: its daemon died
	TypeLeft        Type = "left"        // what a program left behind in its sandbox, as was asked, has ended
	TypeSandbox     Type = "sandbox"     // a sandbox was made or closed at a caller's wish
	TypeNetwork     Type = "network"     // a sandbox's network was changed, and read back
	TypeEgress      Type = "egress"      // a program asked for a name or a connection that it may not have, or a connection ended or was cut
	TypeDrift       Type = "drift"       // what held when it was started or made no longer does
	TypeVerify      Type = "verify"      // forbidden acts are about to be tried under a plan, or were; or all was read back on demand
	TypeReload      Type = "reload"      // policy was reloaded, or couldn't be
	TypeBind        Type = "bind"        // a daemon that had no policy was given one, for good
	TypeRefused     Type = "refused"     // a connection of a stranger was closed, or a policy wasn't bound
	TypeRotate      Type = "rotate"      // the first record of a file that goes on after another
	TypeTorn        Type = "torn"        // the end of the file was cut off since it was no whole record
	TypeReopen      Type = "reopen"      // the log is written again after an error
	TypeCheckpoint  Type = "checkpoint"  // a signed checkpoint on all records before it
)

// Types are all of them.
func Types() []string {
	list := make([]string, len(types))
	for i, t := range types {
		list[i] = string(t)
	}
	return list
}

var types = []Type{
	TypeStart, TypeStop, TypeDecision, TypeRelease, TypePrewarm, TypeMismatch, TypeOutcome, TypeInterrupted, TypeLeft, TypeSandbox, TypeNetwork, TypeEgress, TypeDrift,
	TypeVerify, TypeReload, TypeRefused, TypeRotate, TypeTorn, TypeReopen, TypeCheckpoint,
}

// Known says that it is a type of ours.
func (t Type) Known() bool { return slices.Contains(types, t) }

// Record is one event. Its line in the log has seq, time and prev before these fields, and hash after them. There is no field for an
// environment value, for input, output or source code: digests and sizes stand for them.
type Record struct {
	Type Type `json:"type"`
	// Exec is the exec's id, Sandbox the sandbox's.
	Exec    string         `json:"exec,omitempty"`
	Sandbox string         `json:"sandbox,omitempty"`
	Caller  *policy.Caller `json:"caller,omitempty"`
	// Context is the exec of the interpreter that a cell of code was for, of a code context.
	Context string `json:"context,omitempty"`
	// DryRun marks a decision that was asked for its own sake.
	DryRun  bool     `json:"dryRun,omitzero"`
	Request *Request `json:"request,omitempty"`

	Decision *Decision `json:"decision,omitempty"`
	// Refused says what this host can't hold of what policy allows.
	Refused []policy.Reason `json:"refused,omitempty"`
	// PlanDigest and Verdict are the proof.
	PlanDigest string   `json:"planDigest,omitempty"`
	Verdict    *Verdict `json:"verdict,omitempty"`

	// Prewarm is the interpreter that was started ahead: of a prewarm record, and of the release of a run that got one.
	Prewarm *Prewarm `json:"prewarm,omitempty"`
	Ending  *Ending  `json:"ending,omitempty"`
	// Egress is what a program did with its network.
	Egress *Egress `json:"egress,omitempty"`
	// Message is for people: what an error said.
	Message string `json:"message,omitempty"`
	// Daemon is set in start records.
	Daemon *Daemon `json:"daemon,omitempty"`
	// Seam is set in rotate, torn and reopen records.
	Seam *Seam `json:"seam,omitempty"`
	// Checkpoint is set in checkpoint records.
	Checkpoint *Checkpoint `json:"checkpoint,omitempty"`
}

// Request describes what was asked without anything that may be secret; [Describe] makes it.
type Request struct {
	Action policy.Action `json:"action"`
	// Image is what the root was to be made from, nil for the host's own.
	Image *policy.Image `json:"image,omitempty"`
	// Digest is that of the whole request.
	Digest string `json:"digest"`
	// Argv is redacted.
	Argv     []string `json:"argv,omitempty"`
	EnvNames []string `json:"envNames,omitempty"`
	Cwd      string   `json:"cwd,omitempty"`
	Stdin    *Blob    `json:"stdin,omitempty"`
	Language string   `json:"language,omitempty"`
	Code     *Blob    `json:"code,omitempty"`
	Inputs   *Blob    `json:"inputs,omitempty"`
	File     *File    `json:"file,omitempty"`
}

// File is what was asked to be done with which file. The paths are redacted.
type File struct {
	Operation policy.FileOperation `json:"operation"`
	Path      string               `json:"path"`
	Mode      *int64               `json:"mode,omitempty"`
	// Follow says that links in the paths were followed; To is where it was moved.
	Follow bool   `json:"follow,omitzero"`
	To     string `json:"to,omitempty"`
}

// Blob stands for bytes.
type Blob struct {
	Bytes  int64  `json:"bytes"`
	Digest string `json:"digest"`
}

// Decision is what policy said.
type Decision struct {
	ID       string            `json:"id"`
	Allow    bool              `json:"allow"`
	Reasons  []policy.Reason   `json:"reasons,omitempty"`
	Accept   []string          `json:"accept,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Revision string            `json:"revision"`
	// Effective is what is in force, as canonical JSON.
	Effective jsontext.Value `json:"effective,omitempty"`
}

// Verdict is the proof in short; rows are there when they failed.
type Verdict struct {
	Held     bool                    `json:"held"`
	Tier     policy.Tier             `json:"tier"`
	Digest   string                  `json:"digest"`
	Evidence map[policy.Evidence]int `json:"evidence"`
	Degraded []string                `json:"degraded,omitempty"`
	Failed   []policy.Row            `json:"failed,omitempty"`
}

// Ending is how an exec ended. Digests are of what was kept of the streams.
type Ending struct {
	Outcome   string `json:"outcome"`
	ExitCode  *int   `json:"exitCode"`
	Signal    *int   `json:"signal"`
	OOMKills  int64  `json:"oomKills,omitzero"`
	TreeEmpty bool   `json:"treeEmpty"`
	// TreeLeft says that processes of the tree live on in their sandbox, as was asked; a record of the type "left" says when they are gone, or,
	// of a cell, the outcome of its interpreter.
	TreeLeft        bool    `json:"treeLeft,omitzero"`
	DurationSeconds float64 `json:"durationSeconds"`
	CPUSeconds      float64 `json:"cpuSeconds"`
	MaxRSSBytes     int64   `json:"maxRSSBytes"`
	Stdout          *Blob   `json:"stdout,omitempty"`
	Stderr          *Blob   `json:"stderr,omitempty"`
	// Content is what a file operation moved.
	Content *Blob `json:"content,omitempty"`
	// DeniedCalls are there where they were asked for; DeniedCallsCut says that there were more.
	DeniedCalls    []DeniedCall `json:"deniedCalls,omitempty"`
	DeniedCallsCut bool         `json:"deniedCallsCut,omitzero"`
}

// Prewarm names an interpreter that was started ahead.
type Prewarm struct {
	// Exec is its own id, and Sequence the record of its start, 0 where it is that record itself.
	Exec     string   `json:"exec"`
	Sequence int64    `json:"sequence,omitzero"`
	Imports  []string `json:"imports,omitempty"`
}

// Egress is a name that was asked for, or a connection. The record's Exec is set where only one program ran in the sandbox.
type Egress struct {
	// Event is "denied", "failed" (allowed, and nobody answered), "cut" or, where that is asked for, "ended".
	Event string `json:"event"`
	// Name is what was asked for or is behind Destination, as the program spelt it; Query is the type of a DNS query, empty for a connection.
	Name  string `json:"name,omitempty"`
	Query string `json:"query,omitempty"`
	// Destination is what the program connected to, Dialed what we did, each address and port; what it asked the proxy for by its name is name and port.
	Destination string `json:"destination,omitempty"`
	// Protocol is "udp" of a flow of datagrams, and empty of TCP.
	Protocol string `json:"protocol,omitempty"`
	Dialed   string `json:"dialed,omitempty"`
	// Rule is the index in network.egress of the rule that decided; -1 is the default action, -2 a kind of address that no rule opens, -3 what
	// isn't a rule's to decide.
	Rule   int    `json:"rule"`
	Reason string `json:"reason,omitempty"`
	// Suppressed is how many such events before this one were not recorded, since there were too many.
	Suppressed int `json:"suppressed,omitzero"`
	// SentBytes went out, ReceivedBytes came in.
	SentBytes       int64   `json:"sentBytes,omitzero"`
	ReceivedBytes   int64   `json:"receivedBytes,omitzero"`
	DurationSeconds float64 `json:"durationSeconds,omitzero"`
}

// DeniedCall is a system call that the seccomp filter refused, as often as it was tried.
type DeniedCall struct {
	Call string `json:"call"`
	Nr   int    `json:"nr"`
	// Args are the arguments that tell such calls apart, as a profile writes them: the family of a socket, the request of an ioctl.
	Args  []DeniedArg `json:"args,omitempty"`
	Count int64       `json:"count"`
	// Errno is what the program got.
	Errno string `json:"errno"`
	// Profile is the tightest profile of sandboxd that would allow it, null where none does.
	Profile *policy.SeccompProfile `json:"profile"`
	// Remedy says in one sentence what would allow it, or why nothing does.
	Remedy string `json:"remedy"`
}

// DeniedArg is one argument.
type DeniedArg struct {
	Index int    `json:"index"`
	Value uint64 `json:"value"`
}

// Daemon is who writes.
type Daemon struct {
	Version  string `json:"version"`
	PID      int    `json:"pid"`
	UID      int    `json:"uid"`
	Kernel   string `json:"kernel"`
	BootID   string `json:"bootId"`
	Tier     string `json:"tier"`
	Revision string `json:"revision"`
}

// Seam says what a record joins.
type Seam struct {
	// File is the file before this one, Sequence its last record.
	File     string `json:"file,omitempty"`
	Sequence int64  `json:"sequence,omitzero"`
	// CutBytes were taken off the end of File, with this digest.
	CutBytes  int64  `json:"cutBytes,omitzero"`
	CutDigest string `json:"cutDigest,omitempty"`
}
