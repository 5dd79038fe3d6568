package place

import (
	"encoding/json/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/policy"
)

// TestRestricted: no capability anywhere, two users, and what the place lets us hold is held and proven.
func TestRestricted(t *testing.T) {
	p := newPod(t)
	p.serve("")
	defer p.say()
	if status, body := p.get("/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, "no launcher is connected") {
		t.Errorf("without a launcher: %d %s", status, body)
	}
	if got := p.exec("true"); got.Code != "NOT_READY" {
		t.Errorf("an exec without a launcher: %+v", got)
	}
	p.connect()
	p.isReady()
	if _, err := os.Stat(p.path("run/launcher/launcher.sock")); !os.IsNotExist(err) {
		t.Errorf("the launcher's socket is still there: %v", err)
	}
	got := p.exec("sh", "-c", "id -u; pwd; cat /proc/self/status")
	if got.Outcome != "ok" || !strings.HasPrefix(got.Stdout, strconv.Itoa(runnerUID)+"\n/tmp\n") || !strings.Contains(got.Stdout, "NoNewPrivs:\t1") {
		t.Errorf("%+v", got)
	}
	if got.Verdict.Tier != policy.TierRestricted || !strings.Contains(strings.Join(got.Verdict.Degraded, "\n"), "ids.separate") {
		t.Errorf("%+v", got.Verdict)
	}
	evidence(t, got.Verdict.Rows)
	if got := p.post("/v1/run", map[string]any{"language": "python", "code": "_return = inputs['x'] * 2", "inputs": map[string]any{"x": 21}}); got.ReturnValue != 42.0 {
		t.Errorf("run: %+v", got)
	}
	// What the next exec finds, in the one directory that may be written to; and not elsewhere, though permissions would allow it.
	p.ran("sh", "-c", "echo here > /tmp/file")
	if got := p.ran("cat", "/tmp/file"); got != "here\n" {
		t.Errorf("%q", got)
	}
	if got := p.exec("sh", "-c", "echo x > /dev/full"); got.Outcome != "error" || !strings.Contains(got.Stderr, "Permission denied") {
		t.Errorf("a device that isn't granted: %+v", got)
	}
	if status, body := p.do(http.MethodPost, "/v1/sandboxes", ""); status != http.StatusForbidden || !strings.Contains(body, "host.sandbox.make") {
		t.Errorf("another sandbox: %d %s", status, body)
	}
	if got := p.post("/v1/exec", map[string]any{"command": map[string]any{"argv": []string{"true"}}, "limits": map[string]any{"memoryBytes": 64 << 20}}); got.Outcome != "denied" || len(got.Reasons) != 1 || got.Reasons[0].Rule != "host.cgroup.memory" {
		t.Errorf("a limit that nobody holds here: %+v", got)
	}
	var status execd.Status
	if _, body := p.get("/v1/status"); json.Unmarshal([]byte(body), &status) != nil || status.Host.Tier != policy.TierRestricted || status.Host.Place != "attached" || status.Sandboxes.Kept != 1 {
		t.Errorf("status: %s", body)
	}
	p.verifies()
}

// evidence: what everybody may read is the kernel's word, and what this daemon may not read isn't said to be.
func evidence(t *testing.T, rows []policy.Row) {
	t.Helper()
	want := map[string]policy.Evidence{
		"identity.uid": policy.EvidenceKernel, "capabilities.effective": policy.EvidenceKernel, "no_new_privs": policy.EvidenceKernel, "seccomp.mode": policy.EvidenceKernel,
		"seccomp.filters": policy.EvidenceKernel, "dumpable": policy.EvidenceKernel, "namespaces.net (net/dev)": policy.EvidenceKernel, "namespaces.mnt (root mount)": policy.EvidenceKernel,
		"seccomp.filter": policy.EvidenceReport, "fd": policy.EvidenceReport, "exe": policy.EvidenceReport, "cwd": policy.EvidenceReport,
		"landlock.fs": policy.EvidenceProbe, "landlock.scope.signal": policy.EvidenceProbe,
	}
	for control, by := range want {
		i := slices.IndexFunc(rows, func(r policy.Row) bool { return r.Control == control })
		if i < 0 || rows[i].Evidence != by || !rows[i].Held {
			t.Errorf("%s: want it by %s, have %+v", control, by, rows[max(i, 0)])
		}
	}
}

// verifies has everything read back and the forbidden acts tried.
func (p *pod) verifies() {
	p.t.Helper()
	status, body := p.do(http.MethodPost, "/v1/verify?rows=true", "")
	var got execd.VerifyReply
	if err := json.Unmarshal([]byte(body), &got); err != nil || status != http.StatusOK {
		p.t.Fatalf("%d %s", status, body)
	}
	acts := 0
	for _, proof := range got.Probes {
		acts += proof.Verdict.Evidence.Probe
	}
	if !got.Held || len(got.Sandboxes) != 1 || acts < 50 {
		p.t.Errorf("held %t, %d sandboxes, %d acts: %s", got.Held, len(got.Sandboxes), acts, body)
	}
}

