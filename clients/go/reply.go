package sandboxd

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"time"

	"github.com/sandboxd/sandboxd/policy"
)

// Outcome is the one word that says how an exec or a run ended.
type Outcome string

// The outcomes. The first three are ends of the program's own; the others come with an error.
const (
	OutcomeOK          Outcome = "ok"       // exit 0
	OutcomeError       Outcome = "error"    // exit n ≠ 0
	OutcomeSignaled    Outcome = "signaled" // a signal that sandboxd didn't send
	OutcomeTimeout     Outcome = "timeout"
	OutcomeOOM         Outcome = "oom"
	OutcomeOutputLimit Outcome = "output_limit"
	OutcomeDenied      Outcome = "denied"
	OutcomeMismatch    Outcome = "mismatch"
	OutcomeNotStarted  Outcome = "not_started"
	OutcomeCancelled   Outcome = "cancelled"
	OutcomeInfra       Outcome = "infra"
)

// Reply is the answer to an exec or a run: what happened, and the proof.
type Reply struct {
	// ID is in the audit log too.
	ID      string  `json:"id"`
	Outcome Outcome `json:"outcome"`
	// ExitCode and Signal are the leader's, nil when it didn't exit or die so. A run that ran always has an exit code: 124 at its limit, 137 when it was
	// killed for memory, 128+n when it died by signal n.
	ExitCode *int `json:"exitCode"`
	Signal   *int `json:"signal"`
	TimedOut bool `json:"timedOut"`
	// OOMKills counts the processes that the kernel killed for memory.
	OOMKills int64 `json:"oomKills"`
	// TreeEmpty is the kernel's word that no process is left; TreeLeft, that some were to be left (leaveChildren).
	TreeEmpty bool `json:"treeEmpty"`
	TreeLeft  bool `json:"treeLeft,omitzero"`
	// The output, in whichever field it travels: see [Reply.Output]. Nil in the reply of a stream.
	Stdout       *string `json:"stdout,omitzero"`
	StdoutBase64 []byte  `json:"stdoutBase64,omitempty"`
	Stderr       *string `json:"stderr,omitzero"`
	StderrBase64 []byte  `json:"stderrBase64,omitempty"`
	// Truncated says that Bytes, all that was written, is more than what is kept.
	Truncated       Streams[bool]  `json:"truncated"`
	Bytes           Streams[int64] `json:"bytes"`
	DurationSeconds float64        `json:"durationSeconds"`
	Usage           Usage          `json:"usage"`
	Decision        Judgment       `json:"decision"`
	Verdict         Proof          `json:"verdict"`
	// AuditSequence is the record that holds decision and proof.
	AuditSequence int64 `json:"auditSequence"`

	// ReturnValue is the value of a run, or of the result marker, as the text that came: see [Reply.Value]. How it was obtained is "value", "repr",
	// "replaced", "none", "failed" or "marker"; the reason says why it isn't "value".
	ReturnValue       jsontext.Value `json:"returnValue,omitzero"`
	ReturnValueHow    string         `json:"returnValueHow,omitempty"`
	ReturnValueReason string         `json:"returnValueReason,omitempty"`
	// Interpreter is "warm" or "cold", of a run that ran.
	Interpreter string `json:"interpreter,omitempty"`
	// Outputs are the files that a run has left; nil where there are none.
	Outputs *Outputs `json:"outputs,omitzero"`

	// DeniedCalls are system calls that were refused, where ExplainDenials asked; Cut says that there were more.
	DeniedCalls    []DeniedCall `json:"deniedCalls,omitempty"`
	DeniedCallsCut bool         `json:"deniedCallsCut,omitzero"`
	// Reasons say why a request was denied.
	Reasons []policy.Reason `json:"reasons,omitempty"`
	// Message says in a sentence what went wrong; Errno why a program could not be executed, such as "ENOENT".
	Message string `json:"message,omitempty"`
	Errno   string `json:"errno,omitempty"`
}

// Output is what was written to both streams, as bytes.
func (r Reply) Output() (stdout, stderr []byte) {
	return bytesOf(r.Stdout, r.StdoutBase64), bytesOf(r.Stderr, r.StderrBase64)
}

func bytesOf(text *string, raw []byte) []byte {
	if text != nil {
		return []byte(*text)
	}
	return raw
}

// Value decodes the value of a run into what to points to, as encoding/json/v2 does, but that keys may repeat (the last one counts).
func (r Reply) Value(to any) error {
	return json.Unmarshal(r.ReturnValue, to, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// err is what the outcome is as an error.
func (r Reply) err() error {
	if outcomes[r.Outcome] == nil {
		return nil
	}
	return &ReplyError{r}
}

// Streams is something of stdout and of stderr.
type Streams[T any] struct {
	Stdout T `json:"stdout"`
	Stderr T `json:"stderr"`
}

// Usage is what the leader and the children that it waited for have used.
type Usage struct {
	CPUSeconds  float64 `json:"cpuSeconds"`
	MaxRSSBytes int64   `json:"maxRSSBytes"`
}

// Judgment is a decision, without what was in force.
type Judgment struct {
	ID       string          `json:"id"`
	Allow    bool            `json:"allow"`
	Reasons  []policy.Reason `json:"reasons"`
	Revision string          `json:"revision"`
}

// Proof is a verdict. Rows are those that failed, or all of them where they were asked for.
type Proof struct {
	Held     bool                 `json:"held"`
	Tier     policy.Tier          `json:"tier"`
	Evidence policy.EvidenceCount `json:"evidence"`
	// Degraded is what the host lacks and policy accepted.
	Degraded []string     `json:"degraded"`
	Digest   string       `json:"digest"`
	Rows     []policy.Row `json:"rows,omitempty"`
}

// Outputs are the regular files that a run has left in outputs/.
type Outputs struct {
	// Directory is where they are in the sandbox: [Client.OpenFile] has them there in one that is kept.
	Directory string   `json:"directory"`
	Files     []Output `json:"files"`
	Truncated bool     `json:"truncated"`
	// Message says why nothing could be listed.
	Message string `json:"message,omitempty"`
}

// Output is one of them. A program chose its path: it may say anything, though never "..".
type Output struct {
	// Path is relative; PathBase64 stands in its place when it isn't UTF-8.
	Path       string    `json:"path,omitempty"`
	PathBase64 []byte    `json:"pathBase64,omitempty"`
	Size       int64     `json:"size"`
	Mode       string    `json:"mode"`
	ModifiedAt time.Time `json:"modifiedAt"`
	// Content is nil where it wasn't asked for or had no room.
	Content []byte `json:"contentBase64,omitzero"`
}

// DeniedCall is a system call that the seccomp filter refused, as often as it did, and what would allow it.
type DeniedCall struct {
	Call    string                 `json:"call"`
	Nr      int                    `json:"nr"`
	Args    []DeniedArg            `json:"args,omitempty"`
	Count   int64                  `json:"count"`
	Errno   string                 `json:"errno"`
	Profile *policy.SeccompProfile `json:"profile"`
	Remedy  string                 `json:"remedy"`
}

// DeniedArg is an argument that tells such calls apart.
type DeniedArg struct {
	Index int    `json:"index"`
	Value uint64 `json:"value"`
}
