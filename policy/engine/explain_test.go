package engine

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/rego"
)

func TestExplainAllowed(t *testing.T) {
	explanation := open(t, Options{FS: rego.Bundle}).Explain(t.Context(), typical())
	if !explanation.Passes || len(explanation.Changes) != 0 || !explanation.Decision.Allow {
		t.Errorf("%+v", explanation)
	}
	if len(explanation.Findings) < 20 {
		t.Errorf("only %d labels were looked at", len(explanation.Findings))
	}
	for _, finding := range explanation.Findings {
		if len(finding.Reasons) > 0 || len(finding.Rules) == 0 || finding.Rules[0].Title == "" || finding.Rules[0].Line == 0 {
			t.Errorf("%+v", finding)
		}
	}
}

// E16: what two rules say is told together, and so is the way to a yes.
func TestExplainGivesEveryReasonAndTheChange(t *testing.T) {
	e := open(t, Options{FS: rego.Bundle})
	request := trap()
	request.SecurityContext.RunAsUser = new(int64(0))
	request.SecurityContext.Capabilities = &policy.Capabilities{Add: []string{"SYS_ADMIN"}}
	request.Network = policy.NetworkSpec{DefaultAction: "allow"}
	request.Limits.TimeoutSeconds = 7200
	request.Command.Env = map[string]string{"LD_PRELOAD": "x", "BASH_FUNC_ls%%": "y", "HOME": "/work"}
	explanation := e.Explain(t.Context(), request)
	if explanation.Decision.Allow || !explanation.Passes {
		t.Fatalf("%+v", explanation)
	}
	want := []policy.Change{
		{Op: "remove", Field: "securityContext.capabilities.add"},
		{Op: "remove", Field: "securityContext.runAsUser"},
		{Op: "remove", Field: "command.env.LD_PRELOAD"},
		{Op: "remove", Field: `command.env["BASH_FUNC_ls%%"]`},
		{Op: "set", Field: "limits.timeoutSeconds", Value: []byte("3600")},
		{Op: "set", Field: "network.defaultAction", Value: []byte(`"deny"`)},
	}
	if diff := cmp.Diff(want, explanation.Changes); diff != "" {
		t.Error(diff)
	}
	var spoke []string
	for _, finding := range explanation.Findings {
		if len(finding.Reasons) > 0 {
			spoke = append(spoke, finding.Label)
		}
	}
	slices.Sort(spoke)
	if diff := cmp.Diff([]string{"context.capabilities.add", "context.runAsUser", "exec.env", "limits.maximum", "network.egress"}, spoke); diff != "" {
		t.Error(diff)
	}
	changed, err := apply(request, explanation.Changes)
	if err != nil {
		t.Fatal(err)
	}
	if decision := e.Decide(t.Context(), changed); !decision.Allow {
		t.Errorf("the changed request is denied: %v", decision.Reasons)
	}
	if changed.Command.Env["HOME"] != "/work" || len(changed.Command.Env) != 1 {
		t.Errorf("environment after the changes: %v", changed.Command.Env)
	}
}

// What nobody can mend is not claimed.
func TestExplainClaimsNothingThatDoesNotPass(t *testing.T) {
	e := open(t, Options{FS: rego.Bundle})
	request := trap()
	request.Command.Argv = []string{"/proc/self/exe"}
	request.SecurityContext.Privileged = new(true)
	if explanation := e.Explain(t.Context(), request); explanation.Passes || explanation.Changes != nil {
		t.Errorf("%+v", explanation)
	}
	for _, suggestion := range []string{
		`{"op": "set", "field": "caller.uid", "value": 0}`, `{"op": "set", "field": "nothing", "value": 0}`, `{"op": "remove", "field": "command.argv[7]"}`,
		`{"op": "set", "field": "limits.pids", "value": "many"}`, `{"op": "set", "field": "limits.pidz", "value": 1}`, `{"op": "set", "field": "a..b", "value": 1}`,
		`{"op": "set", "field": "limits.pids", "value": 7}`,
	} {
		g := loneGeneration(t, "package sandboxd\n\ndecision := {\"allow\": false, \"reasons\": [{\"rule\": \"x\", \"message\": \"No.\", \"change\": "+suggestion+"}]}\n")
		decision, _ := g.decide(t.Context(), trap())
		wantDenied(t, decision, "x")
		if changes, found := g.search(t.Context(), trap(), decision); found {
			t.Errorf("%s: claims %v", suggestion, changes)
		}
	}
}

// A change may uncover another reason; the search goes on, and leaves out what turned out not to be needed.
func TestExplainGoesOnAndShrinks(t *testing.T) {
	g := loneGeneration(t, `package sandboxd

reasons contains {"rule": "first", "message": "No.", "change": {"op": "set", "field": "limits.pids", "value": 10}} if input.limits.pids > 10

reasons contains {"rule": "second", "message": "No.", "change": {"op": "set", "field": "command.cwd", "value": "/tmp"}} if {
	input.limits.pids <= 10
	input.command.cwd != "/tmp"
}

reasons contains {"rule": "useless", "message": "No.", "change": {"op": "set", "field": "limits.cpu", "value": 1}} if input.limits.pids > 10

default allow := false

allow if count(reasons) == 0

decision := {"allow": allow, "reasons": reasons}
`)
	decision, _ := g.decide(t.Context(), trap())
	changes, found := g.search(t.Context(), trap(), decision)
	if !found || len(changes) != 3 {
		t.Fatalf("%v, %v", changes, found)
	}
	want := []policy.Change{
		{Op: "set", Field: "limits.pids", Value: []byte("10")}, {Op: "set", Field: "command.cwd", Value: []byte(`"/tmp"`)},
	}
	if diff := cmp.Diff(want, g.shrink(t.Context(), trap(), changes)); diff != "" {
		t.Error(diff)
	}
}

