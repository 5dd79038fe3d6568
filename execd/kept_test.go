package execd

import (
	"context"
	"encoding/json/v2"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/test/kerneltest"
)

func TestSandboxesLiveUntilDeleted(t *testing.T) {
	c := testConfig(t)
	c.MaxSandboxes = 2
	d := serve(t, c)
	box, other := d.makeSandbox(t), d.makeSandbox(t)
	if full := d.do(t, "POST", "/v1/sandboxes", "{}"); full.status != 429 {
		t.Errorf("a third of two: %d %s", full.status, full.body)
	}
	if !box.Verdict.Held || box.Verdict.Evidence.Kernel == 0 {
		t.Errorf("verdict %+v", box.Verdict)
	}
	in := func(id, script string) answer {
		body, _ := json.Marshal(map[string]any{"sandbox": id, "command": map[string]any{"argv": []string{"sh", "-c", script}}})
		return d.do(t, "POST", "/v1/exec", string(body))
	}
	mustBe(t, in(box.ID, "echo kept > /work/file").reply(t), OutcomeOK)
	reply := in(box.ID, "cat /work/file").reply(t)
	if stdout, _ := reply.Output(); string(stdout) != "kept\n" {
		t.Errorf("the second exec sees %q", stdout)
	}
	mustBe(t, in(other.ID, "cat /work/file").reply(t), OutcomeError)
	var list SandboxList
	got := d.do(t, "GET", "/v1/sandboxes", "")
	if err := json.Unmarshal(got.body, &list); err != nil || len(list.Sandboxes) != 2 || list.Sandboxes[0].ID != box.ID {
		t.Errorf("list %s (%v)", got.body, err)
	}
	// What runs in a sandbox ends with it, as cancelled.
	running := make(chan answer)
	go func() { running <- in(box.ID, "sleep 60") }()
	for deadline := time.Now().Add(10 * time.Second); d.service.queue.running() != 1; {
		if time.Now().After(deadline) {
			t.Fatal("nothing runs")
		}
		time.Sleep(time.Millisecond) // polls the state that the test is about
	}
	time.Sleep(200 * time.Millisecond) // past the gate, most likely; either side of it is right
	if gone := d.do(t, "DELETE", "/v1/sandboxes/"+box.ID, ""); gone.status != 204 || len(gone.body) != 0 {
		t.Errorf("delete: %d %s", gone.status, gone.body)
	}
	if reply := (<-running).reply(t); reply.Outcome != OutcomeCancelled || !reply.TreeEmpty {
		t.Errorf("what ran in it: %s, treeEmpty %t, %s", reply.Outcome, reply.TreeEmpty, reply.Message)
	}
	for _, got := range []answer{d.do(t, "GET", "/v1/sandboxes/"+box.ID, ""), d.do(t, "DELETE", "/v1/sandboxes/"+box.ID, ""), in(box.ID, "true")} {
		if got.status != 404 {
			t.Errorf("after its end: %d %s", got.status, got.body)
		}
	}
	if got := d.do(t, "GET", "/v1/sandboxes/"+other.ID, ""); got.status != 200 {
		t.Errorf("the other: %d %s", got.status, got.body)
	}
}

// TestUsersOfOneSandbox: execs under different uids share a sandbox's directories, and none takes away what another's uid left there.
func TestUsersOfOneSandbox(t *testing.T) {
	kerneltest.Require(t, kerneltest.Root)
	d := serve(t, testConfig(t))
	box := d.makeSandbox(t)
	in := func(uid int, script string) Reply {
		body, err := json.Marshal(map[string]any{
			"sandbox": box.ID, "command": map[string]any{"argv": []string{"sh", "-c", script}},
			"securityContext": map[string]any{"runAsUser": uid, "runAsGroup": uid},
		})
		if err != nil {
			t.Fatal(err)
		}
		return d.do(t, "POST", "/v1/exec", string(body)).reply(t)
	}
	for _, dir := range []string{"/work", "/tmp", "/dev/shm"} {
		mustBe(t, in(70_001, "echo first > "+dir+"/file && mkdir "+dir+"/dir && umask 0 && echo shared > "+dir+"/shared"), OutcomeOK)
		reply := in(70_002, "cd "+dir+" && echo second > other && cat file && echo more >> shared; rm -f file; rmdir dir; mv file away; mv other file; ls")
		stdout, stderr := reply.Output()
		if want := "first\ndir\nfile\nother\nshared\n"; string(stdout) != want || strings.Count(string(stderr), "not permitted") != 4 {
			t.Errorf("%s: %q %q, want %q and four refusals", dir, stdout, stderr, want)
		}
		mustBe(t, in(70_001, "cd "+dir+" && rm file shared && rmdir dir"), OutcomeOK)
	}
}

// TestSandboxesAreTheirOwners: to anybody else a sandbox isn't there, whatever he does with its id, and what he tries changes nothing.
func TestSandboxesAreTheirOwners(t *testing.T) {
	s := start(t, testConfig(t))
	owner, other := Self(), Self()
	other.UID++
	box, err := s.sandboxes.create(t.Context(), owner, rootSpec{}, "")
	if err != nil {
		t.Fatal(err)
	}
	handler := s.Handler()
	do := func(caller policy.Caller, method, path, body string) *httptest.ResponseRecorder {
		request := httptest.NewRequest(method, path, strings.NewReader(body)).WithContext(context.WithValue(t.Context(), callerKey{}, caller))
		request.Header.Set("Content-Type", "application/json")
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, request)
		return recorder
	}
	for _, row := range []struct{ method, path string }{{"GET", "/v1/sandboxes/" + box.id}, {"DELETE", "/v1/sandboxes/" + box.id}} {
		if got := do(other, row.method, row.path, ""); got.Code != 404 {
			t.Errorf("%s of another's sandbox: %d %s", row.method, got.Code, got.Body)
		}
	}
	if list := do(other, "GET", "/v1/sandboxes", ""); list.Code != 200 || strings.Contains(list.Body.String(), box.id) {
		t.Errorf("another's list: %d %s", list.Code, list.Body)
	}
	// The walk asks too: not every caller comes by HTTP.
	request := shell("echo ran")
	request.Sandbox, request.Caller = box.id, other
	if reply := s.Exec(t.Context(), request, Options{}); reply.Outcome != OutcomeDenied || reply.Bytes.Stdout != 0 {
		t.Errorf("exec in another's sandbox: %+v", reply)
	}
	if got := do(owner, "GET", "/v1/sandboxes/"+box.id, ""); got.Code != 200 {
		t.Errorf("the owner's own: %d %s", got.Code, got.Body)
	}
	if err := s.sandboxes.delete(t.Context(), box.id, owner); err != nil {
		t.Error(err)
	}
}
