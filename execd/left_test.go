package execd

import (
	"context"
	"encoding/json/v2"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/policy"
)

// inBox is an exec of a shell script in a sandbox, which may leave something behind.
func inBox(box, script string, leave bool) policy.Request {
	return policy.Request{
		Action: policy.ActionExec, Caller: Self(), Sandbox: box, NetworkInherited: true,
		Command: policy.Command{Argv: []string{"bash", "-c", script}, LeaveChildren: leave},
	}
}

// keep makes a sandbox of our own.
func keep(t *testing.T, s *Service) string {
	t.Helper()
	made, err := s.MakeSandbox(t.Context(), policy.Request{Action: policy.ActionSandbox, Caller: Self()})
	if err != nil {
		t.Fatal(err)
	}
	return made.ID
}

// heartbeat writes as long as it lives, in a session of its own.
const heartbeat = "setsid bash -c 'while :; do echo >>/work/beat; sleep 0.02; done'"

// beats says whether somebody writes the heartbeat. Execs of one sandbox don't see each other's processes.
func beats(t *testing.T, s *Service, box string) bool {
	t.Helper()
	const compare = "touch /work/beat; a=$(stat -c %s /work/beat); for i in $(seq 25); do sleep 0.02; test $a = $(stat -c %s /work/beat) || exit 0; done; exit 1"
	reply := s.Exec(t.Context(), inBox(box, compare, false), Options{})
	if reply.Outcome != OutcomeOK && reply.Outcome != OutcomeError {
		t.Fatalf("%s: %s", reply.Outcome, reply.Message)
	}
	return reply.Outcome == OutcomeOK
}

// lefts are the records of ends of what was left behind by an exec, waited for.
func lefts(t *testing.T, s *Service, exec string) audit.Record {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) { // polls what the test is about
		for _, r := range recordsOf(t, s, audit.TypeLeft) {
			if r.Exec == exec {
				return r
			}
		}
	}
	t.Fatal("no record says that what was left behind has ended")
	return audit.Record{}
}

// TestChildrenAreLeftBehind: what a program leaves lives on in its sandbox, is looked at as before, and ends with the sandbox, which is on record.
func TestChildrenAreLeftBehind(t *testing.T) {
	s := start(t, testConfig(t))
	box := keep(t, s)
	first := s.Exec(t.Context(), inBox(box, heartbeat+" & echo started", true), Options{})
	if first.Outcome != OutcomeOK || !first.TreeLeft || first.TreeEmpty {
		t.Fatalf("%s, treeLeft %t, treeEmpty %t: %s", first.Outcome, first.TreeLeft, first.TreeEmpty, first.Message)
	}
	if !beats(t, s, box) {
		t.Error("the child that was left behind doesn't live")
	}
	found := s.running.all(func(w *walk) bool { return w.id == first.ID })
	if len(found) != 1 {
		t.Fatalf("%d of it are looked at again and again", len(found))
	}
	if verdict, there := s.lookAtExec(found[0]); !there || !verdict.Held() {
		t.Errorf("the look at it: there %t, %+v", there, verdict.Failed())
	}
	if err := s.DeleteSandbox(t.Context(), box, Self()); err != nil {
		t.Fatal(err)
	}
	if r := lefts(t, s, first.ID); !strings.Contains(r.Message, "has ended") {
		t.Errorf("%q", r.Message)
	}
	if len(s.running.all(nil)) != 0 {
		t.Error("something is looked at that isn't there any more")
	}
}

// TestWhatIsLeftEndsByItself: the exec is over then, and its worker takes the next.
func TestWhatIsLeftEndsByItself(t *testing.T) {
	c := testConfig(t)
	c.MaxWorkers = 1
	s := start(t, c)
	box := keep(t, s)
	first := s.Exec(t.Context(), inBox(box, "sleep 0.3 & echo started", true), Options{})
	if first.Outcome != OutcomeOK || !first.TreeLeft {
		t.Fatalf("%s, treeLeft %t: %s", first.Outcome, first.TreeLeft, first.Message)
	}
	lefts(t, s, first.ID)
	next := s.Exec(t.Context(), inBox(box, "true", true), Options{})
	if next.Outcome != OutcomeOK || next.TreeLeft || !next.TreeEmpty {
		t.Errorf("the next: %s, treeLeft %t, treeEmpty %t: %s", next.Outcome, next.TreeLeft, next.TreeEmpty, next.Message)
	}
}

