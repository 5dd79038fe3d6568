package execd

import (
	"encoding/json/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/enforcer/landlock"
	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/policy"
)

func (d *daemon) verify(t *testing.T, body, query string) VerifyReply {
	t.Helper()
	got := d.do(t, "POST", "/v1/verify"+query, body)
	var reply VerifyReply
	if err := json.Unmarshal(got.body, &reply, json.RejectUnknownMembers(true)); err != nil || got.status != 200 {
		t.Fatalf("%d %s: %v", got.status, got.body, err)
	}
	return reply
}

// proven is the row of earlier probes in a verdict.
func proven(reply Reply) *policy.Row {
	if i := slices.IndexFunc(reply.Verdict.Rows, func(r policy.Row) bool { return r.Control == "probes" }); i >= 0 {
		return &reply.Verdict.Rows[i]
	}
	return nil
}

// TestVerify reads back the daemon, a sandbox and what runs in it, and tries forbidden acts. From then on verdicts name that proof, which outlives
// the daemon and not the boot.
func TestVerify(t *testing.T) {
	c := testConfig(t)
	d := serve(t, c)
	if row := proven(d.service.Exec(t.Context(), command("true"), Options{Rows: true})); row != nil {
		t.Errorf("proven before anything was tried: %+v", row)
	}
	box := d.makeSandbox(t)
	r := shell("sleep 60")
	r.Sandbox, r.Caller.Via = box.ID, "socket"
	w, replies := runs(t, d.service, r)
	reply := d.verify(t, "", "")
	if !reply.Held || len(reply.Daemon.Rows) != 0 || reply.Daemon.Evidence.Kernel < 15 || reply.AuditSequence == 0 || reply.BootID == "" {
		t.Errorf("%+v", reply)
	}
	// The caller's, and the fresh one that the acts were tried in.
	if len(reply.Sandboxes) != 2 || reply.Sandboxes[0].ID != box.ID || reply.Sandboxes[0].Verdict.Evidence.Kernel < 30 {
		t.Errorf("sandboxes %+v", reply.Sandboxes)
	}
	if len(reply.Execs) != 1 || reply.Execs[0].ID != w.id || reply.Execs[0].Sandbox != box.ID || reply.Execs[0].Verdict.Evidence.Kernel < 30 {
		t.Errorf("execs %+v", reply.Execs)
	}
	plans := 1 // the default one, and the same with a network that lets something out
	if d.service.host.Fence {
		plans = 2
	}
	if len(reply.Probes) != plans || reply.Probes[0].Verdict.Evidence.Probe < 90 || reply.Probes[0].Verdict.Evidence.Kernel != 0 || reply.Probes[0].Message != "" {
		t.Errorf("probes %+v", reply.Probes)
	}
	only := d.verify(t, `{"sandbox":"`+box.ID+`"}`, "?rows=true")
	if !only.Held || len(only.Sandboxes) != 1 || len(only.Execs) != 1 || len(only.Sandboxes[0].Verdict.Rows) < 30 {
		t.Errorf("held %t, %d sandboxes, %d execs, probes %v", only.Held, len(only.Sandboxes), len(only.Execs), only.Probes)
	}
	if err := d.service.sandboxes.delete(t.Context(), box.ID, r.Caller); err != nil {
		t.Fatal(err)
	}
	<-replies
	row := proven(d.service.Exec(t.Context(), command("true"), Options{Rows: true}))
	if row == nil || !row.Held || row.Evidence != policy.EvidenceProbe || !strings.Contains(row.Got, "by another process") {
		t.Errorf("%+v", row)
	}
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	types := map[audit.Type]int{}
	for _, r := range readLog(t, c) {
		types[r.Type]++
		if r.Type == audit.TypeVerify && r.Message == "" {
			t.Errorf("%+v", r)
		}
	}
	if types[audit.TypeVerify] != 2*(2*plans+1) || types[audit.TypeEgress] != 0 || types[audit.TypeDrift] != 0 {
		t.Errorf("%v", types)
	}
	next := start(t, c)
	if row := proven(next.Exec(t.Context(), command("true"), Options{Rows: true})); row == nil || !row.Held {
		t.Errorf("the next daemon knows nothing of it: %+v", row)
	}
	stop(t, next)
	rewrite(t, c, `"bootId":"`, `"bootId":"x`)
	booted := start(t, c)
	if row := proven(booted.Exec(t.Context(), command("true"), Options{Rows: true})); row != nil {
		t.Errorf("proven on another boot: %+v", row)
	}
}

