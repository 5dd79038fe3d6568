package execd

import (
	"encoding/json/v2"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandboxd/sandboxd/policy"
)

// TestReplyIsTheDesignsJSON has the example of DESIGN §8, byte for byte but for white space.
func TestReplyIsTheDesignsJSON(t *testing.T) {
	stdout, stderr, code := "hi\n", "", 0
	reply := Reply{
		ID: "1", Outcome: OutcomeOK, ExitCode: &code, TreeEmpty: true, Stdout: &stdout, Stderr: &stderr, Bytes: Bytes{Stdout: 3},
		DurationSeconds: 0.0043, Usage: Usage{CPUSeconds: 0.001, MaxRSSBytes: 3145728},
		Decision:      judgmentOf(policy.Decision{ID: "2", Allow: true, Revision: "sha256:3"}),
		Verdict:       Proof{Held: true, Tier: policy.TierFull, Evidence: Evidence{Kernel: 31, Probe: 4}, Digest: "sha256:4"},
		AuditSequence: 17,
	}
	const want = `{"id":"1","outcome":"ok","exitCode":0,"signal":null,"timedOut":false,"oomKills":0,"treeEmpty":true,` +
		`"stdout":"hi\n","stderr":"","truncated":{"stdout":false,"stderr":false},"bytes":{"stdout":3,"stderr":0},` +
		`"durationSeconds":0.0043,"usage":{"cpuSeconds":0.001,"maxRSSBytes":3145728},` +
		`"decision":{"id":"2","allow":true,"reasons":[],"revision":"sha256:3"},` +
		`"verdict":{"held":true,"tier":"full","evidence":{"kernel":31,"probe":4,"report":0},"degraded":[],"digest":"sha256:4"},` +
		`"auditSequence":17}`
	got, err := reply.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestReturnValueGoesOutAsItCame(t *testing.T) {
	for _, value := range []string{
		`null`, `{}`, `""`, `[]`, `0`, `1.0`, `-0.0`, `1e+22`, `123456789012345678901234567890`, `"\ud800"`, `{"a":1,"a":2}`, `{"b":1,"a":[1.50]}`, `"\u00e9"`,
	} {
		got, err := Reply{ReturnValue: []byte(value), ReturnValueHow: "value"}.Encode()
		if err != nil {
			t.Errorf("%s: %v", value, err)
		} else if !strings.Contains(string(got), `"returnValue":`+value+`,"returnValueHow":"value"`) {
			t.Errorf("%s went out as %s", value, got)
		}
	}
}

func TestStreamsAreTextOrBase64(t *testing.T) {
	for _, row := range []struct {
		data      string
		truncated bool
		want      string
	}{
		{"", false, `"stdout":""`},
		{"plain\n", false, `"stdout":"plain\n"`},
		{"é漢😀", false, `"stdout":"é漢😀"`},
		{"nul\x00", false, `"stdout":"nul\u0000"`},
		{"\xff\xfe", false, `"stdoutBase64":"//4="`},
		{"half \xe6\xbc", false, `"stdoutBase64":"aGFsZiDmvA=="`},     // the program wrote half a character
		{"half \xe6\xbc", true, `"stdout":"half "`},                   // our cut went through it
		{"\xff half \xe6\xbc", true, `"stdoutBase64":"/yBoYWxmIA=="`}, // it isn't text anyway
		{"whole 漢", true, `"stdout":"whole 漢"`},
	} {
		reply := Reply{}
		reply.Stdout, reply.StdoutBase64 = asText([]byte(row.data), row.truncated)
		got, err := reply.Encode()
		if err != nil || !strings.Contains(string(got), row.want) {
			t.Errorf("%q (truncated %t) is %s (%v), want %s", row.data, row.truncated, got, err, row.want)
		}
		if strings.Contains(string(got), "stderr\":\"") || strings.Contains(string(got), "stderrBase64") {
			t.Errorf("a stream that isn't there is in %s", got)
		}
	}
}

func TestPartialRune(t *testing.T) {
	for data, want := range map[string]int{
		"": 0, "a": 0, "é": 0, "\xc3": 1, "a\xe6\xbc": 2, "\xf0\x9f\x98": 3, "\xf0\x9f\x98\x80": 0, "\x80\x80\x80\x80": 0, "\xff": 0, "\xe6a": 0,
	} {
		if got := partialRune([]byte(data)); got != want {
			t.Errorf("partialRune(%q) = %d, want %d", data, got, want)
		}
	}
}

func TestErrnoNameAndSentence(t *testing.T) {
	err := fmt.Errorf("execve: %w", syscall.ENOENT)
	if got := errnoName(err); got != "ENOENT" {
		t.Errorf("errnoName = %q", got)
	}
	if got := errnoName(errors.New("x")); got != "" {
		t.Errorf("errnoName of no errno = %q", got)
	}
	long := sentence(errors.New(strings.Repeat("漢", 5000) + "\xff"))
	if len(long) > 2100 || !strings.HasSuffix(long, "漢…") {
		t.Errorf("a long error is %d bytes and ends in %q", len(long), long[len(long)-8:])
	}
	if _, err := json.Marshal(sentence(errors.New("a\xffb"))); err != nil {
		t.Error(err)
	}
}

func TestProofOf(t *testing.T) {
	verdict := policy.Verdict{Tier: policy.TierFull, Rows: []policy.Row{
		{Control: "a", Held: true, Evidence: policy.EvidenceKernel}, {Control: "b", Evidence: policy.EvidenceProbe},
	}}
	proof := proofOf(verdict, verdict.Digest(), false)
	if proof.Held || len(proof.Rows) != 1 || proof.Rows[0].Control != "b" || proof.Evidence != (Evidence{1, 1, 0}) || proof.Digest == "" {
		t.Errorf("proof = %+v", proof)
	}
	if all := proofOf(verdict, verdict.Digest(), true); len(all.Rows) != 2 {
		t.Errorf("all rows = %+v", all.Rows)
	}
	if none := proofOf(policy.Verdict{}, "x", true); none.Held || none.Digest != "" {
		t.Errorf("the proof of nothing = %+v", none)
	}
}
