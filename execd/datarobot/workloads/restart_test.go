package workloads

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/runner"
	"github.com/sandboxd/sandboxd/test/facade"
)

// What has ended is there after a restart, whole. What hadn't is answered as lost, with a reason, and isn't run again; F9, F13.
func TestRestart(t *testing.T) {
	var state string
	first := serve(t, nil)
	state = first.state
	done := first.created(payload("print('kept')\n_return = 7", nil))
	before, _ := first.until(done)
	running := first.created(payload("import time\ntime.sleep(1000)", timeout("1000")))
	first.until(running, statusRunning)
	first.stop()

	second := serve(t, func(c *execd.Config, w *Config) { c.StateDir, w.Dir = state, filepath.Join(state, "workloads") })
	after, _ := second.until(done)
	if r := second.logs(done, "").read(t); r.marker != "7" || r.stdout != "kept" || after.Status != before.Status || !after.CreatedAt.Equal(before.CreatedAt) ||
		after.StatusDetails.Sandboxd.AuditSequence != before.StatusDetails.Sandboxd.AuditSequence {
		t.Errorf("%+v, %+v", r, after)
	}
	got := second.do("GET", "/workloads/"+running, "")
	if got.status != 503 || !strings.Contains(got.body, "isn't run again") {
		t.Errorf("%d %s", got.status, got.body)
	}
	if l := second.logs(running, ""); l.Count != 0 {
		t.Errorf("%+v", l)
	}
	for _, id := range []string{running, done} {
		if got := second.do("DELETE", "/workloads/"+id, ""); got.status != 204 {
			t.Errorf("%d %s", got.status, got.body)
		}
	}
}

// A daemon that is killed in the midst of a run: the next one answers for it, and the record has one release.
func TestKilledDaemon(t *testing.T) {
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		t.Skip("no python3 that a sandbox could show")
	}
	state := t.TempDir()
	token := filepath.Join(state, "token")
	if err := os.WriteFile(token, []byte(testToken), 0o600); err != nil {
		t.Fatal(err)
	}
	policy := facade.Policy(t)
	daemon := func() (*server, *exec.Cmd) {
		t.Helper()
		cmd := exec.Command(filepath.Join(facade.Programs(t, "sandboxd", runner.Name), "sandboxd"), "serve", "--socket", filepath.Join(state, "run", "s"), "--state", filepath.Join(state, "state"), "--policy", policy,
			"--pool", "0", "--datarobot-listen", "127.0.0.1:0", "--datarobot-token-file", token, "--datarobot-image", testImage)
		log, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }) // it has ended already unless the test failed
		s := &server{t: t, client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}}
		lines, said := bufio.NewScanner(log), ""
		for lines.Scan() {
			said += lines.Text() + "\n"
			if found := regexp.MustCompile(`address=(\S+) protocol="DataRobot workloads"`).FindStringSubmatch(lines.Text()); found != nil {
				s.base = "http://" + found[1]
				break
			}
		}
		if s.base == "" {
			t.Fatalf("it doesn't listen:\n%s", said)
		}
		go func() { _, _ = io.Copy(io.Discard, log) }() // until it ends
		return s, cmd
	}
	s, cmd := daemon()
	id := s.created(payload("import time\ntime.sleep(1000)", timeout("1000")))
	s.until(id, statusRunning)
	for deadline := time.Now().Add(time.Minute); releases(t, state) == 0; time.Sleep(5 * time.Millisecond) { // polls what the test is about
		if time.Now().After(deadline) {
			t.Fatal("nothing is released")
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed

	s, cmd = daemon()
	if got := s.do("GET", "/api/v2/workloads/"+id, ""); got.status != 503 || !strings.Contains(got.body, "isn't run again") {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := s.do("DELETE", "/api/v2/workloads/"+id, ""); got.status != 204 {
		t.Errorf("%d %s", got.status, got.body)
	}
	if n := releases(t, state); n != 1 {
		t.Errorf("%d releases are recorded, want 1", n)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func releases(t *testing.T, state string) (n int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(state, "state", "audit", "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		n += strings.Count(string(data), `"type":"release"`)
	}
	return n
}

// What lies in the directory and isn't whole is a workload that is lost, never one that isn't there, and what was being written is taken away.
func TestTornFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "workloads")
	s, err := openStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	how := endingOf(execd.Reply{Outcome: execd.OutcomeOK, ExitCode: new(0)})
	for _, id := range []string{"whole", "short", "logless"} {
		k := kept{ID: id, Created: time.Now(), Ended: time.Now(), Ending: &how}
		if k.Marks, k.Size, err = s.putLog(id, entriesOf(execd.Reply{}, 1, time.Now())); err != nil {
			t.Fatal(err)
		}
		if err := s.put(k); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"torn.json": `{"id":"torn","cre`, "empty.json": "", "other.json": `{"id":"another"}`, "new.json.new": "{", "short.log": "{}"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(s.log("logless")); err != nil {
		t.Fatal(err)
	}
	if s, err = openStore(dir); err != nil {
		t.Fatal(err)
	}
	list, err := s.all()
	if err != nil {
		t.Fatal(err)
	}
	ended := map[string]bool{}
	for _, k := range list {
		ended[k.ID] = k.Ending != nil
	}
	want := map[string]bool{"whole": true, "short": false, "logless": false, "torn": false, "empty": false, "other": false}
	if len(ended) != len(want) {
		t.Errorf("%v, want %v", ended, want)
	}
	for id, has := range want {
		if got, there := ended[id]; !there || got != has {
			t.Errorf("%s: %v", id, ended)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := openStore(dir); err == nil {
		t.Error("a directory that others may read is taken")
	}
}

// F9: a result that can't be kept is a failure that is told, not a workload that never ends.
func TestFullDisk(t *testing.T) {
	s := serve(t, nil)
	leave, err := s.service.Admit(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	id := s.created(payload("import time\ntime.sleep(0.5)\n_return = 1", nil))
	// The name under which the log is written is taken by a directory, which even root can't write to.
	if err := os.Mkdir(s.facade.store.log(id)+newSuffix, 0o700); err != nil {
		t.Fatal(err)
	}
	leave()
	_, got := s.until(id)
	if got.status != 500 || !strings.Contains(got.body, "log can't be kept") {
		t.Errorf("%d %s", got.status, got.body)
	}
	s.do("DELETE", "/workloads/"+id, "")
	if err := os.RemoveAll(filepath.Join(s.state, "workloads")); err != nil {
		t.Fatal(err)
	}
	if got := s.do("POST", "/workloads", payload("_return = 1", nil)); got.status != 503 || s.facade.waitingBytes != 0 {
		t.Errorf("nothing can be kept, and it is taken: %d %s", got.status, got.body)
	}
}
