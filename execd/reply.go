package execd

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"strings"
	"syscall"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/policy"
)

// Reply is the answer to an exec or a run: what happened, and the proof. Every outcome has this shape.
type Reply struct {
	// ID is the exec's own, 16 random bytes in hex; the audit log uses it too.
	ID      string  `json:"id"`
	Outcome Outcome `json:"outcome"`
	// ExitCode and Signal are the leader's, null when it didn't exit or die so. A run that ran has an exit code always, see runExitCode.
	ExitCode *int `json:"exitCode"`
	Signal   *int `json:"signal"`
	TimedOut bool `json:"timedOut"`
	// OOMKills counts processes of the tree that the kernel killed for memory, the leader or others.
	OOMKills int64 `json:"oomKills"`
	// TreeEmpty is the kernel's word that no process of the exec is left. TreeLeft says why it isn't: what the program left behind lives on, as was asked.
	TreeEmpty bool `json:"treeEmpty"`
	TreeLeft  bool `json:"treeLeft,omitzero"`
	// Stdout is set when what is kept of it is UTF-8, else StdoutBase64 is; so for stderr. Neither is set in the last event of a stream.
	Stdout       *string `json:"stdout,omitzero"`
	StdoutBase64 []byte  `json:"stdoutBase64,omitempty"`
	Stderr       *string `json:"stderr,omitzero"`
	StderrBase64 []byte  `json:"stderrBase64,omitempty"`
	// Truncated says that Bytes, all that was written, is more than what is kept.
	Truncated Truncated `json:"truncated"`
	Bytes     Bytes     `json:"bytes"`
	// DurationSeconds is from the release to the end of the leader; 0 when nothing ran.
	DurationSeconds float64  `json:"durationSeconds"`
	Usage           Usage    `json:"usage"`
	Decision        Judgment `json:"decision"`
	Verdict         Proof    `json:"verdict"`
	// AuditSequence is the record that holds decision and proof: the release, or what stands in its place when nothing was released.
	AuditSequence int64 `json:"auditSequence"`

	// ReturnValue is the value of a run, or of the result marker, as the text that came.
	ReturnValue jsontext.Value `json:"returnValue,omitzero"`
	// ReturnValueHow is "value", "repr", "replaced", "none" or "failed" (run), "marker" or "none" (result marker).
	ReturnValueHow    string `json:"returnValueHow,omitempty"`
	ReturnValueReason string `json:"returnValueReason,omitempty"`
	// pythonValue is the value of a run as Python wrote it.
	pythonValue []byte
	// value has the value when it is too long for memory, and ReturnValue nothing: only for who asked for that ([Options.LongValue]).
	value *Value

	// Outputs are the files that a run has left; nil where there are none.
	Outputs *Outputs `json:"outputs,omitzero"`

	// DeniedCalls are the system calls that the seccomp filter refused, where that was asked for (explainDenials). ENOSYS is not among them: so
	// libraries are told to fall back. DeniedCallsCut says that there were more than are kept or heard of.
	DeniedCalls    []audit.DeniedCall `json:"deniedCalls,omitempty"`
	DeniedCallsCut bool               `json:"deniedCallsCut,omitzero"`

	// Interpreter says of a run whether its interpreter was started for it ("cold") or waited, confined, for a job ("warm").
	Interpreter string `json:"interpreter,omitempty"`

	// Reasons say why a denied request was denied, by policy or by this host.
	Reasons []policy.Reason `json:"reasons,omitempty"`
	// Message says in one sentence what went wrong: not_started, mismatch, cancelled before the release, infra.
	Message string `json:"message,omitempty"`
	// Errno is the error of execve, such as "ENOENT", when the outcome is not_started.
	Errno string `json:"errno,omitempty"`
	// badDirectory says that it was the working directory that couldn't be entered.
	badDirectory bool
}

// BadDirectory says of one that was not_started that it was the working directory that couldn't be entered.
func (r Reply) BadDirectory() bool { return r.badDirectory }

// Truncated and Bytes are per stream.
type Truncated struct {
	Stdout bool `json:"stdout"`
	Stderr bool `json:"stderr"`
}

// Bytes counts what was written to each stream.
type Bytes struct {
	Stdout int64 `json:"stdout"`
	Stderr int64 `json:"stderr"`
}

// Usage is what the leader and the children it waited for have used (getrusage(2)).
type Usage struct {
	CPUSeconds  float64 `json:"cpuSeconds"`
	MaxRSSBytes int64   `json:"maxRSSBytes"`
}

// Judgment is the decision, without what was in force.
type Judgment struct {
	ID       string          `json:"id"`
	Allow    bool            `json:"allow"`
	Reasons  []policy.Reason `json:"reasons"`
	Revision string          `json:"revision"`
}

