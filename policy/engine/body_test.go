package engine

import (
	"encoding/json/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/rego"
)

// What explain claims of a body: the edits, made there, pass, and without any one of them it is denied.
func TestExplainBodyIsTrueAndSmallest(t *testing.T) {
	e := open(t, Options{FS: rego.Bundle})
	caller := policy.Caller{UID: 1000, GID: 1000, Via: "cli"}
	seen := 0
	rapid.Check(t, func(t *rapid.T) {
		body := drawBody(t)
		explained, err := e.ExplainBody(t.Context(), body, caller)
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if explained.Decision.Allow || !explained.Passes {
			return
		}
		seen = max(seen, len(explained.Changes))
		passes := func(changes []policy.Change) bool {
			_, again, err := e.judgeEdited(t.Context(), body, changes, caller)
			return err == nil && again.decision.Allow
		}
		if len(explained.Changes) == 0 || !passes(explained.Changes) {
			t.Fatalf("%s: %v doesn't pass", body, explained.Changes)
		}
		if request, err := policy.ParseDecide(explained.Request); err != nil {
			t.Fatalf("%s: %v", explained.Request, err)
		} else if request.Caller = caller; !e.Decide(t.Context(), request).Allow {
			t.Fatalf("%s is denied", explained.Request)
		}
		for i := range explained.Changes {
			if passes(slices.Delete(slices.Clone(explained.Changes), i, i+1)) {
				t.Fatalf("%s: %v isn't needed", body, explained.Changes[i])
			}
		}
	})
	if seen < 3 {
		t.Errorf("at most %d changes together: nothing was tried", seen)
	}
}

