package execd

import (
	"context"
	"encoding/json/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/policy/engine"
	"github.com/sandboxd/sandboxd/rego"
)

// lateConfig is a daemon's that waits for its policy.
func lateConfig(t *testing.T) Config {
	t.Helper()
	c := testConfig(t)
	c.TestedPolicy, c.Late.On = false, true
	return c
}

// bindable is the built-in bundle with as few tests as a bundle may have, which change replaces a text of.
func bindable(t *testing.T, from, to string) BindRequest {
	t.Helper()
	whole, err := engine.ReadBundle(rego.Bundle)
	if err != nil {
		t.Fatal(err)
	}
	r := BindRequest{Files: map[string]string{}}
	for name, content := range whole.Files {
		if strings.HasSuffix(name, "_test.rego") && filepath.Dir(name) != "limits" && !strings.Contains(name, "fixture") || strings.HasPrefix(name, "corpus/") && name != "corpus/plain.json" && name != "corpus/privilege.json" {
			continue
		}
		r.Files[name] = string(content)
	}
	if !strings.Contains(r.Files["data.json"], from) {
		t.Fatalf("data.json has no %q", from)
	}
	r.Files["data.json"] = strings.ReplaceAll(r.Files["data.json"], from, to)
	return r
}

func (r BindRequest) body(t *testing.T) string {
	t.Helper()
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestUnbound: a daemon without a policy is ready, has proven its place, and says no to everybody, with the reason.
func TestUnbound(t *testing.T) {
	c := lateConfig(t)
	c.ProbeInterval = time.Hour
	d := serve(t, c)
	if got := d.do(t, "GET", "/readyz", ""); got.status != 200 {
		t.Errorf("%d %s", got.status, got.body)
	}
	if status := d.service.Status(); !status.Policy.Unbound || status.Policy.Revision != "" {
		t.Errorf("%+v", status.Policy)
	}
	until(t, "the place is proven", func() bool {
		d.service.proofs.mu.Lock()
		defer d.service.proofs.mu.Unlock()
		return len(d.service.proofs.known) > 0
	})
	got := d.do(t, "POST", "/v1/exec", `{"command":{"argv":["true"]}}`)
	reply := got.reply(t)
	mustBe(t, reply, OutcomeDenied)
	if got.status != 403 || len(reply.Reasons) != 1 || reply.Reasons[0].Rule != "engine.unbound" || !strings.Contains(reply.Reasons[0].Message, "No policy is bound") {
		t.Errorf("%d %+v", got.status, reply.Reasons)
	}
	for path, body := range map[string]string{"/v1/run": `{"language":"python","code":"1"}`, "/v1/sandboxes": `{}`} {
		if got := d.do(t, "POST", path, body); got.status != 403 || !strings.Contains(string(got.body), "engine.unbound") {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	if got := d.do(t, "POST", "/v1/decide", `{"action":"exec","command":{"argv":["true"]}}`); got.status != 200 || !strings.Contains(string(got.body), "engine.unbound") {
		t.Errorf("decide: %d %s", got.status, got.body)
	}
}

// TestBind: a policy is tested, sealed, recorded and in force, once; a daemon that comes after has it too, and takes no other.
func TestBind(t *testing.T) {
	c := lateConfig(t)
	d := serve(t, c)
	r := bindable(t, `"arguments": 4096`, `"arguments": 4095`)
	bundle, err := engine.NewBundle(map[string][]byte{"data.json": []byte("{}")})
	if err != nil {
		t.Fatal(err)
	}
	wrong := r
	wrong.Revision = bundle.Revision
	// The smallest change by which one of its own tests fails.
	failing := bindable(t, `"actions": ["exec", `, `"actions": [`)
	for name, test := range map[string]struct{ body, field, words string }{
		"another revision":         {wrong.body(t), "revision", "the files are sha256:"},
		"one that doesn't compile": {BindRequest{Files: map[string]string{"a.rego": "package a\nx := "}}.body(t), "files", "isn't activated"},
		"one that can't say no":    {BindRequest{Files: map[string]string{"a.rego": "package sandboxd\ndecision := {\"allow\": true}"}}.body(t), "files", "isn't activated"},
		"one whose tests fail":     {failing.body(t), "files", "isn't activated"},
		"none":                     {`{"files":{}}`, "files", "isn't activated"},
		"a path that leads out":    {`{"files":{"../data.json":"{}"}}`, "files", "isn't the path"},
		"a file that isn't read":   {`{"files":{".hidden/data.json":"{}"}}`, "files", "would be left out"},
		"a member unknown":         {`{"files":{},"force":true}`, "", "force"},
	} {
		got := d.do(t, "PUT", "/v1/policy", test.body)
		if e := got.failure(t); got.status != 400 || e.Field != test.field || !strings.Contains(e.Message, test.words) {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	if !d.service.Status().Policy.Unbound || d.service.sealed().exists() {
		t.Fatal("something of it was bound")
	}
	got := d.do(t, "PUT", "/v1/policy", r.body(t))
	var binding Binding
	if err := json.Unmarshal(got.body, &binding); err != nil || got.status != 200 {
		t.Fatalf("%d %s (%v)", got.status, got.body, err)
	}
	reply := d.do(t, "POST", "/v1/exec", `{"command":{"argv":["true"]}}`).reply(t)
	mustBe(t, reply, OutcomeOK)
	if status := d.service.Status().Policy; status.Unbound || status.Revision != binding.Revision || reply.Decision.Revision != binding.Revision {
		t.Errorf("%+v, %+v, bound %+v", status, reply.Decision, binding)
	}
	second := bindable(t, `"arguments": 4096`, `"arguments": 4094`)
	for _, body := range []string{second.body(t), r.body(t)} {
		got := d.do(t, "PUT", "/v1/policy", body)
		if e := got.failure(t); got.status != 409 || !strings.Contains(e.Message, binding.Revision) {
			t.Errorf("a second time: %d %s", got.status, got.body)
		}
	}
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	records := readLog(t, c)
	at := slices.IndexFunc(records, func(r audit.Record) bool { return r.Type == audit.TypeBind })
	if at < 0 || int64(at)+1 != binding.AuditSequence || records[at].Daemon.Revision != binding.Revision || records[at].Caller.UID != os.Geteuid() || records[at].Caller.Via != "socket" {
		t.Errorf("record %d of %d, bound %+v", at, len(records), binding)
	}

	next := serve(t, c)
	mustBe(t, next.do(t, "POST", "/v1/exec", `{"command":{"argv":["true"]}}`).reply(t), OutcomeOK)
	if got := next.service.Status().Policy; got.Revision != binding.Revision {
		t.Errorf("after a restart: %+v", got)
	}
	if got := next.do(t, "PUT", "/v1/policy", second.body(t)); got.status != 409 {
		t.Errorf("after a restart: %d %s", got.status, got.body)
	}
	if err := next.stop(); err != nil {
		t.Fatal(err)
	}
	early := c
	early.Late.On = false
	if _, err := New(t.Context(), early); err == nil || !strings.Contains(err.Error(), "--policy-late") {
		t.Errorf("with the built-in policy in its place: %v", err)
	}
	data := filepath.Join(next.service.sealed().dir, "bundle", "data.json")
	if err := os.WriteFile(data, []byte(second.Files["data.json"]), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(t.Context(), c); err == nil || !strings.Contains(err.Error(), "isn't there as it was") {
		t.Errorf("with another policy in its place: %v", err)
	}
	if err := os.Remove(filepath.Join(next.service.sealed().dir, "binding.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := New(t.Context(), c); err == nil {
		t.Error("half a seal was taken for none")
	}
}

// TestBindOnce: of many at a time one binds.
func TestBindOnce(t *testing.T) {
	d := serve(t, lateConfig(t))
	var all sync.WaitGroup
	statuses := make(chan int, 3)
	for _, to := range []string{`"arguments": 4095`, `"arguments": 4094`, `"arguments": 4093`} {
		body := bindable(t, `"arguments": 4096`, to).body(t)
		all.Go(func() { statuses <- d.do(t, "PUT", "/v1/policy", body).status })
	}
	all.Wait()
	close(statuses)
	if got := slices.Sorted(func(yield func(int) bool) {
		for status := range statuses {
			yield(status)
		}
	}); !slices.Equal(got, []int{200, 409, 409}) {
		t.Errorf("%v", got)
	}
}

// TestWhoMayBind: the daemon's own uid on the socket, or those that are named there.
func TestWhoMayBind(t *testing.T) {
	own := os.Geteuid()
	for _, test := range []struct {
		late   Late
		caller policy.Caller
		status int
	}{
		{Late{On: true}, policy.Caller{UID: own, Via: "socket"}, 0},
		{Late{On: true}, policy.Caller{UID: own + 1, Via: "socket"}, http.StatusForbidden},
		{Late{On: true}, policy.Caller{UID: own, Via: "token"}, http.StatusForbidden},
		{Late{On: true}, policy.Caller{UID: own, Via: "agent-sandbox"}, http.StatusForbidden},
		{Late{On: true, Binders: []int{own + 1}}, policy.Caller{UID: own + 1, Via: "socket"}, 0},
		{Late{On: true, Binders: []int{own + 1}}, policy.Caller{UID: own, Via: "socket"}, http.StatusForbidden},
		{Late{}, policy.Caller{UID: own, Via: "socket"}, http.StatusConflict},
	} {
		s := &Service{config: Config{Late: test.late}}
		err := s.mayBind(test.caller)
		status := 0
		if err != nil {
			_, status = AsError(err)
		}
		if status != test.status {
			t.Errorf("%+v of %+v: %v", test.caller, test.late, err)
		}
	}
	c := lateConfig(t)
	c.Late.Binders = []int{own + 1}
	d := serve(t, c)
	if got := d.do(t, "PUT", "/v1/policy", bindable(t, "4096", "4095").body(t)); got.status != 403 {
		t.Errorf("%d %s", got.status, got.body)
	}
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(readLog(t, c), func(r audit.Record) bool {
		return r.Type == audit.TypeRefused && r.Caller.UID == own && strings.Contains(r.Message, "no policy was bound")
	}) {
		t.Error("it isn't on record")
	}
}

// TestUnrecordedIsUnbound: what isn't on record was never bound.
func TestUnrecordedIsUnbound(t *testing.T) {
	s, err := New(t.Context(), lateConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background()) // its error is that of the log, which is closed
	if err := s.log.Close(); err != nil {
		t.Fatal(err)
	}
	caller := policy.Caller{UID: os.Geteuid(), Via: "socket"}
	if _, err := s.BindPolicy(t.Context(), caller, bindable(t, "4096", "4095")); err == nil || !strings.Contains(err.Error(), "log") {
		t.Errorf("%v", err)
	}
	if s.sealed().exists() || !s.engine.Status().Unbound {
		t.Error("something of it is there")
	}
}
