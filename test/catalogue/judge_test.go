package catalogue

import (
	"bytes"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/execd/audit"
)

// answer is everything that came of a row.
type answer struct {
	f       *fixture
	row     row
	daemon  *daemon
	status  int
	body    []byte
	took    time.Duration
	reply   execd.Reply
	failure execd.Error
	records []audit.Record
	stdout  []byte
	stderr  []byte
}

// request is the row's body.
func (r row) request(f *fixture) (path, body string) {
	if r.raw != "" {
		return "/v1/exec", r.raw
	}
	members := []string{}
	if r.body != "" {
		members = append(members, f.fill(r.body))
	}
	if r.beside && f.kept != "" {
		members = append(members, fmt.Sprintf(`"sandbox":%q`, f.kept))
	}
	if r.code != "" {
		code, err := json.Marshal(r.code)
		if err != nil {
			panic(err) // a string
		}
		return "/v1/run", "{" + strings.Join(append(members, `"code":`+string(code)), ",") + "}"
	}
	if command := r.command(f); len(command) > 0 {
		argv, err := json.Marshal(command)
		if err != nil {
			panic(err) // strings
		}
		with := ""
		if r.with != "" {
			with = "," + f.fill(r.with)
		}
		members = append(members, `"command":{"argv":`+string(argv)+with+"}")
	}
	return "/v1/exec", "{" + strings.Join(members, ",") + "}"
}

// ask has the row done.
func (f *fixture) ask(t *testing.T, r row) *answer {
	t.Helper()
	a := &answer{f: f, row: r, daemon: f.daemons[r.daemon]}
	path, body := r.request(f)
	began := time.Now()
	var err error
	if a.status, a.body, err = a.daemon.do(t.Context(), "POST", path+"?rows=true", body); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	a.took = time.Since(began)
	return a
}

// unsupported says that the request was refused since this host lacks a mechanism, and by its name.
func (a *answer) unsupported(t *testing.T, lack string) {
	t.Helper()
	a.read(t)
	rule := func(reasons []string) bool { return slices.Contains(reasons, "host."+lack) }
	var said []string
	for _, reason := range a.reply.Reasons {
		said = append(said, reason.Rule)
	}
	if a.reply.Outcome != execd.OutcomeDenied || a.status != http.StatusForbidden || !rule(said) {
		t.Errorf("without %s: %d %s, want it denied by that name", lack, a.status, a.body)
	}
	a.records = a.daemon.recorded(t, a.reply.ID)
	said = nil
	for _, reason := range a.records[len(a.records)-1].Refused {
		said = append(said, reason.Rule)
	}
	if !rule(said) {
		t.Errorf("the record doesn't say host.%s: %+v", lack, a.records)
	}
}

func (a *answer) read(t *testing.T) {
	t.Helper()
	// A returned value may be any text that is JSON's.
	err := json.Unmarshal(a.body, &a.reply, json.RejectUnknownMembers(true), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		t.Fatalf("%d %.500s: %v", a.status, a.body, err)
	}
	a.stdout, a.stderr = a.reply.Output()
}

// judge holds the four sides against the row.
func (a *answer) judge(t *testing.T) {
	t.Helper()
	outcome, detail, _ := strings.Cut(a.row.outcome, " ")
	switch outcome {
	case "refused":
		a.refused(t, detail)
		return
	case "":
		outcome = string(execd.OutcomeOK)
	}
	a.read(t)
	a.records = a.daemon.recorded(t, a.reply.ID)
	a.probe(t)
	a.outcome(t, execd.Outcome(outcome), detail)
	a.record(t)
	a.readBack(t)
	if a.row.also != nil {
		a.row.also(t, a)
	}
	if t.Failed() {
		t.Logf("%.3000s", a.body)
	}
}

// refused is a body that is no request: an answer that names the field, and nothing on record since nobody was asked.
func (a *answer) refused(t *testing.T, field string) {
	t.Helper()
	if err := json.Unmarshal(a.body, &a.failure, json.RejectUnknownMembers(true)); err != nil || a.status != http.StatusBadRequest || a.failure.Field != field {
		t.Errorf("%d %.500s, want 400 with the field %q", a.status, a.body, field)
	}
}

