package execd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/policy"
)

func TestExec(t *testing.T) {
	s := start(t, testConfig(t))
	for _, row := range []struct {
		name           string
		request        policy.Request
		want           Outcome
		status         int
		stdout, stderr string
	}{
		{"true", command("true"), OutcomeOK, 0, "", ""},
		{"both streams", shell("echo out; echo err >&2"), OutcomeOK, 0, "out\n", "err\n"},
		{"exit 3", shell("echo x; exit 3"), OutcomeError, 3, "x\n", ""},
		{"exit 124 by itself", shell("exit 124"), OutcomeError, 124, "", ""},
		{"exit 137 by itself", shell("exit 137"), OutcomeError, 137, "", ""},
		{"kills itself", shell("kill -TERM $$"), OutcomeSignaled, 143, "", ""},
		{"kills itself with KILL", shell("kill -KILL $$"), OutcomeSignaled, 137, "", ""},
		{"no such program", command("no-such-program"), OutcomeNotStarted, 127, "", ""},
		{"no such path", command("/no/such/program"), OutcomeNotStarted, 127, "", ""},
		{"a directory", command("/usr"), OutcomeNotStarted, 126, "", ""},
		{"not executable", command("/etc/passwd"), OutcomeNotStarted, 126, "", ""},
		{"stdin", func() policy.Request {
			r := command("cat")
			r.Command.Stdin = []byte("in\x00\xff")
			return r
		}(), OutcomeOK, 0, "in\x00\xff", ""},
		{"a directory that isn't there", func() policy.Request {
			r := command("true")
			r.Command.Cwd = "/no/such/dir"
			return r
		}(), OutcomeNotStarted, 127, "", ""},
		{"nothing of our environment", shell("env | sort | grep -v -e ^PWD= -e ^OLDPWD= -e ^SHLVL= -e ^_="), OutcomeOK, 0,
			"HOME=/work\nLANG=C.UTF-8\nPATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\nTMPDIR=/tmp\n", ""},
		{"the timers of the kernel's own exactness, not of a worker's idle threads", command("cat", "/proc/self/timerslack_ns"), OutcomeOK, 0, "50000\n", ""},
		{"bytes are kept", shell(`printf 'a\r\nb\rc\000\377\n\nno newline'`), OutcomeOK, 0, "a\r\nb\rc\x00\xff\n\nno newline", ""},
		{"a background child doesn't hold the answer", shell("sleep 100 & echo started"), OutcomeOK, 0, "started\n", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			began := time.Now()
			reply := s.Exec(t.Context(), row.request, Options{})
			mustBe(t, reply, row.want)
			stdout, stderr := reply.Output()
			if reply.ExitStatus() != row.status || string(stdout) != row.stdout || string(stderr) != row.stderr {
				t.Errorf("status %d, stdout %q, stderr %q; want %d, %q, %q", reply.ExitStatus(), stdout, stderr, row.status, row.stdout, row.stderr)
			}
			if !reply.TreeEmpty || reply.AuditSequence == 0 || !reply.Decision.Allow {
				t.Errorf("treeEmpty %t, auditSequence %d, allow %t", reply.TreeEmpty, reply.AuditSequence, reply.Decision.Allow)
			}
			if ran := row.want != OutcomeNotStarted; ran && (!reply.Verdict.Held || reply.Verdict.Evidence.Kernel == 0) {
				t.Errorf("verdict %+v", reply.Verdict)
			}
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("took %s", took)
			}
		})
	}
}

func TestTimeoutKeepsWhatWasWritten(t *testing.T) {
	s := start(t, testConfig(t))
	r := shell("echo before; setsid sleep 100 & trap '' TERM; echo after; sleep 100")
	r.Limits.TimeoutSeconds = 1.5
	began := time.Now()
	reply := s.Exec(t.Context(), r, Options{})
	mustBe(t, reply, OutcomeTimeout)
	stdout, _ := reply.Output()
	if string(stdout) != "before\nafter\n" || !reply.TimedOut || !reply.TreeEmpty || reply.ExitCode != nil {
		t.Errorf("reply %+v, stdout %q", reply, stdout)
	}
	if took := time.Since(began); took < 1500*time.Millisecond || took > 15*time.Second {
		t.Errorf("took %s", took)
	}
}

func TestCancelled(t *testing.T) {
	s := start(t, testConfig(t))
	sink := &recordingSink{heard: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-sink.heard; cancel() }()
	reply := s.Exec(ctx, shell("echo go; sleep 100"), Options{Sink: sink})
	mustBe(t, reply, OutcomeCancelled)
	if !reply.TreeEmpty || reply.ExitStatus() != 130 {
		t.Errorf("treeEmpty %t, status %d", reply.TreeEmpty, reply.ExitStatus())
	}
	reply = s.Exec(ctx, command("true"), Options{})
	mustBe(t, reply, OutcomeCancelled)
	if reply.Bytes.Stdout != 0 || reply.DurationSeconds != 0 {
		t.Errorf("a request that was cancelled before it began: %+v", reply)
	}
}

