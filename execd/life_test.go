package execd

import (
	"context"
	"encoding/json/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

func TestHealth(t *testing.T) {
	c := testConfig(t)
	c.Pool = 1
	d := serve(t, c)
	d.waitFor(t, "sandboxd_sandboxes_ready 1")
	if got := d.do(t, "GET", "/readyz", ""); got.status != 200 {
		t.Errorf("readyz: %d %s", got.status, got.body)
	}
	var status Status
	got := d.do(t, "GET", "/v1/status", "")
	if err := json.Unmarshal(got.body, &status, json.RejectUnknownMembers(true)); err != nil || !status.Ready || status.Policy.Revision == "" || len(status.Host.Mechanisms) == 0 {
		t.Errorf("status %s (%v)", got.body, err)
	}
	mustBe(t, d.do(t, "POST", "/v1/exec", `{"command":{"argv":["true"]}}`).reply(t), OutcomeOK)
	d.waitFor(t, `sandboxd_execs_total{action="exec",outcome="ok"} 1`)
	d.waitFor(t, `sandboxd_http_answers_total{route="/v1/exec",status="200"} 1`)
	// A log that can't be written: not ready, and nothing is released.
	if err := d.service.log.Close(); err != nil {
		t.Fatal(err)
	}
	reply := d.do(t, "POST", "/v1/exec", `{"command":{"argv":["echo","ran"]}}`)
	if r := reply.reply(t); reply.status != 500 || r.Outcome != OutcomeInfra || r.Bytes.Stdout != 0 || r.DurationSeconds != 0 {
		t.Errorf("%d %s", reply.status, reply.body)
	}
	if err := d.stop(); err == nil {
		t.Error("a stop that can't be recorded is no error")
	}
	d.stop = func() error { return nil }
}

// TestGracefulStop: what runs is killed, answered as cancelled and recorded; then the socket is gone.
func TestGracefulStop(t *testing.T) {
	c := testConfig(t)
	d := serve(t, c)
	box := d.makeSandbox(t)
	running := make(chan answer)
	go func() {
		running <- d.do(t, "POST", "/v1/exec", `{"stream":true,"command":{"argv":["sh","-c","echo go; sleep 60"]}}`)
	}()
	d.waitFor(t, "sandboxd_running 1")
	time.Sleep(200 * time.Millisecond) // past the gate, most likely; either side of it is right
	began := time.Now()
	if err := d.stop(); err != nil {
		t.Errorf("Serve: %v", err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the stop took %s", took)
	}
	list := events(t, (<-running).body)
	if last := list[len(list)-1]; last.Event != "exit" || last.Reply.Outcome != OutcomeCancelled || !last.Reply.TreeEmpty {
		t.Errorf("what ran ended with %+v", last.Reply)
	}
	if _, err := os.Lstat(d.path); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
	records := readLog(t, c)
	if last, seal := records[len(records)-2], records[len(records)-1]; last.Type != "stop" || seal.Type != "checkpoint" {
		t.Errorf("the last records are %s and %s", last.Type, seal.Type)
	}
	made := slices.ContainsFunc(records, func(r auditRecord) bool { return r.Sandbox == box.ID && r.Message == "made" })
	cancelled := slices.ContainsFunc(records, func(r auditRecord) bool { return r.Ending != nil && r.Ending.Outcome == "cancelled" })
	if !made || !cancelled {
		t.Errorf("the log has made %t, cancelled %t", made, cancelled)
	}
}

// TestNothingIsLeft: after requests of every kind and a stop, no descriptor, no child and no cgroup of the service is left.
func TestNothingIsLeft(t *testing.T) {
	c := testConfig(t)
	c.Pool = 1
	before := openFiles(t)
	s, err := New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	late := shell("sleep 60 & setsid sleep 60 & sleep 60")
	late.Limits.TimeoutSeconds = 0.2
	denied := command("true")
	denied.SecurityContext.Privileged = new(true)
	gone, leave := context.WithCancel(t.Context())
	leave()
	for range 3 {
		mustBe(t, s.Exec(t.Context(), command("true"), Options{}), OutcomeOK)
		mustBe(t, s.Exec(t.Context(), command("no-such-program"), Options{}), OutcomeNotStarted)
		mustBe(t, s.Exec(t.Context(), command("/usr"), Options{}), OutcomeNotStarted)
		mustBe(t, s.Exec(t.Context(), denied, Options{}), OutcomeDenied)
		mustBe(t, s.Exec(t.Context(), late, Options{}), OutcomeTimeout)
		mustBe(t, s.Exec(t.Context(), pythonRun("_return = 1"), Options{}), OutcomeOK)
		mustBe(t, s.Exec(gone, command("true"), Options{}), OutcomeCancelled)
	}
	box, err := s.sandboxes.create(t.Context(), Self(), rootSpec{}, "")
	if err != nil {
		t.Fatal(err)
	}
	kept := command("true")
	kept.Sandbox = box.id
	mustBe(t, s.Exec(t.Context(), kept, Options{}), OutcomeOK)
	group := ""
	if s.group != nil {
		group = filepath.Join(s.host.Cgroup.Base, s.host.Cgroup.Daemon)
	}
	stop(t, s)
	if after := openFiles(t); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
	if _, err := os.Stat(group); group != "" && !os.IsNotExist(err) {
		t.Errorf("the cgroup is still there: %v", err)
	}
	var status syscall.WaitStatus
	if pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil); err == nil {
		t.Errorf("a child is left: %d", pid)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