// Whatever is asked: a claimed change passes, and none of it can be left out.
func TestExplainIsTrueAndSmallest(t *testing.T) {
	e := open(t, Options{FS: rego.Bundle})
	rapid.Check(t, func(t *rapid.T) {
		request := drawRequest(t)
		explanation := e.Explain(t.Context(), request)
		if !explanation.Passes || explanation.Decision.Allow {
			return
		}
		changed, err := apply(request, explanation.Changes)
		if err != nil {
			t.Fatal(err)
		}
		if decision := e.Decide(t.Context(), changed); !decision.Allow {
			t.Fatalf("%v doesn't pass: %v", explanation.Changes, decision.Reasons)
		}
		for i := range explanation.Changes {
			fewer, err := apply(request, slices.Delete(slices.Clone(explanation.Changes), i, i+1))
			if err == nil && e.Decide(t.Context(), fewer).Allow {
				t.Fatalf("%v isn't needed", explanation.Changes[i])
			}
		}
	})
}

func drawRequest(t *rapid.T) policy.Request {
	request := trap()
	flag := func(name string) *bool {
		return rapid.SampledFrom([]*bool{nil, nil, new(true), new(false)}).Draw(t, name)
	}
	id := func(name string) *int64 {
		return rapid.SampledFrom([]*int64{nil, nil, new(int64(0)), new(int64(1000))}).Draw(t, name)
	}
	names := func(name string, of ...string) []string {
		return rapid.SliceOfNDistinct(rapid.SampledFrom(of), 0, len(of), rapid.ID).Draw(t, name)
	}
	c := &request.SecurityContext
	c.Privileged, c.AllowPrivilegeEscalation = flag("privileged"), flag("allowPrivilegeEscalation")
	c.ReadOnlyRootFilesystem, c.RunAsNonRoot = flag("readOnlyRootFilesystem"), flag("runAsNonRoot")
	c.RunAsUser, c.RunAsGroup = id("runAsUser"), id("runAsGroup")
	c.Capabilities = &policy.Capabilities{Add: names("add", "SYS_ADMIN", "CHOWN"), Drop: names("drop", "ALL", "CHOWN")}
	request.Network.DefaultAction = rapid.SampledFrom([]string{"", "deny", "allow"}).Draw(t, "defaultAction")
	for _, target := range names("targets", "example.com", "*.example.com") {
		request.Network.Egress = append(request.Network.Egress, policy.EgressRule{Action: rapid.SampledFrom([]string{"allow", "deny"}).Draw(t, "action"), Target: target})
	}
	request.Command.Env = map[string]string{}
	for _, name := range names("env", "HOME", "LD_PRELOAD", "BASH_FUNC_a%%", "A.B") {
		request.Command.Env[name] = "x"
	}
	request.Command.Cwd = rapid.SampledFrom([]string{"", "/work", "/proc/self"}).Draw(t, "cwd")
	request.Limits.Pids = rapid.SampledFrom([]int64{0, 10, 5000}).Draw(t, "pids")
	return request
}

func TestApplyKeepsWhatNobodySees(t *testing.T) {
	request := filled()
	request.Command.Stdin = []byte{0xff, 0}
	request.Program.Inputs = []byte(`{"a": 1, "a": "\ud800"}`)
	changed, err := apply(request, []policy.Change{{Op: "set", Field: "limits.pids", Value: []byte("3")}})
	if err != nil {
		t.Fatal(err)
	}
	want := request
	want.Limits.Pids = 3
	if diff := cmp.Diff(want, changed); diff != "" {
		t.Error(diff)
	}
}

func TestParsePath(t *testing.T) {
	name := func(name string) step { return step{name: name} }
	for path, want := range map[string][]step{
		"limits":                   {name("limits")},
		"limits.pids":              {name("limits"), name("pids")},
		"network.egress[12].ports": {name("network"), name("egress"), {index: 12, indexed: true}, name("ports")},
		`command.env["a.b\"]["]`:   {name("command"), name("env"), name(`a.b"][`)},
		"":                         nil,
		".a":                       nil,
		"a.":                       nil,
		"a..b":                     nil,
		"a[":                       nil,
		"a[-1]":                    nil,
		"a[1":                      nil,
		"a[1]b":                    nil,
		`a["b]`:                    nil,
		`a["b"`:                    nil,
	} {
		got, err := parsePath(path)
		if (err != nil) != (want == nil) || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v", path, got, err)
		}
	}
}

func FuzzParsePath(f *testing.F) {
	f.Add(`command.env["a.b"][1].c`)
	f.Fuzz(func(t *testing.T, path string) {
		steps, err := parsePath(path)
		if (err == nil) != (len(steps) > 0) {
			t.Errorf("%q: %v, %v", path, steps, err)
		}
	})
}