// Proof is the verdict, without the rows that held unless they were asked for.
type Proof struct {
	Held     bool        `json:"held"`
	Tier     policy.Tier `json:"tier"`
	Evidence Evidence    `json:"evidence"`
	Degraded []string    `json:"degraded"`
	// Digest is that of the whole verdict; empty when nothing was read back.
	Digest string       `json:"digest"`
	Rows   []policy.Row `json:"rows,omitempty"`
}

// Evidence counts rows by how they are known.
type Evidence struct {
	Kernel int `json:"kernel"`
	Probe  int `json:"probe"`
	Report int `json:"report"`
}

// wire is how answers become JSON: a value of a program goes out as it came, also where its keys repeat or its surrogates stand alone.
var wire = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true), jsontext.PreserveRawStrings(true))

// Encode is the reply's JSON, as the API has it, but for a long value.
func (r Reply) Encode() ([]byte, error) { return json.Marshal(r, wire) }

// Value is the value when it is too long for memory, else nil.
func (r Reply) Value() *Value { return r.value }

// Close gives up a long value.
func (r Reply) Close() { r.value.Close() }

// because says why in the reply's own words.
func (r Reply) because(err error) Reply {
	r.Message = sentence(err)
	return r
}

// ExitStatus is what a command line exits with for this reply (DESIGN §8).
func (r Reply) ExitStatus() int {
	switch r.Outcome {
	case OutcomeOK, OutcomeError:
		if r.ExitCode != nil {
			return *r.ExitCode
		}
	case OutcomeSignaled:
		if r.Signal != nil {
			return 128 + *r.Signal
		}
	case OutcomeTimeout:
		return 124
	case OutcomeOOM:
		return 137
	case OutcomeNotStarted:
		// The shell's words: 127 when there is no such program, 126 when it is there and can't be executed.
		if r.Errno == "ENOENT" {
			return 127
		}
		return 126
	case OutcomeCancelled:
		return 130
	}
	return 125
}

// PythonValue is the value of a run as Python wrote it: ReturnValue with NaN, Infinity and -Infinity in place, for clients that expect them; "null"
// where there is none. It isn't in the reply's JSON, which has no such tokens.
func (r Reply) PythonValue() []byte {
	if r.pythonValue == nil {
		return []byte("null")
	}
	return r.pythonValue
}

// Output gives the bytes of both streams back, whichever field they travelled in.
func (r Reply) Output() (stdout, stderr []byte) {
	return streamBytes(r.Stdout, r.StdoutBase64), streamBytes(r.Stderr, r.StderrBase64)
}

func streamBytes(text *string, raw []byte) []byte {
	if text != nil {
		return []byte(*text)
	}
	return raw
}

// asText puts the bytes of a stream in the field they fit: text when they are UTF-8, else raw. A cut through the last character takes the
// rest of it away, so that a cut text stays text.
func asText(data []byte, truncated bool) (text *string, raw []byte) {
	if truncated {
		data = data[:len(data)-partialRune(data)]
	}
	if !utf8.Valid(data) {
		return nil, data
	}
	s := string(data)
	return &s, nil
}

// partialRune is how many bytes at the end of data begin a character and don't end it, 0..3.
func partialRune(data []byte) int {
	for n := 1; n <= min(utf8.UTFMax-1, len(data)); n++ {
		tail := data[len(data)-n:]
		if !utf8.RuneStart(tail[0]) {
			continue
		}
		if tail[0] >= utf8.RuneSelf && !utf8.FullRune(tail) {
			return n
		}
		return 0
	}
	return 0
}

func judgmentOf(d policy.Decision) Judgment {
	return Judgment{ID: d.ID, Allow: d.Allow, Reasons: d.Reasons, Revision: d.Revision}
}

// proofOf sums a verdict of that digest up. Rows that failed are always there; the others on request.
func proofOf(v policy.Verdict, digest string, all bool) Proof {
	count := v.Count()
	proof := Proof{
		Held: v.Held(), Tier: v.Tier, Degraded: v.Degraded, Rows: v.Failed(),
		Evidence: Evidence{
			Kernel: count[policy.EvidenceKernel], Probe: count[policy.EvidenceProbe], Report: count[policy.EvidenceReport],
		},
	}
	if len(v.Rows) > 0 {
		proof.Digest = digest
	}
	if all {
		proof.Rows = v.Rows
	}
	return proof
}

// errnoName is the symbol of an error number in an error chain, or empty.
func errnoName(err error) string {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return ""
	}
	return unix.ErrnoName(errno)
}

// sentence makes a message of an error: text that JSON can hold, of a length that a line can.
func sentence(err error) string {
	const most = 2048
	text := strings.ToValidUTF8(err.Error(), "\uFFFD")
	if len(text) > most {
		text = text[:most-partialRune([]byte(text[:most]))] + "…"
	}
	return text
}
