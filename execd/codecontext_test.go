package execd

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/policy"
)

// heardOf is what a cell says.
type heardOf struct {
	mu      sync.Mutex // guards what follows
	text    string
	results []map[string]string
	begun   func()
}

func (s *heardOf) Decision(policy.Decision) {}

func (s *heardOf) Output(_ string, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text += string(data)
	if s.begun != nil {
		s.begun()
	}
}

func (s *heardOf) Result(result map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.results = append(s.results, result)
}

// pythonCell is a cell in a kept sandbox.
func pythonCell(box *sandbox, code string) policy.Request {
	return policy.Request{
		Action: policy.ActionRun, Caller: Self(), Sandbox: box.id, NetworkInherited: true,
		Program: policy.Program{Language: policy.LanguagePython, Code: code, Inputs: []byte("null")},
	}
}

// openContext starts a service with a kept sandbox and a context in it.
func openContext(t *testing.T, configure func(*Config)) (*Service, *sandbox, *CodeContext) {
	t.Helper()
	c := testConfig(t)
	c.DriftInterval = 0 // what is read back is so for the cell
	if configure != nil {
		configure(&c)
	}
	s := start(t, c)
	box, err := s.sandboxes.create(t.Context(), Self(), rootSpec{}, "")
	if err != nil {
		t.Fatal(err)
	}
	opened, reply := s.OpenContext(context.Background(), pythonCell(box, ""))
	if opened == nil {
		text, _ := reply.Encode()
		t.Fatalf("%s", text)
	}
	t.Cleanup(opened.Close)
	return s, box, opened
}

// TestCell: a context is one interpreter; a cell ends as it says, or with it.
func TestCell(t *testing.T) {
	s, box, c := openContext(t, nil)
	out := &heardOf{}
	o := CellOptions{Sink: out, Grace: time.Minute}
	run := func(code string) CellReply { return c.Run(t.Context(), pythonCell(box, code), o) }
	mustBe(t, run("x = 1; print('one')").Reply, OutcomeOK)
	second := run("print('two')\nx")
	mustBe(t, second.Reply, OutcomeOK)
	if out.text != "one\ntwo\n" || len(out.results) != 1 || out.results[0]["text/plain"] != "1" || second.Gone || second.TreeEmpty || !second.TreeLeft || second.Interpreter != "" {
		t.Errorf("%+v, %q, %v", second, out.text, out.results)
	}
	failed := run("1 / 0")
	if mustBe(t, failed.Reply, OutcomeError); failed.Error == nil || failed.Error.Name != "ZeroDivisionError" || failed.Gone {
		t.Errorf("%+v", failed)
	}
	gone := run("import os; os._exit(5)")
	if mustBe(t, gone.Reply, OutcomeError); !gone.Gone || gone.End.ExitCode == nil || *gone.End.ExitCode != 5 || !gone.TreeEmpty || gone.Error != nil {
		t.Errorf("%+v", gone)
	}
	mustBe(t, run("x").Reply, OutcomeCancelled) // there is none
	if s.active.Load() != 0 {
		t.Errorf("%d requests are on their way", s.active.Load())
	}
}

// TestCellIsDecided: by its own request, under the plan that its interpreter has, for the sandbox's owner.
func TestCellIsDecided(t *testing.T) {
	s, box, c := openContext(t, nil)
	stranger := Self()
	stranger.Name = "stranger"
	for rule, change := range map[string]func(*policy.Request){
		"exec.env":     func(r *policy.Request) { r.Program.Env = map[string]string{"LD_PRELOAD": "/x"} },
		"host.context": func(r *policy.Request) { r.Limits.OpenFiles = 100 },
		"limits":       func(r *policy.Request) { r.Limits.TimeoutSeconds = 3601 },
		"host.sandbox": func(r *policy.Request) { r.Caller = stranger },
	} {
		r := pythonCell(box, "open('/work/there', 'w')")
		change(&r)
		reply := c.Run(t.Context(), r, CellOptions{Sink: &heardOf{}, Accepted: func(uint64) { t.Errorf("%s: accepted", rule) }})
		if mustBe(t, reply.Reply, OutcomeDenied); len(reply.Reasons) == 0 || !strings.HasPrefix(reply.Reasons[0].Rule, rule) {
			t.Errorf("%s: %+v", rule, reply.Reasons)
		}
	}
	other, err := s.sandboxes.create(t.Context(), Self(), rootSpec{}, "")
	if err != nil {
		t.Fatal(err)
	}
	mustBe(t, c.Run(t.Context(), pythonCell(other, "1"), CellOptions{Sink: &heardOf{}}).Reply, OutcomeDenied)
	out := &heardOf{}
	mustBe(t, c.Run(t.Context(), pythonCell(box, "import os; os.listdir('/work')"), CellOptions{Sink: out}).Reply, OutcomeOK)
	if out.results[0]["text/plain"] != "[]" {
		t.Errorf("what was denied has run: %v", out.results)
	}
}

