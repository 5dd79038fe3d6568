package execd

import (
	"errors"
	"maps"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer/cgroup"
	"github.com/sandboxd/sandboxd/execd/audit"
)

// TestMismatchIsNeverStarted: a child whose state isn't the plan's is killed at its gate. Here one of its namespaces isn't read back.
func TestMismatchIsNeverStarted(t *testing.T) {
	c := testConfig(t)
	s := start(t, c)
	s.host.Namespaces = maps.Clone(s.host.Namespaces)
	delete(s.host.Namespaces, "net")
	sink := &recordingSink{heard: make(chan struct{})}
	reply := s.Exec(t.Context(), shell("echo ran"), Options{Sink: sink})
	mustBe(t, reply, OutcomeMismatch)
	if len(sink.output) != 0 || reply.Bytes.Stdout != 0 || reply.DurationSeconds != 0 || reply.ExitCode != nil || reply.ExitStatus() != 125 {
		t.Errorf("something ran: %+v", reply)
	}
	if reply.Verdict.Held || len(reply.Verdict.Rows) == 0 || reply.Message == "" || !reply.TreeEmpty {
		t.Errorf("reply %+v", reply)
	}
	stop(t, s)
	for _, r := range readLog(t, c) {
		if r.Type == audit.TypeRelease {
			t.Errorf("a release is in the log: %+v", r)
		}
		if r.Type == audit.TypeMismatch && (r.Verdict == nil || len(r.Verdict.Failed) == 0) {
			t.Errorf("a mismatch without its rows: %+v", r)
		}
	}
}

// TestGateWithoutAWorker: a worker dies while its child waits, and there is no cgroup to tell of the child's end. Nothing ran, but the reply doesn't
// say that nothing is left, and what is left ends with the sandbox.
func TestGateWithoutAWorker(t *testing.T) {
	s := start(t, testConfig(t))
	if s.host.LandlockABI < 6 {
		t.Skip("without Landlock's signal scope an exec needs a cgroup")
	}
	s.host.Cgroup, s.sandboxes.host.Cgroup, s.sandboxes.group = cgroup.Host{}, cgroup.Host{}, nil
	box, err := s.sandboxes.create(t.Context(), Self(), rootSpec{}, "")
	if err != nil {
		t.Fatal(err)
	}
	request := shell("echo ran")
	request.Sandbox = box.id
	w, err := s.enter(t.Context(), request, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, arrow := range []func() error{w.decide, w.build, w.prepare} {
		if err := arrow(); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Kill(w.child.Expect().WorkerPID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	reply := w.fail(errors.New("the worker is gone"))
	s.leave(w)
	if reply.TreeEmpty || reply.Bytes.Stdout != 0 {
		t.Errorf("reply %+v", reply)
	}
	mustBe(t, s.Exec(t.Context(), request, Options{}), OutcomeDenied)
	select {
	case <-box.Gone():
	case <-time.After(10 * time.Second):
		t.Error("the sandbox is still there")
	}
}

// TestMismatchAfterExecve: the second look finds something else than the first, and the tree is killed at once.
func TestMismatchAfterExecve(t *testing.T) {
	c := testConfig(t)
	s := start(t, c)
	w, err := s.enter(t.Context(), shell("sleep 60 & echo ran; sleep 60"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, arrow := range []func() error{w.decide, w.build, w.prepare, w.check, w.record} {
		if err := arrow(); err != nil {
			t.Fatal(err)
		}
	}
	s.host.Namespaces = maps.Clone(s.host.Namespaces)
	delete(s.host.Namespaces, "net")
	if err := w.release(); err != nil {
		t.Fatal(err)
	}
	reply := w.finish(w.wait())
	s.leave(w)
	mustBe(t, reply, OutcomeMismatch)
	if reply.Verdict.Held || len(reply.Verdict.Rows) == 0 || reply.ExitCode != nil || reply.Signal != nil || !reply.TreeEmpty || reply.Message == "" {
		t.Errorf("reply %+v", reply)
	}
	stop(t, s)
	records := readLog(t, c)
	last := records[len(records)-3] // before stop and its checkpoint
	if last.Type != audit.TypeOutcome || last.Ending.Outcome != "mismatch" || last.Verdict == nil || last.Verdict.Held {
		t.Errorf("the record says %+v", last)
	}
}
