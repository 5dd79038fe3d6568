package execd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/rego"
)

// A mounted listener's requests are another handler's, which asks who has sent them; the API's stay the API's.
func TestMount(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	const token = "0123456789-0123456789-0123456789-0123456789"
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := ListenToken("127.0.0.1:0", file, false)
	if err != nil {
		t.Fatal(err)
	}
	d := serve(t, testConfig(t), Mount(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, err := CallerOf(r)
		if err != nil {
			e, status := AsError(err)
			http.Error(w, e.Code, status)
			return
		}
		fmt.Fprint(w, r.URL.Path, " for ", caller.Via)
	})))
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, row := range []struct {
		tokens []string
		status int
		body   string
	}{{nil, 401, "UNAUTHORIZED\n"}, {[]string{"Bearer x"}, 401, "UNAUTHORIZED\n"}, {[]string{"Bearer " + token}, 200, "/elsewhere for token"}} {
		if got := d.ask(t, client, "GET", "http://"+l.Addr().String(), "/elsewhere", "", row.tokens); got.status != row.status || string(got.body) != row.body {
			t.Errorf("%v: %d %q", row.tokens, got.status, got.body)
		}
	}
	if got := d.do(t, "GET", "/elsewhere", ""); got.status != 404 {
		t.Errorf("%d %s", got.status, got.body)
	}
	d.waitFor(t, "sandboxd_refused_connections_total 2")
}

// Judge says what the walk would, before it; a no is on record.
func TestJudge(t *testing.T) {
	c := testConfig(t)
	s := start(t, c)
	if reasons, err := s.Judge(t.Context(), shell("true")); err != nil || len(reasons) > 0 {
		t.Errorf("%v, %v", reasons, err)
	}
	before := len(readLog(t, c))
	denied := shell("true")
	denied.SecurityContext.Privileged = new(true)
	reasons, err := s.Judge(t.Context(), denied)
	if err != nil || len(reasons) == 0 {
		t.Errorf("%v, %v", reasons, err)
	}
	records := readLog(t, c)
	if last := records[len(records)-1]; len(records) != before+1 || last.Type != audit.TypeDecision || last.DryRun || last.Decision.Allow {
		t.Errorf("%d records, then %d: %+v", before, len(records), last)
	}
	tiny := shell("true")
	tiny.Limits.MemoryBytes = 1 // no host holds that, and policy doesn't mind
	if reasons, err = s.Judge(t.Context(), tiny); err != nil || len(reasons) != 1 || reasons[0].Field != "limits.memoryBytes" {
		t.Errorf("%v, %v", reasons, err)
	}
	s.beginStop()
	if _, err := s.Judge(context.Background(), shell("true")); !errors.Is(err, errStopping) {
		t.Errorf("%v", err)
	}
}

// Admit gives as many places as execs may run, and waits as long as its caller does.
func TestAdmit(t *testing.T) {
	c := testConfig(t)
	c.MaxRunning = 1
	s := start(t, c)
	leave, err := s.Admit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if _, err := s.Admit(ctx); !errors.Is(err, gone) {
		t.Errorf("%v", err)
	}
	waited := make(chan error, 1)
	go func() {
		second, err := s.Admit(context.Background())
		if err == nil {
			second()
		}
		waited <- err
	}()
	leave()
	if err := <-waited; err != nil {
		t.Error(err)
	}
	leave, err = s.Admit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, err := s.Admit(context.Background()); waited <- err }()
	s.beginStop()
	if err := <-waited; !errors.Is(err, errStopping) {
		t.Errorf("%v", err)
	}
	leave()
	if _, err := s.Admit(context.Background()); !errors.Is(err, errStopping) {
		t.Errorf("%v", err)
	}
}

// Where policy accepts that nothing limits memory, it is counted; the reply says whose count it was.
func TestCountedMemory(t *testing.T) {
	c := testConfig(t)
	c.PolicyDir = filepath.Join(t.TempDir(), "policy")
	if err := os.CopyFS(c.PolicyDir, rego.Bundle); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(c.PolicyDir, "data.json"))
	if err != nil {
		t.Fatal(err)
	}
	data = bytes.Replace(data, []byte(`"accept": []`), []byte(`"accept": ["cgroup.memory"]`), 1)
	if err := os.WriteFile(filepath.Join(c.PolicyDir, "data.json"), data, 0o644); err != nil {
		t.Fatal(err)
	}
	s := start(t, c)
	s.host.Cgroup.Controllers = []string{}
	r := command("dd", "if=/dev/zero", "of=/dev/null", "bs=256M", "count=1000")
	r.Limits.MemoryBytes = 64 << 20
	reply := s.Exec(t.Context(), r, Options{})
	mustBe(t, reply, OutcomeOOM)
	if reply.ExitStatus() != 137 || reply.OOMKills != 0 || reply.Message == "" || len(reply.Verdict.Degraded) == 0 || !reply.TreeEmpty {
		t.Errorf("%+v", reply)
	}
}