// probe is what the program met: its lines, and the streams.
func (a *answer) probe(t *testing.T) {
	t.Helper()
	if a.row.try != "" {
		a.lines(t)
	}
	for _, stream := range []struct {
		name, want string
		got        []byte
	}{{"stdout", a.row.stdout, a.stdout}, {"stderr", a.row.stderr, a.stderr}} {
		want, unwanted := strings.CutPrefix(stream.want, "!")
		want = a.f.fill(want)
		if want != "" && bytes.Contains(stream.got, []byte(want)) == unwanted {
			t.Errorf("%s %.500q, want %q", stream.name, stream.got, stream.want)
		}
	}
	if a.row.value != "" {
		a.value(t)
	}
	if bytes.Contains(a.body, []byte(canary)) {
		t.Errorf("the daemon's environment came out: %.500s", a.body)
	}
}

func (a *answer) lines(t *testing.T) {
	t.Helper()
	attempts := a.row.attempts(a.f)
	var lines [][]byte
	for line := range bytes.Lines(a.stdout) {
		if bytes.HasPrefix(line, []byte(`{"act":`)) {
			lines = append(lines, line)
		}
	}
	if len(lines) != len(attempts) {
		t.Errorf("%d answers to %d attempts; stdout %.1000q stderr %.1000q", len(lines), len(attempts), a.stdout, a.stderr)
		return
	}
	for i, one := range attempts {
		var line struct {
			Act     string   `json:"act"`
			Args    []string `json:"args"`
			Refused bool     `json:"refused"`
			Errno   string   `json:"errno"`
			Number  int      `json:"number"`
			Signal  string   `json:"signal"`
		}
		if err := json.Unmarshal(lines[i], &line, json.RejectUnknownMembers(true)); err != nil {
			t.Errorf("%s: %v", lines[i], err)
			continue
		}
		got := line.Errno + line.Signal
		if !line.Refused {
			got = "done"
		}
		if !slices.Equal(append([]string{line.Act}, line.Args...), one.act) || !slices.Contains(one.want, got) {
			t.Errorf("%s → %s, want %s", strings.Join(one.act, " "), got, strings.Join(one.want, " or "))
		}
	}
}

func (a *answer) value(t *testing.T) {
	t.Helper()
	how, word, _ := strings.Cut(a.row.value, " ")
	switch how {
	case "failed":
		if a.reply.ReturnValueHow != how || !strings.Contains(a.reply.ReturnValueReason, word) {
			t.Errorf("returned value %.200s by %q (%s), want failed and %q", a.reply.ReturnValue, a.reply.ReturnValueHow, a.reply.ReturnValueReason, word)
		}
	case "absent":
		if len(a.reply.ReturnValue) > 0 && a.reply.ReturnValue.Kind() != 'n' || !strings.Contains(a.reply.ReturnValueReason, word) {
			t.Errorf("returned value %.200s by %q (%s), want none, and %q", a.reply.ReturnValue, a.reply.ReturnValueHow, a.reply.ReturnValueReason, word)
		}
	default:
		if string(a.reply.ReturnValue) != a.row.value {
			t.Errorf("returned value %.200s by %q, want %s", a.reply.ReturnValue, a.reply.ReturnValueHow, a.row.value)
		}
	}
}

// outcome is the reply: one word, and nothing beside it that says another.
func (a *answer) outcome(t *testing.T, want execd.Outcome, detail string) {
	t.Helper()
	r := a.reply
	if r.Outcome != want || a.status != statuses[want] {
		t.Errorf("status %d, outcome %s (%s), want %s", a.status, r.Outcome, r.Message, want)
		return
	}
	code, signal := "none", "none"
	if r.ExitCode != nil {
		code = fmt.Sprint(*r.ExitCode)
	}
	if r.Signal != nil {
		signal = fmt.Sprint(*r.Signal)
	}
	wanted := [2]string{"none", "none"}
	switch want {
	case execd.OutcomeOK:
		wanted[0] = "0"
	case execd.OutcomeError:
		wanted[0] = detail
	case execd.OutcomeSignaled:
		wanted[1] = detail
	case execd.OutcomeTimeout, execd.OutcomeOutputLimit, execd.OutcomeOOM, execd.OutcomeCancelled:
		wanted[1] = signal // our own SIGKILL's; it may be null when the kernel didn't say
		if signal != "9" && signal != "none" {
			t.Errorf("%s by signal %s", want, signal)
		}
	case execd.OutcomeNotStarted:
		if r.Errno != detail || r.Message == "" {
			t.Errorf("errno %s (%s), want %s", r.Errno, r.Message, detail)
		}
	case execd.OutcomeDenied:
		if !slices.ContainsFunc(r.Reasons, func(reason policyReason) bool { return reason.Field == detail && reason.Message != "" }) {
			t.Errorf("reasons %+v, want one for the field %s", r.Reasons, detail)
		}
	}
	if got := [2]string{code, signal}; got != wanted {
		t.Errorf("exit code and signal %v, want %v", got, wanted)
	}
	if r.TimedOut != (want == execd.OutcomeTimeout) || !r.TreeEmpty {
		t.Errorf("%s with timedOut %t, treeEmpty %t", want, r.TimedOut, r.TreeEmpty)
	}
	// A cut at a character takes its beginning away too; a marker's line isn't output.
	if kept := int64(len(a.stdout)); r.Truncated.Stdout != (r.Bytes.Stdout > kept) && !strings.Contains(a.row.body, "resultMarker") {
		t.Errorf("truncated %t: %d of %d bytes", r.Truncated.Stdout, kept, r.Bytes.Stdout)
	}
}