// TestNothingIsLeftOfWhatIsKilled: at its deadline, by its caller, and when it is asked to end, the whole tree goes.
func TestNothingIsLeftOfWhatIsKilled(t *testing.T) {
	s := start(t, testConfig(t))
	box := keep(t, s)
	const script = "trap 'exit 3' TERM; (trap '' TERM; " + heartbeat + ") & echo ready; while :; do sleep 0.05; done"
	gone := func(name string, reply Reply, want Outcome) {
		t.Helper()
		if reply.Outcome != want || reply.TreeLeft || !reply.TreeEmpty {
			t.Errorf("%s: %s, treeLeft %t, treeEmpty %t: %s", name, reply.Outcome, reply.TreeLeft, reply.TreeEmpty, reply.Message)
		}
		if beats(t, s, box) {
			t.Errorf("%s: something of it lives", name)
		}
	}
	timed := inBox(box, script, true)
	timed.Limits.TimeoutSeconds = 0.5
	gone("timeout", s.Exec(t.Context(), timed, Options{}), OutcomeTimeout)

	ctx, cancel := context.WithCancel(t.Context())
	gone("cancelled", s.Exec(ctx, inBox(box, script, true), Options{Sink: whenSaid(cancel)}), OutcomeCancelled)
	cancel()

	stop := make(chan struct{})
	reply := s.Exec(t.Context(), inBox(box, script, true), Options{Sink: whenSaid(func() { close(stop) }), Interrupt: stop, InterruptGrace: time.Minute})
	gone("interrupted", reply, OutcomeError)
	if reply.ExitCode == nil || *reply.ExitCode != 3 {
		t.Errorf("interrupted: exit code %v, want its handler's", reply.ExitCode)
	}
	stop = make(chan struct{})
	deaf := strings.Replace(script, "'exit 3' TERM", "'' TERM", 1)
	reply = s.Exec(t.Context(), inBox(box, deaf, true), Options{Sink: whenSaid(func() { close(stop) }), Interrupt: stop, InterruptGrace: 100 * time.Millisecond})
	gone("deaf", reply, OutcomeCancelled)
}

// TestWhatIsLeftIsInterrupted: also when the program itself has ended long ago.
func TestWhatIsLeftIsInterrupted(t *testing.T) {
	s := start(t, testConfig(t))
	box, stop := keep(t, s), make(chan struct{})
	first := s.Exec(t.Context(), inBox(box, "(trap '' TERM; "+heartbeat+") & true", true), Options{Interrupt: stop, InterruptGrace: 50 * time.Millisecond})
	if first.Outcome != OutcomeOK || !first.TreeLeft || !beats(t, s, box) {
		t.Fatalf("%s, treeLeft %t: %s", first.Outcome, first.TreeLeft, first.Message)
	}
	close(stop)
	lefts(t, s, first.ID)
	if beats(t, s, box) {
		t.Error("something of it lives")
	}
}

func TestLeavingNeedsASandbox(t *testing.T) {
	_, _, err := ParseExec([]byte(`{"command": {"argv": ["true"], "leaveChildren": true}}`))
	if err == nil || !strings.Contains(err.Error(), "leaveChildren") {
		t.Errorf("%v", err)
	}
}

// whenSaid calls at the first output.
type whenSaid func()

func (whenSaid) Decision(policy.Decision) {}

func (f whenSaid) Output(_ string, chunk []byte) {
	if strings.HasPrefix(string(chunk), "ready") {
		f()
	}
}

// slowSink takes its time with each piece, and counts.
type slowSink struct {
	bytes int64
	tail  []byte
}

func (*slowSink) Decision(policy.Decision) {}

func (s *slowSink) Output(stream string, chunk []byte) {
	if stream != "stdout" {
		return
	}
	time.Sleep(time.Millisecond) // a reader that is slower than the writer
	s.bytes += int64(len(chunk))
	if s.tail = append(s.tail, chunk...); len(s.tail) > 16 {
		s.tail = append([]byte(nil), s.tail[len(s.tail)-16:]...)
	}
}

// TestUnkeptOutputIsWhole: all that the leader wrote arrives, at the sink's pace and beyond the limit of what is kept, though somebody who is left writes on.
func TestUnkeptOutputIsWhole(t *testing.T) {
	s := start(t, testConfig(t))
	box := keep(t, s)
	r := inBox(box, "(while :; do echo more >&2; done) & head -c 3000000 /dev/zero; printf the-end", true)
	r.Limits.OutputBytes = 1
	sink := &slowSink{}
	reply := s.Exec(t.Context(), r, Options{Unkept: true, Sink: sink})
	if reply.Outcome != OutcomeOK || !reply.TreeLeft {
		t.Fatalf("%s, treeLeft %t: %s", reply.Outcome, reply.TreeLeft, reply.Message)
	}
	if sink.bytes != 3000007 || !strings.HasSuffix(string(sink.tail), "the-end") || reply.Bytes.Stdout != sink.bytes || *reply.Stdout != "" {
		t.Errorf("%d bytes that end with %q; the reply counts %d", sink.bytes, sink.tail, reply.Bytes.Stdout)
	}
	text, err := json.Marshal(reply)
	if err != nil || !strings.Contains(string(text), `"treeLeft":true`) {
		t.Error(fmt.Sprint(string(text), err))
	}
}
