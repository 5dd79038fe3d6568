package execd

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestStopDrains: told to stop, what runs ends by itself and is answered, what comes is answered 503, readiness is false; then the log is sealed.
func TestStopDrains(t *testing.T) {
	c := testConfig(t)
	c.DrainTimeout = time.Minute
	d := serve(t, c)
	box := d.makeSandbox(t)
	running := make(chan answer)
	go func() {
		running <- d.do(t, "POST", "/v1/exec", `{"sandbox":"`+box.ID+`","command":{"argv":["sh","-c","until test -e /work/go; do sleep 0.01; done; echo ended"]}}`)
	}()
	d.waitFor(t, "sandboxd_running 1")
	if got := d.do(t, "POST", "/v1/stop", ""); got.status != http.StatusAccepted {
		t.Fatalf("%d %s", got.status, got.body)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		got := d.do(t, "POST", "/v1/exec", `{"command":{"argv":["true"]}}`)
		if got.status == http.StatusServiceUnavailable && strings.Contains(string(got.body), "stopping") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("a new one while it drains: %d %s", got.status, got.body)
		}
	}
	if ready := d.do(t, "GET", "/readyz", ""); ready.status != http.StatusServiceUnavailable {
		t.Errorf("ready while it drains: %d", ready.status)
	}
	if alive := d.do(t, "GET", "/healthz", ""); alive.status != http.StatusOK {
		t.Errorf("not alive while it drains: %d", alive.status)
	}
	s := d.service
	s.mu.Lock() // a walk of a test's own, since none is let in
	s.draining = false
	s.mu.Unlock()
	mark := command("touch", "/work/go")
	mark.Sandbox, mark.Caller = box.ID, Self()
	mark.Caller.Via = "socket"
	mustBe(t, s.Exec(t.Context(), mark, Options{}), OutcomeOK)
	reply := (<-running).reply(t)
	if reply.Outcome != OutcomeOK || reply.Stdout == nil || *reply.Stdout != "ended\n" {
		t.Errorf("what ran while it drained: %+v", reply)
	}
	if err := d.stop(); err != nil {
		t.Error(err)
	}
	records := readLog(t, c)
	if last := records[len(records)-2:]; last[0].Type != "stop" || last[1].Type != "checkpoint" {
		t.Errorf("the log ends with %s, %s", last[0].Type, last[1].Type)
	}
	if slices.ContainsFunc(records, func(r auditRecord) bool { return r.Ending != nil && r.Ending.Outcome == "cancelled" }) {
		t.Error("something was cancelled")
	}
}

// TestDrainIsBounded: what doesn't end in time is ended.
func TestDrainIsBounded(t *testing.T) {
	c := testConfig(t)
	c.DrainTimeout = 50 * time.Millisecond
	d := serve(t, c)
	running := make(chan answer)
	go func() { running <- d.do(t, "POST", "/v1/exec", `{"command":{"argv":["sleep","600"]}}`) }()
	d.waitFor(t, "sandboxd_running 1")
	if err := d.stop(); err != nil {
		t.Error(err)
	}
	if reply := (<-running).reply(t); reply.Outcome != OutcomeCancelled || !reply.TreeEmpty {
		t.Errorf("%+v", reply)
	}
}
