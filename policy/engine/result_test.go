package engine

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/open-policy-agent/opa/v1/util"

	"github.com/sandboxd/sandboxd/policy"
)

func contextCancelled(t *testing.T) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx, cancel
}

// refused opens a bundle that must not load, with an error that has the word.
func refused(t *testing.T, files fstest.MapFS, word string) {
	t.Helper()
	e, err := Open(t.Context(), Options{FS: files})
	if err == nil {
		e.Close()
		t.Fatal("loaded")
	}
	if !strings.Contains(err.Error(), word) {
		t.Fatalf("want %q in the error, got %v", word, err)
	}
}

const fine = `"reasons": [], "effective": {}, "accept": [], "labels": {}`

// E2: an answer of another shape is no answer.
func TestWrongShapeDenies(t *testing.T) {
	for name, row := range map[string]struct{ decision, word string }{
		"text":                      {`"yes"`, "want an object, got a text"},
		"number":                    {`1`, "want an object, got a number"},
		"truth":                     {`true`, "want an object, got a truth value"},
		"set":                       {`{"allow"}`, "want an object, got a list or a set"},
		"allow is text":             {`{"allow": "true", ` + fine + `}`, "decision.allow: want true or false"},
		"allow is missing":          {`{` + fine + `}`, "decision.allow: want true or false"},
		"allow is null":             {`{"allow": null, ` + fine + `}`, "decision.allow: want true or false"},
		"unknown field":             {`{"allow": true, "alow": true, ` + fine + `}`, "decision.alow: unknown field"},
		"reasons missing":           {`{"allow": true, "effective": {}}`, "decision.reasons: want a list or a set"},
		"reasons are text":          {`{"allow": true, "reasons": ""}`, "decision.reasons: want a list or a set"},
		"reason is text":            {`{"allow": false, "reasons": ["no"]}`, "decision.reasons[0]: want an object"},
		"reason without rule":       {`{"allow": false, "reasons": [{"message": "No."}]}`, "decision.reasons[0].rule"},
		"reason without message":    {`{"allow": false, "reasons": [{"rule": "x"}]}`, "decision.reasons[0].message"},
		"reason with more":          {`{"allow": false, "reasons": [{"rule": "x", "message": "No.", "why": ""}]}`, "decision.reasons[0].why: unknown field"},
		"reason's field a number":   {`{"allow": false, "reasons": [{"rule": "x", "message": "No.", "field": 1}]}`, "decision.reasons[0].field"},
		"change without op":         {`{"allow": false, "reasons": [{"rule": "x", "message": "No.", "change": {"field": "limits"}}]}`, "reasons[0].change"},
		"change removes to a value": {`{"allow": false, "reasons": [{"rule": "x", "message": "No.", "change": {"op": "remove", "field": "limits", "value": 1}}]}`, "reasons[0].change"},
		"allow and reasons":         {`{"allow": true, "reasons": [{"rule": "x", "message": "No."}]}`, "yet there are reasons"},
		"neither":                   {`{"allow": false, ` + fine + `}`, "yet allow is false"},
		"effective is a list":       {`{"allow": true, "reasons": [], "effective": []}`, "decision.effective: want an object"},
		"effective with more":       {`{"allow": true, "reasons": [], "effective": {"limit": {}}}`, "decision.effective.limit: unknown field"},
		"misspelt context":          {`{"allow": true, "reasons": [], "effective": {"securityContext": {"runAsNonroot": true}}}`, "securityContext.runAsNonroot"},
		"context of a wrong type":   {`{"allow": true, "reasons": [], "effective": {"securityContext": {"privileged": "false"}}}`, "securityContext.privileged"},
		"limit of a wrong type":     {`{"allow": true, "reasons": [], "effective": {"limits": {"pids": "1"}}}`, "limits.pids"},
		"network of a wrong type":   {`{"allow": true, "reasons": [], "effective": {"network": {"defaultAction": "no"}}}`, "network.defaultAction"},
		"unknown onOutputLimit":     {`{"allow": true, "reasons": [], "effective": {"onOutputLimit": "ignore"}}`, "onOutputLimit: want one of"},
		"explainDenials is text":    {`{"allow": true, "reasons": [], "effective": {"explainDenials": "yes"}}`, "explainDenials: want true or false"},
		"accept is text":            {`{"allow": true, "reasons": [], "accept": "cgroup.memory"}`, "decision.accept"},
		"accept has a star":         {`{"allow": true, "reasons": [], "accept": ["*"]}`, "decision.accept[0]"},
		"labels are a list":         {`{"allow": true, "reasons": [], "labels": []}`, "decision.labels"},
		"label is a number":         {`{"allow": true, "reasons": [], "labels": {"a": 1}}`, "decision.labels"},
	} {
		t.Run(name, func(t *testing.T) {
			decision := decideBy(t, row.decision)
			wantDenied(t, decision, "bad_decision_type")
			if !strings.Contains(decision.Reasons[0].Message, row.word) {
				t.Errorf("want %q in %q", row.word, decision.Reasons[0].Message)
			}
		})
	}
}

// decideBy judges a request by a Rego term without loading a bundle for each.
func decideBy(t *testing.T, term string) policy.Decision {
	t.Helper()
	g := loneGeneration(t, "package sandboxd\n\ndecision := "+term+"\n")
	decision, _ := g.decide(t.Context(), trap())
	return decision
}