// everything has a tree with a member in a session of its own.
var everything = []string{"sh", "-c", "setsid sleep 100 & trap '' TERM; sleep 100"}

// TestEnds: however an exec, the launcher or the daemon ends, nothing of it is left, and what comes next is proven anew.
func TestEnds(t *testing.T) {
	p := newPod(t)
	p.start("")
	defer p.say()
	began := time.Now()
	got := p.post("/v1/exec", map[string]any{"command": map[string]any{"argv": everything}, "limits": map[string]any{"timeoutSeconds": 0.3}})
	if got.Outcome != "timeout" || !got.TreeEmpty || time.Since(began) > 20*time.Second {
		t.Errorf("%v: %+v", time.Since(began), got)
	}
	for _, end := range []struct {
		name string
		do   func()
	}{
		{"the launcher is killed", func() { p.launcher.kill(); p.isUnready() }},
		{"the launcher is asked to end", func() { _ = p.launcher.Process.Signal(syscall.SIGTERM); p.launcher.kill(); p.isUnready() }},
		{"the daemon is killed", func() { p.daemon.kill(); <-p.launcher.ended; p.serve("") }},
		{"the daemon is stopped", func() {
			_ = p.daemon.Process.Signal(syscall.SIGTERM)
			<-p.daemon.ended
			<-p.launcher.ended
			p.serve("")
		}},
	} {
		t.Run(end.name, func(t *testing.T) {
			done := make(chan struct{})
			go func() {
				defer close(done)
				p.do(http.MethodPost, "/v1/exec", `{"command":{"argv":["sh","-c","setsid sleep 100 & sleep 100"]}}`)
			}()
			await(t, "an exec runs", func() bool { return len(ofRunner(t)) >= 5 }) // launcher, worker, the shell and its two
			end.do()
			<-done
			isEmpty(t)
			p.connect()
			p.isReady()
			if got := p.ran("echo", "again"); got != "again\n" {
				t.Errorf("%q", got)
			}
		})
	}
}

// TestWrongPeers: neither end takes somebody else for the other.
func TestWrongPeers(t *testing.T) {
	p := newPod(t)
	p.serve("")
	defer p.say()
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	launcher := func(uid int, capabilities, daemon string) *process {
		p := begin(t, p.inside(as(uid, capabilities, bin+"/sandboxd-runner", "connect", p.path("run/launcher/launcher.sock"), daemon)...)...)
		<-p.ended
		return p
	}
	// Another user's launcher is closed at once, and recorded.
	launcher(otherUID, "", strconv.Itoa(daemonUID))
	await(t, "a record of the stranger", func() bool {
		return p.recorded("refused", strconv.Itoa(otherUID))
	})
	// A launcher that is told of another daemon doesn't become what this one sends.
	if got := launcher(runnerUID, "", strconv.Itoa(otherUID)); !strings.Contains(got.out.String(), "isn't the daemon") {
		t.Errorf("%s", got.out)
	}
	// One with a capability isn't fit.
	launcher(runnerUID, "+kill", strconv.Itoa(daemonUID))
	await(t, "a record of the unfit", func() bool {
		return p.recorded("mismatch", "launcher.capabilities")
	})
	// Nor is one beside which another process of its user is: that could be what an earlier launcher left.
	isEmpty(t)
	left := begin(t, as(runnerUID, "", "sleep", "100")...)
	await(t, "somebody else of that user", func() bool { return len(ofRunner(t)) > 0 })
	launcher(runnerUID, "", strconv.Itoa(daemonUID))
	await(t, "a record of the other", func() bool {
		return p.recorded("mismatch", "launcher.others of its uid")
	})
	left.kill()
	isEmpty(t)
	p.connect()
	p.isReady()
}

// TestSameUser: on an ordinary user's machine daemon and launcher have one uid, and every verdict says what that leaves.
func TestSameUser(t *testing.T) {
	p := newPod(t)
	p.serve("")
	defer p.say()
	p.daemon.kill()
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	socket, launcher := p.path("run/api/sandboxd.sock"), p.path("run/launcher/launcher.sock")
	p.daemon = begin(t, p.inside(as(daemonUID, "", bin+"/sandboxd", "serve", "--socket", socket, "--allow", "0", "--state", p.path("state"), "--runner-socket", launcher,
		"--runner-uid", strconv.Itoa(daemonUID))...)...)
	p.launcher = begin(t, p.inside(as(daemonUID, "", bin+"/sandboxd-runner", "connect", launcher, strconv.Itoa(daemonUID))...)...)
	p.isReady()
	got := p.exec("sh", "-c", "kill -0 $1 2>&1; setsid sleep 100 & exit 3", "sh", strconv.Itoa(p.daemon.Process.Pid))
	if got.Outcome != "error" || *got.ExitCode != 3 || !got.TreeEmpty || !strings.Contains(strings.Join(got.Verdict.Degraded, "\n"), "ids.daemon: ") {
		t.Errorf("%+v", got)
	}
	if !strings.Contains(got.Stdout, "not permitted") {
		t.Errorf("the daemon can be signalled: %q", got.Stdout)
	}
	p.verifies()
	p.launcher.kill()
	p.isUnready()
}
