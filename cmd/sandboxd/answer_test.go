package main

import (
	"bytes"
	"encoding/json/jsontext"
	"strings"
	"syscall"
	"testing"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/policy"
)

// Every outcome but the program's own two says on stderr what happened; a silent 125 would be a riddle.
func TestNotes(t *testing.T) {
	term, sys := int(syscall.SIGTERM), int(syscall.SIGSYS)
	for _, test := range []struct {
		name  string
		reply execd.Reply
		want  string // all lines, joined by |
	}{
		{"ok is silent", execd.Reply{Outcome: execd.OutcomeOK, TreeEmpty: true}, ""},
		{"error is silent", execd.Reply{Outcome: execd.OutcomeError, TreeEmpty: true}, ""},
		{"signal", execd.Reply{Outcome: execd.OutcomeSignaled, Signal: &term, TreeEmpty: true}, "ended by SIGTERM"},
		{"filter", execd.Reply{Outcome: execd.OutcomeSignaled, Signal: &sys, TreeEmpty: true}, "ended by SIGSYS: it made a system call that the seccomp profile kills for"},
		{"timeout", execd.Reply{Outcome: execd.OutcomeTimeout, DurationSeconds: 1.5, TreeEmpty: true}, "timeout: killed after 1.5 s; --timeout gives more"},
		{"tree not empty", execd.Reply{Outcome: execd.OutcomeTimeout, DurationSeconds: 1},
			"timeout: killed after 1 s; --timeout gives more|processes of this exec may still be there: the kernel did not say that all are gone"},
		{"oom", execd.Reply{Outcome: execd.OutcomeOOM, TreeEmpty: true}, "oom: the kernel killed it for memory; limits.memoryBytes gives more"},
		{"output limit", execd.Reply{Outcome: execd.OutcomeOutputLimit, TreeEmpty: true}, "output_limit: killed, since it wrote more than limits.outputBytes"},
		{"denied", execd.Reply{Outcome: execd.OutcomeDenied, Reasons: []policy.Reason{{Message: "no."}, {Message: "nor that."}}},
			"denied: no (and 1 more); --explain prints the change that would pass"},
		{"denied without a reason", execd.Reply{Outcome: execd.OutcomeDenied}, "denied: policy gave no reason"},
		{"mismatch", execd.Reply{Outcome: execd.OutcomeMismatch, Verdict: execd.Proof{Rows: []policy.Row{{Control: "a", Want: "1", Got: "1", Held: true}, {Control: "b", Want: "1", Got: "0"}}}},
			"mismatch: b is 0, not 1; nothing was run"},
		{"many", execd.Reply{Outcome: execd.OutcomeMismatch, DurationSeconds: 1, Verdict: execd.Proof{Rows: []policy.Row{{Control: "a"}, {Control: "b"}, {Control: "c"}, {Control: "d"}, {Control: "e"}}}},
			"mismatch: a is , not , b is , not , c is , not , and 2 more; it was killed at once"},
		{"no program", execd.Reply{Outcome: execd.OutcomeNotStarted, Errno: "ENOENT", Message: "prog: no such file or directory"},
			"not_started: prog: no such file or directory; a sandbox sees the system directories, /tmp, /work and what --show names"},
		{"not started", execd.Reply{Outcome: execd.OutcomeNotStarted, Errno: "EACCES", Message: "/usr: permission denied"}, "not_started: /usr: permission denied"},
		{"cancelled", execd.Reply{Outcome: execd.OutcomeCancelled, TreeEmpty: true}, "cancelled"},
		{"infra", execd.Reply{Outcome: execd.OutcomeInfra, Message: "audit: disk full"}, "infra: audit: disk full"},
		{"cut output", execd.Reply{Outcome: execd.OutcomeOK, TreeEmpty: true, Truncated: execd.Truncated{Stderr: true}, Bytes: execd.Bytes{Stderr: 9}},
			"stderr is cut: 9 bytes were written; limits.outputBytes says how many are kept"},
	} {
		if got := strings.Join(notes(test.reply), "|"); got != test.want {
			t.Errorf("%s:\n got %q\nwant %q", test.name, got, test.want)
		}
	}
	for _, outcome := range execd.Outcomes {
		silent := outcome == execd.OutcomeOK || outcome == execd.OutcomeError
		if got := ending(execd.Reply{Outcome: outcome}); (got == "") != silent {
			t.Errorf("outcome %s ends with %q", outcome, got)
		}
	}
}

func TestExplainVerdict(t *testing.T) {
	reply := execd.Reply{Verdict: execd.Proof{
		Tier: policy.TierFull, Evidence: execd.Evidence{Kernel: 1, Probe: 1}, Degraded: []string{"cgroup.memory: none here"},
		Rows: []policy.Row{
			{Control: "no_new_privs", Want: "1", Got: "1", Held: true, Evidence: policy.EvidenceKernel},
			{Control: "landlock.fs", Want: "EACCES", Got: "", Evidence: policy.EvidenceProbe},
		},
	}}
	var plain, coloured bytes.Buffer
	explainVerdict(&plain, style{}, reply)
	want := `control       want    got  held  evidence
no_new_privs  1       1    yes   kernel
landlock.fs   EACCES  -    NO    probe
degraded cgroup.memory: none here
not held: tier full, 1 read from the kernel, 1 probed, 0 reported by the launcher
`
	if plain.String() != want {
		t.Errorf("got\n%swant\n%s", plain.String(), want)
	}
	explainVerdict(&coloured, style{on: true}, reply)
	if got := stripColour(coloured.String()); got != want {
		t.Errorf("colours move the columns:\n%swant\n%s", got, want)
	}
	if !strings.Contains(coloured.String(), "\x1b[31mNO") {
		t.Error("a row that doesn't hold isn't red")
	}
}

func stripColour(text string) string {
	for _, code := range []string{"\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m"} {
		text = strings.ReplaceAll(text, code, "")
	}
	return text
}

func TestExplainReasons(t *testing.T) {
	var out bytes.Buffer
	explainReasons(&out, style{}, []policy.Reason{
		{Rule: "context.capabilities.add", Message: "may not add.", Field: "securityContext.capabilities.add",
			Change: &policy.Change{Op: "remove", Field: "securityContext.capabilities.add"}},
		{Rule: "limits.pids", Message: "too many.", Field: "limits.pids",
			Change: &policy.Change{Op: "set", Field: "limits.pids", Value: jsontext.Value("512")}},
		{Rule: "closed", Message: "never."},
	})
	want := `no context.capabilities.add
   may not add.
   field   securityContext.capabilities.add
   passes  remove securityContext.capabilities.add
no limits.pids
   too many.
   field   limits.pids
   passes  set limits.pids to 512
no closed
   never.
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

func TestCell(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "-",
		"short":                          "short",
		strings.Repeat("ä", longestCell): strings.Repeat("ä", longestCell),
		strings.Repeat("ä", 200):         strings.Repeat("ä", longestCell-1) + "…",
	} {
		if got := cell(text); got != want {
			t.Errorf("cell(%q) = %q, want %q", text, got, want)
		}
	}
}
