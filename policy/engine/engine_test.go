package engine

import (
	"context"
	"io/fs"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/rego"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// typical is what an agent's shell command looks like, about 2 KB with its environment.
func typical() policy.Request {
	env := map[string]string{}
	for i := range 20 {
		env["VARIABLE_"+strconv.Itoa(i)] = "some value of ordinary length, such as a path or a flag"
	}
	return policy.Request{
		Action: policy.ActionExec,
		Caller: policy.Caller{UID: 1000, GID: 1000, PID: 4711, Via: "socket"},
		SecurityContext: policy.SecurityContext{
			RunAsNonRoot: new(true), Capabilities: &policy.Capabilities{Drop: []string{"ALL"}},
			SeccompProfile: &policy.SeccompProfile{Type: policy.SeccompRuntimeDefault},
		},
		Command: policy.Command{
			Argv: []string{"/usr/bin/python3", "-c", "import json, sys\nprint(json.dumps({'answer': 42}))\n"},
			Env:  env, Cwd: "/work",
		},
		Limits: policy.Limits{TimeoutSeconds: 30, OutputBytes: 1 << 20},
	}
}

func open(tb testing.TB, o Options) *Engine {
	tb.Helper()
	e, err := Open(context.Background(), o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { e.Close() })
	return e
}

// defaultFiles is a copy of the default bundle that a test may change.
func defaultFiles(tb testing.TB) fstest.MapFS {
	tb.Helper()
	files := fstest.MapFS{}
	err := fs.WalkDir(rego.Bundle, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(rego.Bundle, name)
		files[name] = &fstest.MapFile{Data: content}
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	return files
}

// replaced is the default bundle with one text of one file replaced; the text must be there.
func replaced(tb testing.TB, name, from, to string) fstest.MapFS {
	tb.Helper()
	files := defaultFiles(tb)
	before := string(files[name].Data)
	after := strings.Replace(before, from, to, 1)
	if after == before {
		tb.Fatalf("%s has no %q", name, from)
	}
	files[name] = &fstest.MapFile{Data: []byte(after)}
	return files
}

// trapped is the default bundle with another decision for the program "trap": everything else is judged as always, so that its self-tests pass.
func trapped(tb testing.TB, decision, more string) fstest.MapFS {
	tb.Helper()
	files := replaced(tb, "main/decision.rego", "\ndecision := {", "\nordinary := {")
	files["main/trap.rego"] = &fstest.MapFile{Data: []byte("package sandboxd\n\ndecision := ordinary if not input.command.argv[0] == \"trap\"\n\n" +
		"decision := " + decision + " if input.command.argv[0] == \"trap\"\n\n" + more)}
	return files
}

func trap(more ...string) policy.Request {
	return policy.Request{
		Action:  policy.ActionExec,
		Caller:  policy.Caller{UID: 1000, GID: 1000, Via: "cli"},
		Command: policy.Command{Argv: append([]string{"trap"}, more...)},
	}
}

func rules(decision policy.Decision) []string {
	names := []string{}
	for _, reason := range decision.Reasons {
		names = append(names, reason.Rule)
	}
	return names
}

func wantDenied(t *testing.T, decision policy.Decision, rule string) {
	t.Helper()
	if decision.Allow {
		t.Fatal("allowed")
	}
	if got := rules(decision); len(got) != 1 || got[0] != rule {
		t.Fatalf("denied by %v, want %s: %v", got, rule, decision.Reasons)
	}
}

func TestDecideAllow(t *testing.T) {
	e := open(t, Options{FS: rego.Bundle})
	request := typical()
	decision := e.Decide(t.Context(), request)
	if !decision.Allow || decision.Reasons == nil || len(decision.Reasons) != 0 {
		t.Fatalf("want allow without reasons, got %+v", decision)
	}
	want := policy.Effective{
		SecurityContext: request.SecurityContext.Defaulted(),
		Network:         policy.NetworkSpec{}.Defaulted(),
		Limits:          request.Limits.Defaulted(),
		OnOutputLimit:   "truncate",
	}
	if diff := cmp.Diff(want, decision.Effective); diff != "" {
		t.Error(diff)
	}
	if len(decision.ID) != 32 || decision.Revision != e.Status().Revision || !strings.HasPrefix(decision.Revision, "sha256:") {
		t.Errorf("id %q, revision %q", decision.ID, decision.Revision)
	}
}

func TestDecideDeny(t *testing.T) {
	e := open(t, Options{FS: rego.Bundle})
	request := trap()
	request.SecurityContext.Capabilities = &policy.Capabilities{Add: []string{"SYS_ADMIN"}}
	decision := e.Decide(t.Context(), request)
	wantDenied(t, decision, "context.capabilities.add")
	want := policy.Reason{
		Rule:    "context.capabilities.add",
		Message: "These capabilities may be added: none.",
		Field:   "securityContext.capabilities.add",
		Change:  &policy.Change{Op: "remove", Field: "securityContext.capabilities.add"},
	}
	if diff := cmp.Diff(want, decision.Reasons[0]); diff != "" {
		t.Error(diff)
	}
}

// What starts something is judged; what this policy doesn't know is denied.
func TestActions(t *testing.T) {
	e := open(t, Options{FS: rego.Bundle})
	for _, request := range plainRequests() {
		if decision := e.Decide(t.Context(), request); !decision.Allow {
			t.Errorf("%s: %v", request.Action, decision.Reasons)
		}
	}
	for _, action := range []policy.Action{"networks", "", "Exec"} {
		request := policy.Request{Action: action, Caller: policy.Caller{UID: 1, Via: "cli"}}
		if decision := e.Decide(t.Context(), request); decision.Allow || !slices.Contains(rules(decision), "main.action") {
			t.Errorf("%q: %+v", action, decision)
		}
	}
	if e.Decide(t.Context(), policy.Request{}).Allow {
		t.Error("the zero request is allowed")
	}
}

// E15: two requests that differ in anything have different keys.
func TestKeyCoversTheWholeRequest(t *testing.T) {
	base := filled()
	key := look(base).key
	// Whose network it is, is settled before anybody decides; inputs that are elsewhere are looked at below.
	notSeen := map[string]bool{"Caller.PID": true, "Caller.Name": true, "NetworkInherited": true, "Program.Bulk": true}
	count := 0
	eachLeaf(reflect.ValueOf(&base).Elem(), "", func(path string, change func() (undo func())) {
		undo := change()
		defer undo()
		count++
		if differs := look(base).key != key; differs == notSeen[path] {
			t.Errorf("%s: key differs: %v", path, differs)
		}
	})
	if count < 40 {
		t.Errorf("only %d fields were changed", count)
	}
	if look(base).key != key {
		t.Error("the key isn't stable")
	}
	elsewhere := base
	elsewhere.Program.Inputs, elsewhere.Program.Bulk = nil, new(policy.BulkOf(base.Program.Inputs))
	if look(elsewhere).key != key {
		t.Error("the same inputs elsewhere have another key")
	}
	elsewhere.Program.Bulk = new(policy.BulkOf([]byte("[]")))
	if look(elsewhere).key == key {
		t.Error("other inputs elsewhere have the same key")
	}
}

// Neighbouring texts and lists can't be shifted into each other.
func TestKeyIsNotAmbiguous(t *testing.T) {
	seen := map[[32]byte]string{}
	for _, request := range []policy.Request{
		{Command: policy.Command{Argv: []string{"ab", "c"}}}, {Command: policy.Command{Argv: []string{"a", "bc"}}},
		{Command: policy.Command{Argv: []string{"abc"}}}, {Command: policy.Command{Argv: []string{"abc", ""}}},
		{Command: policy.Command{Env: map[string]string{"a": "bc"}}}, {Command: policy.Command{Env: map[string]string{"ab": "c"}}},
		{Program: policy.Program{Env: map[string]string{"a": "bc"}}}, {Command: policy.Command{Cwd: "abc"}}, {Program: policy.Program{Cwd: "abc"}},
		{Program: policy.Program{Code: "abc"}}, {Command: policy.Command{Stdin: []byte("abc")}}, {Sandbox: "abc"},
		{SecurityContext: policy.SecurityContext{RunAsUser: new(int64(1))}}, {SecurityContext: policy.SecurityContext{RunAsGroup: new(int64(1))}},
		{SecurityContext: policy.SecurityContext{Privileged: new(false)}}, {},
	} {
		key := look(request).key
		if other, known := seen[key]; known {
			t.Errorf("%+v has the key of %s", request, other)
		}
		seen[key] = cmp.Diff(policy.Request{}, request)
	}
}

// filled has something in every field.
func filled() policy.Request {
	r := typical()
	r.Sandbox = "abc"
	r.SecurityContext = policy.SecurityContext{
		Privileged: new(false), AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true), RunAsNonRoot: new(true),
		RunAsUser: new(int64(1)), RunAsGroup: new(int64(2)), SupplementalGroups: []int64{3},
		Capabilities:   &policy.Capabilities{Add: []string{"CHOWN"}, Drop: []string{"ALL"}},
		SeccompProfile: &policy.SeccompProfile{Type: "Localhost", LocalhostProfile: new("a.json")}, ProcMount: new("Default"),
	}
	r.Network = policy.NetworkSpec{DefaultAction: "deny", Egress: []policy.EgressRule{{Action: "allow", Target: "example.com", Ports: []int{443}}}}
	r.Command.Stdin = []byte("in")
	r.Program = policy.Program{Language: "python", Code: "pass", Inputs: []byte("{}"), Env: map[string]string{"A": "b"}, Cwd: "/work"}
	r.File = policy.File{Operation: policy.FileWrite, Path: "/work/a", Mode: new(int64(0o600)), Parents: true, Follow: true, To: "/work/b"}
	r.Limits = policy.Limits{TimeoutSeconds: 1, OutputBytes: 2, MemoryBytes: 3, Pids: 4, CPU: 5, OpenFiles: 6, FileBytes: 7, CPUSeconds: 8}
	return r
}

// eachLeaf visits every value that isn't made of others, with a way to change it.
func eachLeaf(value reflect.Value, path string, visit func(path string, change func() func())) {
	set := func(to reflect.Value) func() func() {
		return func() func() {
			before := reflect.New(value.Type()).Elem()
			before.Set(value)
			value.Set(to.Convert(value.Type()))
			return func() { value.Set(before) }
		}
	}
	switch value.Kind() {
	case reflect.Struct:
		for i := range value.NumField() {
			eachLeaf(value.Field(i), strings.TrimPrefix(path+"."+value.Type().Field(i).Name, "."), visit)
		}
	case reflect.Pointer:
		visit(path, set(reflect.Zero(value.Type())))
		eachLeaf(value.Elem(), path, visit)
	case reflect.Slice:
		visit(path, set(reflect.Zero(value.Type())))
		for i := range value.Len() {
			eachLeaf(value.Index(i), path, visit)
		}
	case reflect.Map:
		visit(path, set(reflect.Zero(value.Type())))
		visit(path, set(reflect.ValueOf(map[string]string{"OTHER": "name"})))
		for _, key := range value.MapKeys() {
			other := reflect.ValueOf(map[string]string{})
			for _, k := range value.MapKeys() {
				other.SetMapIndex(k, value.MapIndex(k))
			}
			other.SetMapIndex(key, reflect.ValueOf("another value"))
			visit(path, set(other))
		}
	case reflect.String:
		visit(path, set(reflect.ValueOf(value.String()+"x")))
	case reflect.Bool:
		visit(path, set(reflect.ValueOf(!value.Bool())))
	case reflect.Int, reflect.Int64:
		visit(path, set(reflect.ValueOf(value.Int()+1)))
	case reflect.Uint8:
		visit(path, set(reflect.ValueOf(value.Uint()+1)))
	case reflect.Float64:
		visit(path, set(reflect.ValueOf(value.Float()+0.5)))
	}
}

// The same request again has the same answer and another id, and nobody can spoil the answer of the next.
func TestCachedDecisionIsACopy(t *testing.T) {
	e := open(t, Options{FS: trapped(t, `{"allow": true, "reasons": [], "effective": {}, "accept": ["cgroup.memory"], "labels": {"a": "b"}}`, "")})
	for _, request := range []policy.Request{trap(), func() policy.Request {
		r := typical()
		r.SecurityContext.Privileged = new(true)
		return r
	}()} {
		// The first comes from Rego, the others from the cache.
		first := e.Decide(t.Context(), request)
		want := clone(first)
		spoil(&first)
		for range 2 {
			again := e.Decide(t.Context(), request)
			if again.ID == want.ID {
				t.Error("the id came twice")
			}
			again.ID = want.ID
			if diff := cmp.Diff(want, again); diff != "" {
				t.Error(diff)
			}
			spoil(&again)
		}
	}
}

// spoil overwrites everything that a decision points to.
func spoil(decision *policy.Decision) {
	eachLeaf(reflect.ValueOf(decision).Elem(), "", func(path string, change func() func()) {
		if !strings.Contains(path, ".") && path != "Reasons" && path != "Accept" && path != "Labels" {
			change()
		}
	})
	c := decision.Effective.SecurityContext
	for _, flag := range []*bool{c.Privileged, c.AllowPrivilegeEscalation} {
		if flag != nil {
			*flag = true
		}
	}
	for i := range decision.Accept {
		decision.Accept[i] = "spoilt"
	}
	for i := range decision.Reasons {
		decision.Reasons[i].Rule = "spoilt"
		if decision.Reasons[i].Change != nil {
			decision.Reasons[i].Change.Op = "spoilt"
		}
	}
	clear(decision.Labels)
}

func TestCacheIsBounded(t *testing.T) {
	c := newCache()
	for i := range 10 * mostCached {
		c.add(look(trap(strconv.Itoa(i))).key, policy.Decision{})
	}
	if kept := len(c.young) + len(c.old); kept > 2*mostCached {
		t.Errorf("%d decisions are kept", kept)
	}
	if _, known := c.get(look(trap(strconv.Itoa(10*mostCached - 1))).key); !known {
		t.Error("the youngest is gone")
	}
}

func TestDecideFromManyGoroutines(t *testing.T) {
	e := open(t, Options{FS: rego.Bundle})
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for j := range 20 {
				request := trap(strconv.Itoa(i * j))
				request.SecurityContext.Privileged = new(j%2 == 0)
				if decision := e.Decide(context.Background(), request); decision.Allow != (j%2 == 1) {
					t.Errorf("%d: %+v", j, decision)
				}
			}
		})
	}
	group.Wait()
}