// statuses are HTTP's for what was walked: 200 for whatever ran, however it ended.
var statuses = map[execd.Outcome]int{
	execd.OutcomeOK: 200, execd.OutcomeError: 200, execd.OutcomeSignaled: 200, execd.OutcomeTimeout: 200, execd.OutcomeOOM: 200,
	execd.OutcomeOutputLimit: 200, execd.OutcomeNotStarted: 200, execd.OutcomeCancelled: 200, execd.OutcomeDenied: 403,
	execd.OutcomeMismatch: 500, execd.OutcomeInfra: 500,
}

// record is what the log says: what was released, with its proof, before; how it ended, as the reply has it, after.
func (a *answer) record(t *testing.T) {
	t.Helper()
	if len(a.records) == 0 {
		return // told already
	}
	first, last := a.records[0], a.records[len(a.records)-1]
	if last.Ending == nil {
		return
	}
	if last.Ending.Outcome != string(a.reply.Outcome) || last.Ending.TreeEmpty != a.reply.TreeEmpty ||
		!equal(last.Ending.ExitCode, a.reply.ExitCode) || !equal(last.Ending.Signal, a.reply.Signal) {
		t.Errorf("the record says %+v, the reply %s", last.Ending, a.reply.Outcome)
	}
	if first.Caller == nil || first.Request == nil || first.Decision == nil || first.Decision.ID != a.reply.Decision.ID {
		t.Errorf("the first record isn't whole: %+v", first)
		return
	}
	switch a.reply.Outcome {
	case execd.OutcomeDenied:
		if len(a.records) != 1 || first.Type != audit.TypeDecision {
			t.Errorf("denied, and on record as %s of %d records", first.Type, len(a.records))
		}
	case execd.OutcomeNotStarted:
		if first.Verdict != nil && !first.Verdict.Held {
			t.Errorf("not started, and the read-back on record doesn't hold: %+v", first.Verdict)
		}
	default:
		if len(a.records) != 2 || first.Type != audit.TypeRelease || last.Type != audit.TypeOutcome {
			t.Errorf("%d records, the first is %s", len(a.records), first.Type)
			return
		}
		if first.Verdict == nil || !first.Verdict.Held || first.Verdict.Digest != a.reply.Verdict.Digest || first.PlanDigest == "" || !first.Decision.Allow {
			t.Errorf("released on record without its proof: %+v", first)
		}
		if last.Ending.Stdout == nil || last.Ending.Stdout.Bytes != a.reply.Bytes.Stdout || last.Ending.Stderr.Bytes != a.reply.Bytes.Stderr {
			t.Errorf("the record's sizes: %+v, the reply's %+v", last.Ending, a.reply.Bytes)
		}
	}
}

// readBack is the kernel's word.
func (a *answer) readBack(t *testing.T) {
	t.Helper()
	proof := a.reply.Verdict
	if a.reply.Outcome == execd.OutcomeDenied || a.reply.Outcome == execd.OutcomeNotStarted && proof.Digest == "" {
		if len(proof.Rows) > 0 {
			t.Errorf("nothing reached the gate, and something was read: %+v", proof)
		}
		return
	}
	if !proof.Held || proof.Evidence.Kernel < 30 || string(proof.Tier) != a.f.tier {
		t.Errorf("read-back: held %t, tier %s, evidence %+v", proof.Held, proof.Tier, proof.Evidence)
	}
	for _, row := range proof.Rows {
		if !row.Held {
			t.Errorf("read-back: %+v", row)
		}
	}
	for control := range strings.FieldsSeq(a.row.readBack) {
		if a.f.pod.unread(control) {
			continue
		}
		if !slices.ContainsFunc(proof.Rows, func(row policyRow) bool { return row.Held && row.Control == control }) {
			t.Errorf("read-back has no row %s that holds", control)
		}
	}
}

func equal(a, b *int) bool { return a == nil && b == nil || a != nil && b != nil && *a == *b }