// loneGeneration compiles one module and proves nothing.
func loneGeneration(t *testing.T, module string) *generation {
	t.Helper()
	g, _, err := compile(t.Context(), source{files: map[string][]byte{"main/decision.rego": []byte(module)}}, newWatchdog(defaultDeadline, 1))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// E7: two rules that answer differently are a conflict, not a choice.
func TestConflictDenies(t *testing.T) {
	g := loneGeneration(t, `package sandboxd

decision := {"allow": true, "reasons": []} if input.action == "exec"

decision := {"allow": false, "reasons": []} if input.action != ""
`)
	decision, _ := g.decide(t.Context(), trap())
	wantDenied(t, decision, "eval_conflict_error")
}

func TestPolicyMayTighten(t *testing.T) {
	decision := decideBy(t, `{"allow": true, "reasons": [], "accept": ["cgroup.memory", "cgroup.memory"], "labels": {"team": "a"}, "effective": {
		"securityContext": {"runAsUser": 1234}, "limits": {"timeoutSeconds": 5, "memoryBytes": 1000000}, "network": {"defaultAction": "deny"},
		"onOutputLimit": "kill", "explainDenials": true}}`)
	if !decision.Allow {
		t.Fatal(decision.Reasons)
	}
	e := decision.Effective
	if *e.SecurityContext.RunAsUser != 1234 || !*e.SecurityContext.RunAsNonRoot || e.Limits.TimeoutSeconds != 5 || e.Limits.MemoryBytes != 1000000 ||
		e.Limits.Pids != 512 || e.OnOutputLimit != "kill" || !e.ExplainDenials || len(decision.Accept) != 1 || decision.Labels["team"] != "a" {
		t.Errorf("%+v", decision)
	}
}

// A policy that widens is a mistake, whatever it is.
func TestPolicyMayNotWiden(t *testing.T) {
	for effective, field := range map[string]string{
		`{"securityContext": {"privileged": true}}`:                               "securityContext.privileged",
		`{"securityContext": {"allowPrivilegeEscalation": true}}`:                 "securityContext.allowPrivilegeEscalation",
		`{"securityContext": {"readOnlyRootFilesystem": false}}`:                  "securityContext.readOnlyRootFilesystem",
		`{"securityContext": {"runAsNonRoot": false}}`:                            "securityContext.runAsNonRoot",
		`{"securityContext": {"runAsUser": 0}}`:                                   "securityContext.runAsUser",
		`{"securityContext": {"supplementalGroups": [27]}}`:                       "securityContext.supplementalGroups",
		`{"securityContext": {"capabilities": {"add": ["CHOWN"]}}}`:               "securityContext.capabilities",
		`{"securityContext": {"capabilities": {"drop": ["CHOWN"]}}}`:              "securityContext.capabilities",
		`{"securityContext": {"seccompProfile": {"type": "Unconfined"}}}`:         "securityContext.seccompProfile",
		`{"securityContext": {"procMount": "Unmasked"}}`:                          "securityContext.procMount",
		`{"network": {"defaultAction": "allow"}}`:                                 "network",
		`{"network": {"egress": [{"action": "allow", "target": "example.com"}]}}`: "network",
		`{"limits": {"timeoutSeconds": 61}}`:                                      "limits.timeoutSeconds",
		`{"limits": {"outputBytes": 2000000}}`:                                    "limits.outputBytes",
		`{"limits": {"pids": 513}}`:                                               "limits.pids",
		`{"limits": {"openFiles": 1025}}`:                                         "limits.openFiles",
	} {
		t.Run(effective, func(t *testing.T) {
			decision := decideBy(t, `{"allow": true, "reasons": [], "effective": `+effective+`}`)
			wantDenied(t, decision, "engine.widened")
			if got := decision.Reasons[0].Field; !strings.HasPrefix(got, field) {
				t.Errorf("field is %q, want %q", got, field)
			}
			if decision.Effective.OnOutputLimit != "" {
				t.Error("a denied decision has something in force")
			}
		})
	}
}

// E3, E4: what isn't in the schema is refused before Rego sees it.
func TestStrictDecodingComesFirst(t *testing.T) {
	for body, field := range map[string]string{
		`{"action": "exec", "command": {"argv": ["ls"]}, "securityContext": {"privileged": "false"}}`:                   "securityContext.privileged",
		`{"action": "exec", "command": {"argv": ["ls"]}, "securityContext": {"Privileged": false}}`:                     "securityContext.Privileged",
		`{"action": "exec", "command": {"argv": ["ls"]}, "securityContext": {"privileged": true, "privileged": false}}`: "securityContext.privileged",
		`{"action": "exec", "command": {"argv": ["ls"]}, "securityContext": {"priviledged": false}}`:                    "securityContext.priviledged",
		`{"action": "exec", "command": {"argv": ["ls"]}, "network": {"defaultAction": "denny"}}`:                        "network.defaultAction",
	} {
		if _, err := policy.ParseDecide([]byte(body)); err == nil || !strings.HasPrefix(err.Error(), field) {
			t.Errorf("%s: want an error about %s, got %v", body, field, err)
		}
	}
}

// Whatever comes, reading doesn't panic, and what passes is whole.
func FuzzReadAnswer(f *testing.F) {
	f.Add(`{"allow": true, "reasons": [], "effective": {"limits": {"pids": 1}}, "accept": ["a.b"], "labels": {"a": "b"}}`)
	f.Add(`{"allow": false, "reasons": [{"rule": "a", "message": "b", "field": "c", "change": {"op": "set", "field": "c", "value": 1}}]}`)
	f.Add(`[]`)
	f.Fuzz(func(t *testing.T, text string) {
		var value any
		if util.UnmarshalJSON([]byte(text), &value) != nil {
			return
		}
		answer, err := readAnswer(value)
		if err != nil {
			return
		}
		if answer.allow != (len(answer.reasons) == 0) {
			t.Errorf("allow %v with %d reasons", answer.allow, len(answer.reasons))
		}
		if _, err := json.Marshal(answer.reasons); err != nil {
			t.Error(err)
		}
	})
}