// rewrite changes the file of proofs.
func rewrite(t *testing.T, c Config, from, to string) {
	t.Helper()
	path := filepath.Join(c.StateDir, "probes.json")
	data, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, []byte(strings.ReplaceAll(string(data), from, to)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestVerifyFindsWhatIsNotHeld: a domain that grants what the plan's acts say it refuses. Nothing runs under that confinement until it is proven again.
func TestVerifyFindsWhatIsNotHeld(t *testing.T) {
	if landlock.ABI() == 0 {
		t.Skip("this kernel has no Landlock")
	}
	c := testConfig(t)
	c.ProbeInterval = 0
	s := start(t, c)
	box, err := s.sandboxes.create(t.Context(), Self(), rootSpec{}, "")
	if err != nil {
		t.Fatal(err)
	}
	plan, err := s.defaultPlan(t.Context(), box)
	if err != nil {
		t.Fatal(err)
	}
	wide := plan
	wide.Landlock.Paths = append(slices.Clone(plan.Landlock.Paths), landlock.PathRule{Path: landlock.ProbeDir, Access: landlock.Write & plan.Landlock.HandledFS})
	proof, err := s.prove(t.Context(), box, wide)
	if err != nil || proof.held() || !hasRow(proof.Failed, "landlock.make_dir") || hasRow(proof.Failed, "landlock.make_char") {
		t.Fatalf("%+v, %v", proof, err)
	}
	if len(s.troubles()) != 1 {
		t.Errorf("%v", s.troubles())
	}
	mustBe(t, s.Exec(t.Context(), command("true"), Options{}), OutcomeOK) // another confinement
	if _, err := s.proofs.add(plan.ConfinementDigest(), proof.Failed); err != nil {
		t.Fatal(err)
	}
	reply := s.Exec(t.Context(), shell("echo ran"), Options{})
	mustBe(t, reply, OutcomeMismatch)
	if row := proven(reply); row == nil || row.Held || !strings.Contains(row.Got, "landlock.make_dir") || reply.Bytes.Stdout != 0 {
		t.Errorf("%+v", reply)
	}
	if len(s.troubles()) != 2 || len(s.proofs.stale(time.Now().Add(-time.Hour))) != 2 {
		t.Errorf("%v, and to be tried again: %v", s.troubles(), s.proofs.stale(time.Now().Add(-time.Hour)))
	}
	if got, err := s.Verify(t.Context(), VerifyRequest{}, Self(), false); err != nil || !got.Held {
		t.Errorf("%+v, %v", got, err)
	}
	mustBe(t, s.Exec(t.Context(), command("true"), Options{}), OutcomeOK)
}

// TestVerifyOfAListener: a plan whose refusals come by the daemon refuses the same.
func TestVerifyOfAListener(t *testing.T) {
	s := start(t, testConfig(t))
	if !s.host.SeccompListener {
		t.Skip("seccomp.listener: Linux 5.19")
	}
	box, err := s.sandboxes.create(t.Context(), Self(), rootSpec{}, "")
	if err != nil {
		t.Fatal(err)
	}
	plan, err := s.defaultPlan(t.Context(), box)
	if err != nil {
		t.Fatal(err)
	}
	plain := len(enforcer.Acts(plan, s.host.Arch))
	plan.Seccomp = plan.Seccomp.Explaining()
	if proof, err := s.prove(t.Context(), box, plan); err != nil || !proof.held() || proof.Acts != plain {
		t.Errorf("%d of %d acts, %v, %v", proof.Acts, plain, proof.Failed, err)
	}
}

// TestVerifyDrifted: a drifted sandbox is reported, and nothing is tried in it.
func TestVerifyDrifted(t *testing.T) {
	needRoot(t)
	c := testConfig(t)
	c.DriftInterval, c.OnDrift = 0, DriftDeny
	s := start(t, c)
	box, err := s.sandboxes.create(t.Context(), Self(), rootSpec{}, "")
	if err != nil {
		t.Fatal(err)
	}
	r := shell("sleep 60")
	r.Sandbox = box.id
	w, replies := runs(t, s, r)
	if err := moveAway(t, w); err != nil {
		t.Fatal(err)
	}
	// The verification itself is what finds it, here without a timer.
	for range 2 {
		got, err := s.Verify(t.Context(), VerifyRequest{Sandbox: box.id}, Self(), false)
		if err != nil || got.Held || len(got.Execs) != 1 || !hasRow(got.Execs[0].Verdict.Rows, "cgroup") {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if len(s.troubles()) != 1 {
		t.Errorf("%v", s.troubles())
	}
	if err := s.sandboxes.delete(t.Context(), box.id, Self()); err != nil {
		t.Fatal(err)
	}
	mustBe(t, <-replies, OutcomeMismatch)
}

func TestVerifyRefuses(t *testing.T) {
	d := serve(t, testConfig(t))
	for body, status := range map[string]int{
		`{"sandbox":"0123"}`: 404, `{"sandbax":"0123"}`: 400, `[]`: 400, `{"sandbox":1}`: 400, `{} {}`: 400,
	} {
		if got := d.do(t, "POST", "/v1/verify", body); got.status != status {
			t.Errorf("%s: %d %s", body, got.status, got.body)
		}
	}
	if got := d.do(t, "POST", "/v1/verify?row=true", ""); got.status != 400 {
		t.Errorf("%d %s", got.status, got.body)
	}
	// What isn't the caller's isn't there.
	stranger := policy.Caller{UID: 4711, GID: 4711, Via: "socket"}
	box := d.makeSandbox(t)
	if _, err := d.service.Verify(t.Context(), VerifyRequest{Sandbox: box.ID}, stranger, false); err == nil {
		t.Error("a stranger verifies another's sandbox")
	}
	got, err := d.service.Verify(t.Context(), VerifyRequest{}, stranger, false)
	if err != nil || slices.ContainsFunc(got.Sandboxes, func(p SandboxProof) bool { return p.ID == box.ID }) {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestProofsFile: a file that isn't ours alone, or isn't whole, says nothing.
func TestProofsFile(t *testing.T) {
	host := enforcer.Host{Kernel: "6.1.0", BootID: "b"}
	for _, row := range []struct {
		name, text string
		mode       os.FileMode
		known      int
	}{
		{"good", `[{"plan":"p","kernel":"` + host.Kernel + `","bootId":"` + host.BootID + `","at":"2026-01-01T00:00:00Z","acts":3,"failed":[]}]`, 0o600, 1},
		{"another kernel", `[{"plan":"p","kernel":"1.0","bootId":"` + host.BootID + `","at":"2026-01-01T00:00:00Z","acts":3,"failed":[]}]`, 0o600, 0},
		{"no act", `[{"plan":"p","kernel":"` + host.Kernel + `","bootId":"` + host.BootID + `","at":"2026-01-01T00:00:00Z","acts":0,"failed":[]}]`, 0o600, 0},
		{"others may write", `[]`, 0o666, -1},
		{"cut", `[{"plan":"p"`, 0o600, -1},
		{"unknown field", `[{"plan":"p","held":true}]`, 0o600, -1},
	} {
		path := filepath.Join(t.TempDir(), "probes.json")
		if err := os.WriteFile(path, []byte(row.text), row.mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, row.mode); err != nil {
			t.Fatal(err)
		}
		var p proofs
		if err := p.open(path, host); (err != nil) != (row.known < 0) || len(p.known) != max(row.known, 0) {
			t.Errorf("%s: %v, %v", row.name, p.known, err)
		}
	}
	var none proofs
	if err := none.open(filepath.Join(t.TempDir(), "none"), host); err != nil {
		t.Error(err)
	}
}
