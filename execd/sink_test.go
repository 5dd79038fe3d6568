package execd

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/sandboxd/sandboxd/policy"
)

// recordingSink keeps what it hears; heard is closed by the first output.
type recordingSink struct {
	mu        sync.Mutex
	decisions []policy.Decision
	output    map[string][]byte
	once      sync.Once
	heard     chan struct{}
}

func (s *recordingSink) Decision(d policy.Decision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.decisions = append(s.decisions, d)
}

func (s *recordingSink) Output(stream string, chunk []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.output == nil {
		s.output = map[string][]byte{}
	}
	s.output[stream] = append(s.output[stream], chunk...)
	s.once.Do(func() { close(s.heard) })
}

// panickingSink fails at one of the two things that a sink does.
type panickingSink struct{ at string }

func (s panickingSink) Decision(policy.Decision) {
	if s.at == "decision" {
		panic("no")
	}
}

func (s panickingSink) Output(string, []byte) {
	if s.at == "output" {
		panic("no")
	}
}

// logReader looks into the log at the moment of the first output.
type logReader struct {
	t    *testing.T
	dir  string
	once sync.Once
	// seen is the log as it was then.
	seen []byte
}

func (l *logReader) Decision(policy.Decision) {}

func (l *logReader) Output(string, []byte) {
	l.once.Do(func() {
		paths, err := filepath.Glob(filepath.Join(l.dir, "audit-*.jsonl"))
		if err != nil || len(paths) != 1 {
			l.t.Errorf("log files %q, %v", paths, err)
			return
		}
		if l.seen, err = os.ReadFile(paths[0]); err != nil {
			l.t.Error(err)
		}
	})
}

// sayDecisions prints a line for every decision.
type sayDecisions struct{}

func (sayDecisions) Decision(d policy.Decision) { fmt.Println("decided", d.Allow) }

func (sayDecisions) Output(string, []byte) {}

// TestPanicsEndTheWalkOnly: nothing runs on, the record and the reply say so, and the service goes on.
func TestPanicsEndTheWalkOnly(t *testing.T) {
	c := testConfig(t)
	s := start(t, c)
	mustBe(t, s.Exec(t.Context(), shell("echo x; sleep 60"), Options{Sink: panickingSink{"decision"}}), OutcomeInfra)
	reply := s.Exec(t.Context(), shell("echo x; sleep 60"), Options{Sink: panickingSink{"output"}})
	mustBe(t, reply, OutcomeCancelled)
	if !reply.TreeEmpty {
		t.Error("something may run on")
	}
	mustBe(t, s.Exec(t.Context(), command("true"), Options{}), OutcomeOK)
	stop(t, s)
	ended := 0
	for _, r := range readLog(t, c) {
		if r.Ending != nil {
			ended++
		}
	}
	if ended != 3 {
		t.Errorf("%d of three endings are in the log", ended)
	}
}