// drawBody draws a body with several things to deny. All of them have a change that passes.
func drawBody(t *rapid.T) []byte {
	body := map[string]any{}
	among := func(name string, values ...any) any { return rapid.SampledFrom(values).Draw(t, name) }
	put := func(into map[string]any, name string, values ...any) {
		if value := among(name, append(values, nil)...); value != nil {
			into[name] = value
		}
	}
	env := map[string]any{}
	for _, name := range []string{"HOME", "LD_PRELOAD", "BASH_FUNC_ls%%", "A.B", "PYTHONHOME"} {
		put(env, name, "x")
	}
	limits, context := map[string]any{}, map[string]any{}
	put(limits, "pids", 10, 99999)
	put(limits, "openFiles", 100000)
	put(context, "runAsUser", 0, 1000)
	put(context, "privileged", true, false)
	put(context, "supplementalGroups", []int{0, 1000}, []int{1000})
	put(context, "seccompProfile", map[string]any{"type": "Unconfined"}, map[string]any{"type": "Localhost", "localhostProfile": "sandboxd/gpu"})
	put(context, "capabilities", map[string]any{"add": []string{"SYS_ADMIN"}}, map[string]any{"drop": []string{"CHOWN"}})
	put(body, "network", map[string]any{"defaultAction": "allow"}, map[string]any{"egress": []any{map[string]any{"action": "allow", "target": "example.com"}}})
	body["limits"], body["securityContext"] = limits, context
	cwd := among("cwd", "/proc/self", "/work", nil)
	if among("action", "exec", "run") == "run" {
		body["action"], body["code"], body["env"] = "run", "pass", env
		if put(body, "timeoutSeconds", 9999, 5); body["timeoutSeconds"] == nil {
			put(limits, "timeoutSeconds", 9999)
		}
		if cwd != nil {
			body["cwd"] = cwd
		}
	} else {
		command := map[string]any{"argv": []string{"true"}, "env": env}
		if cwd != nil {
			command["cwd"] = cwd
		}
		body["action"], body["command"] = "exec", command
	}
	data, err := json.Marshal(body, json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestExplainBodyWords(t *testing.T) {
	e := open(t, Options{FS: rego.Bundle})
	body := `{"action": "run", "code": "1", "inputs": {"a": 1, "a": [1e400, "\ud800"]}, "env": {"PYTHONHOME": "x"}, "timeoutSeconds": 9999}`
	explained, err := e.ExplainBody(t.Context(), []byte(body), policy.Caller{UID: 1000, GID: 1000, Via: "cli"})
	if err != nil {
		t.Fatal(err)
	}
	var fields, spoke []string
	for _, change := range explained.Changes {
		fields = append(fields, change.Op+" "+change.Field)
	}
	for _, finding := range explained.Findings {
		for i, rule := range finding.Spoke {
			spoke = append(spoke, rule.Title+": "+finding.Reasons[i].Field)
		}
	}
	if got, want := strings.Join(fields, ", "), "remove env.PYTHONHOME, set timeoutSeconds"; got != want {
		t.Errorf("changes %s, want %s", got, want)
	}
	if got, want := strings.Join(spoke, ", "), "Variable not allowed: env.PYTHONHOME, Limit above its maximum: timeoutSeconds"; got != want {
		t.Errorf("spoke %s, want %s", got, want)
	}
	want := `{"action":"run","code":"1","env":{},"inputs":{"a":1,"a":[1e400,"\ud800"]},"timeoutSeconds":3600}`
	if got := string(explained.Request); got != want {
		t.Errorf("request %s, want %s", got, want)
	}
	// The decision itself stays as the API tells it.
	if got := explained.Decision.Reasons[0].Change.Field; got != "program.env.PYTHONHOME" {
		t.Errorf("decision has %s", got)
	}
}

// Of the rules with one label only those are named that had something to say.
func TestExplainNamesTheRuleThatSpoke(t *testing.T) {
	e := open(t, Options{FS: rego.Bundle})
	for profile, title := range map[string]string{
		`{"type": "Unconfined"}`:                                    "Kind of filter not allowed",
		`{"type": "Localhost", "localhostProfile": "sandboxd/gpu"}`: "Profile not listed",
	} {
		explained, err := e.ExplainBody(t.Context(),
			[]byte(`{"action": "exec", "command": {"argv": ["true"]}, "securityContext": {"seccompProfile": `+profile+`}}`), policy.Caller{UID: 1000, Via: "cli"})
		if err != nil {
			t.Fatal(err)
		}
		var spoke []string
		for _, finding := range explained.Findings {
			for _, rule := range finding.Spoke {
				spoke = append(spoke, rule.Title)
			}
		}
		if !slices.Equal(spoke, []string{title}) {
			t.Errorf("%s: %v spoke, want %s", profile, spoke, title)
		}
	}
}

// What a body has no word for is no change: an empty directory is what a request has when none was asked for, and an error in a body.
func TestExplainBodyClaimsOnlyWhatABodyCanSay(t *testing.T) {
	e := open(t, Options{FS: replaced(t, "exec/directory.rego", `{"op": "remove", "field": field}`, `{"op": "set", "field": field, "value": ""}`), Tested: true})
	explained, err := e.ExplainBody(t.Context(), []byte(`{"action": "exec", "command": {"argv": ["true"], "cwd": "/proc"}}`), policy.Caller{UID: 1000, Via: "cli"})
	if err != nil || explained.Passes || len(explained.Changes) > 0 || explained.Passing.Allow || string(explained.Request) != "null" {
		t.Errorf("%+v, %v", explained, err)
	}
}

// A policy may be content without one change only once another is gone.
func TestShrinkGoesOn(t *testing.T) {
	g := loneGeneration(t, `package sandboxd

default allow := false

allow if {
	input.limits.pids == 1
	input.command.cwd in {"", "/work"}
	same
}

same if input.limits.openFiles == 64

same if input.command.cwd == ""

decision := {"allow": allow, "reasons": [{"rule": "x", "message": "No."} | not allow]}
`)
	change := func(field, value string) policy.Change {
		return policy.Change{Op: opSet, Field: field, Value: []byte(value)}
	}
	// Backwards: openFiles is needed beside cwd, cwd isn't, and then openFiles isn't either.
	changes := []policy.Change{change("command.cwd", `"/work"`), change("limits.pids", "1"), change("limits.openFiles", "64")}
	got := g.shrink(t.Context(), trap(), changes)
	if len(got) != 1 || got[0].Field != "limits.pids" {
		t.Errorf("%v", got)
	}
}

func TestEditBody(t *testing.T) {
	body := `{"action":"exec","command":{"argv":["a","b"],"env":{"A.B":"1","C":"2"}},"inputs":{"n":12345678901234567890}}`
	for _, row := range []struct{ op, field, value, want, fault string }{
		{opRemove, `command.env["A.B"]`, "", `{"action":"exec","command":{"argv":["a","b"],"env":{"C":"2"}},"inputs":{"n":12345678901234567890}}`, ""},
		{opRemove, "command", "", `{"action":"exec","inputs":{"n":12345678901234567890}}`, ""},
		{opRemove, "limits.pids", "", body, ""},
		{opSet, "limits.pids", "3", `{"action":"exec","command":{"argv":["a","b"],"env":{"A.B":"1","C":"2"}},"inputs":{"n":12345678901234567890},"limits":{"pids":3}}`, ""},
		{opSet, "command.argv[1]", `"c"`, `{"action":"exec","command":{"argv":["a","c"],"env":{"A.B":"1","C":"2"}},"inputs":{"n":12345678901234567890}}`, ""},
		{opSet, "action", `"run"`, `{"action":"run","command":{"argv":["a","b"],"env":{"A.B":"1","C":"2"}},"inputs":{"n":12345678901234567890}}`, ""},
		{opSet, "command.argv[7]", `"c"`, "", "no element 7"},
		{opSet, "action.x", `1`, "", "not in an object"},
		{opSet, "[0]", `1`, "", "not a list"},
		{opSet, "a..b", `1`, "", "want a name"},
	} {
		got, err := EditBody([]byte(body), []policy.Change{{Op: row.op, Field: row.field, Value: []byte(row.value)}})
		switch {
		case row.fault != "" && (err == nil || !strings.Contains(err.Error(), row.fault)):
			t.Errorf("%s %s: %v, want %s", row.op, row.field, err, row.fault)
		case row.fault == "" && (err != nil || string(got) != row.want):
			t.Errorf("%s %s: %s, %v; want %s", row.op, row.field, got, err, row.want)
		}
	}
}