// TestCellIsReadBack: an interpreter of which something holds no longer gets no code.
func TestCellIsReadBack(t *testing.T) {
	needRoot(t)
	_, box, c := openContext(t, nil)
	o := CellOptions{Sink: &heardOf{}}
	mustBe(t, c.Run(t.Context(), pythonCell(box, "1"), o).Reply, OutcomeOK)
	if err := moveAway(t, c.walk); err != nil {
		t.Fatal(err)
	}
	o.Accepted = func(uint64) { t.Error("accepted") }
	reply := c.Run(t.Context(), pythonCell(box, "2"), o)
	if mustBe(t, reply.Reply, OutcomeMismatch); !hasRow(reply.Verdict.Rows, "cgroup") {
		t.Errorf("%+v", reply.Verdict)
	}
	<-c.Ended() // it is killed for it
}

// TestCellIsRecordedBeforeItRuns: at its first output the log has the cell's release, which names its interpreter; and without a log nothing runs.
func TestCellIsRecordedBeforeItRuns(t *testing.T) {
	c := testConfig(t)
	s, err := New(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background()) // says that the stop couldn't be recorded
	box, err := s.sandboxes.create(t.Context(), Self(), rootSpec{}, "")
	if err != nil {
		t.Fatal(err)
	}
	opened, _ := s.OpenContext(context.Background(), pythonCell(box, ""))
	reader := &logReader{t: t, dir: c.auditDir()}
	out := &heardOf{begun: func() { reader.Output("", nil) }}
	reply := opened.Run(t.Context(), pythonCell(box, "print('begun')"), CellOptions{Sink: out})
	mustBe(t, reply.Reply, OutcomeOK)
	at := bytes.Index(reader.seen, fmt.Appendf(nil, `{"seq":%d,`, reply.AuditSequence))
	if at < 0 || !bytes.Contains(reader.seen[at:], []byte(`"type":"release","exec":"`+reply.ID+`"`)) || !bytes.Contains(reader.seen[at:], []byte(`"context":"`+opened.walk.id+`"`)) ||
		bytes.Contains(reader.seen, []byte(`"type":"outcome"`)) {
		t.Errorf("at the first output the log was\n%s", reader.seen)
	}
	if err := s.log.Close(); err != nil {
		t.Fatal(err)
	}
	again := opened.Run(t.Context(), pythonCell(box, "print('again')"), CellOptions{Sink: out, Accepted: func(uint64) { t.Error("accepted") }})
	if again.Outcome == OutcomeOK || strings.Contains(out.text, "again") {
		t.Errorf("%+v: %q", again, out.text)
	}
}

// TestCellFrames: what a child of the interpreter says on its channel is nobody's, and neither is what the interpreter says of another cell.
func TestCellFrames(t *testing.T) {
	_, box, c := openContext(t, nil)
	out := &heardOf{}
	code := `import os
def say(kind, number): os.write(4, kind + number.to_bytes(8, "big") + b"\0" + b'{"text/plain": "forged"}')
for kind in b"r", b"e", b"d":
    if os.fork() == 0:
        say(kind, 1)
        os._exit(0)
    os.wait()
    say(kind, 2)
print("whole")`
	reply := c.Run(t.Context(), pythonCell(box, code), CellOptions{Sink: out, Grace: time.Minute})
	if mustBe(t, reply.Reply, OutcomeOK); out.text != "whole\n" || len(out.results) != 0 {
		t.Errorf("%q, %v", out.text, out.results)
	}
	mustBe(t, c.Run(t.Context(), pythonCell(box, "1"), CellOptions{Sink: out, Grace: time.Minute}).Reply, OutcomeOK)
}

// TestCellIsInterrupted: at its limit, and when it is asked for; what goes on after that is killed.
func TestCellIsInterrupted(t *testing.T) {
	_, box, c := openContext(t, nil)
	limited := pythonCell(box, "import time\ntime.sleep(600)")
	limited.Limits.TimeoutSeconds = 0.2
	late := c.Run(t.Context(), limited, CellOptions{Sink: &heardOf{}, Grace: time.Minute})
	if mustBe(t, late.Reply, OutcomeTimeout); late.Gone || late.Error == nil || late.Error.Name != "KeyboardInterrupt" || !late.TimedOut {
		t.Errorf("%+v", late)
	}
	if c.Interrupt() {
		t.Error("none runs")
	}
	ask := func(code string, grace time.Duration) CellReply {
		out := &heardOf{begun: func() { c.Interrupt() }}
		return c.Run(t.Context(), pythonCell(box, code), CellOptions{Sink: out, Grace: grace})
	}
	asked := ask("print('begun')\nwhile True: time.sleep(1)", time.Minute)
	if mustBe(t, asked.Reply, OutcomeCancelled); asked.Gone || asked.Error == nil || asked.Error.Name != "KeyboardInterrupt" {
		t.Errorf("%+v", asked)
	}
	ignored := ask("import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('begun')\nwhile True: time.sleep(1)", 100*time.Millisecond)
	if mustBe(t, ignored.Reply, OutcomeCancelled); !ignored.Gone || !ignored.TreeEmpty || !strings.Contains(ignored.Message, "went on") {
		t.Errorf("%+v", ignored)
	}
}