// TestCancelledBeforeRelease: a caller who goes away while the record is written finds nothing started.
func TestCancelledBeforeRelease(t *testing.T) {
	s := start(t, testConfig(t))
	w, err := s.enter(t.Context(), shell("echo ran"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.leave(w)
	for _, arrow := range []func() error{w.decide, w.build, w.prepare, w.check, w.record} {
		if err := arrow(); err != nil {
			t.Fatal(err)
		}
	}
	w.cancel(errSink)
	err = w.release()
	if !errors.Is(err, errSink) || w.released {
		t.Fatalf("release: %v, released %t", err, w.released)
	}
	reply := w.fail(err)
	mustBe(t, reply, OutcomeCancelled)
	if reply.Bytes.Stdout != 0 || !reply.TreeEmpty || reply.ExitCode != nil {
		t.Errorf("reply %+v", reply)
	}
}

func TestOutputLimit(t *testing.T) {
	s := start(t, testConfig(t))
	r := shell("head -c 3000000 /dev/zero; echo done >&2")
	r.Limits.OutputBytes = 100_000
	sink := &recordingSink{heard: make(chan struct{})}
	reply := s.Exec(t.Context(), r, Options{Sink: sink})
	mustBe(t, reply, OutcomeOK)
	stdout, stderr := reply.Output()
	if len(stdout) != 100_000 || reply.Bytes.Stdout != 3_000_000 || !reply.Truncated.Stdout || reply.Truncated.Stderr || string(stderr) != "done\n" {
		t.Errorf("%d bytes kept, %+v, %+v, stderr %q", len(stdout), reply.Bytes, reply.Truncated, stderr)
	}
	if !bytes.Equal(sink.output["stdout"], stdout) || len(sink.decisions) != 1 {
		t.Errorf("the sink heard %d bytes and %d decisions", len(sink.output["stdout"]), len(sink.decisions))
	}
}

func TestDenied(t *testing.T) {
	s := start(t, testConfig(t))
	r := command("true")
	r.SecurityContext.Capabilities = &policy.Capabilities{Add: []string{"SYS_ADMIN"}}
	reply := s.Exec(t.Context(), r, Options{})
	mustBe(t, reply, OutcomeDenied)
	if len(reply.Reasons) == 0 || reply.Decision.Allow || reply.AuditSequence == 0 || reply.ExitCode != nil || reply.ExitStatus() != 125 {
		t.Errorf("reply %+v", reply)
	}
	decided, err := s.Decide(t.Context(), r)
	if err != nil || decided.Decision.Allow || len(decided.Decision.Reasons) != len(reply.Reasons) {
		t.Errorf("Decide = %+v, %v", decided, err)
	}
}

// TestAuditTellsTheWholeStory: what is in the log after a few requests, and that it verifies.
func TestAuditTellsTheWholeStory(t *testing.T) {
	c := testConfig(t)
	s := start(t, c)
	ran := s.Exec(t.Context(), command("echo", "--token", "s3cr3tC4nary"), Options{})
	mustBe(t, ran, OutcomeOK)
	denied := command("true")
	denied.SecurityContext.Privileged = new(true)
	mustBe(t, s.Exec(t.Context(), denied, Options{}), OutcomeDenied)
	if _, err := s.Decide(t.Context(), command("true")); err != nil {
		t.Fatal(err)
	}
	mustBe(t, s.Exec(t.Context(), command("no-such-program"), Options{}), OutcomeNotStarted)
	stop(t, s)
	var got []string
	for _, r := range readLog(t, c) {
		text := string(r.Type)
		if r.DryRun {
			text += " dry"
		}
		if r.Ending != nil {
			text += " " + r.Ending.Outcome
		}
		got = append(got, text)
		if r.Type == audit.TypeRelease && (r.Verdict == nil || !r.Verdict.Held || r.PlanDigest == "" || r.Decision == nil || r.Request == nil) {
			t.Errorf("a release without its proof: %+v", r)
		}
	}
	want := "start, release, outcome ok, decision denied, decision dry, outcome not_started, stop, checkpoint"
	if text := strings.Join(got, ", "); text != want {
		t.Errorf("the log has\n%s\nwant\n%s", text, want)
	}
}

func BenchmarkExec(b *testing.B) {
	c := testConfig(b)
	s := start(b, c)
	box, err := s.sandboxes.create(b.Context(), Self(), rootSpec{}, "")
	if err != nil {
		b.Fatal(err)
	}
	r := command("/bin/true")
	r.Sandbox = box.id
	for b.Loop() {
		mustBe(b, s.Exec(b.Context(), r, Options{}), OutcomeOK)
	}
}

// TestNoLogNothingRuns: where nothing can be recorded, nothing is released.
func TestNoLogNothingRuns(t *testing.T) {
	s, err := New(t.Context(), testConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background()) // says that the stop couldn't be recorded
	if err := s.log.Close(); err != nil {
		t.Fatal(err)
	}
	reply := s.Exec(t.Context(), shell("echo ran"), Options{})
	if reply.Outcome != OutcomeInfra || reply.Bytes.Stdout != 0 || reply.AuditSequence != 0 || reply.ExitCode != nil || !reply.TreeEmpty {
		t.Errorf("reply %+v", reply)
	}
}

// TestRecordedBeforeReleased: by the time the program has said anything, its release is in the log, and the log's own account is that the disk
// has it.
func TestRecordedBeforeReleased(t *testing.T) {
	c := testConfig(t)
	s := start(t, c)
	reader := &logReader{t: t, dir: c.auditDir()}
	reply := s.Exec(t.Context(), shell("echo first; sleep 0.2"), Options{Sink: reader})
	mustBe(t, reply, OutcomeOK)
	want := fmt.Sprintf(`{"seq":%d,`, reply.AuditSequence)
	at := bytes.Index(reader.seen, []byte(want))
	if at < 0 || !bytes.Contains(reader.seen[at:], []byte(`"type":"release","exec":"`+reply.ID+`"`)) || bytes.Contains(reader.seen, []byte(`"type":"outcome"`)) {
		t.Errorf("at the first output the log was\n%s", reader.seen)
	}
	if s.log.Last() < reply.AuditSequence {
		t.Errorf("the disk has records up to %d, the release is %d", s.log.Last(), reply.AuditSequence)
	}
}