// E17: deciding and explaining change nothing.
func TestDecideLeavesTheRequestAlone(t *testing.T) {
	e := open(t, Options{FS: rego.Bundle})
	request := filled()
	before := filled()
	status := e.Status()
	e.Decide(t.Context(), request)
	e.Explain(t.Context(), request)
	if diff := cmp.Diff(before, request); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(status, e.Status()); diff != "" {
		t.Error(diff)
	}
}

func TestOpenWantsOneBundle(t *testing.T) {
	for _, options := range []Options{{}, {FS: rego.Bundle, Dir: t.TempDir()}, {Dir: t.TempDir(), Tested: true}} {
		if _, err := Open(t.Context(), options); err == nil {
			t.Errorf("%+v opened", options)
		}
	}
}

// Tested leaves tests and corpus out, and never what must be denied.
func TestTestedStillDeniesWhatMustBeDenied(t *testing.T) {
	files := tiny("not input.securityContext.privileged")
	delete(files, "decision_test.rego")
	delete(files, "corpus/all.json")
	open(t, Options{FS: files, Tested: true})
	files = tiny("true")
	if _, err := Open(t.Context(), Options{FS: files, Tested: true}); err == nil || !strings.Contains(err.Error(), "must-deny") {
		t.Errorf("want must-deny, got %v", err)
	}
}
