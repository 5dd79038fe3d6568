package engine

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/types"

	"github.com/sandboxd/sandboxd/policy"
	bundle "github.com/sandboxd/sandboxd/rego"
)

// Trap 1, E7: a builtin that fails makes its rule undefined, and `count(bad) == 0` true.
func TestBuiltinErrorDenies(t *testing.T) {
	e := open(t, Options{FS: trapped(t, `{"allow": count(bad) == 0, "reasons": [], "effective": {}, "accept": [], "labels": {}}`,
		`bad contains "large" if to_number(input.command.argv[1]) > 3`)})
	if decision := e.Decide(t.Context(), trap("2")); !decision.Allow {
		t.Fatalf("the rule itself is wrong: %v", decision.Reasons)
	}
	decision := e.Decide(t.Context(), trap("canary-secret"))
	wantDenied(t, decision, "policy_error")
	if message := decision.Reasons[0].Message; !strings.Contains(message, "eval_builtin_error at main/trap.rego:7") || strings.Contains(message, "canary") {
		t.Errorf("message: %s", message)
	}
	wantDenied(t, open(t, Options{FS: trapped(t, `{"allow": 1 / count(input.command.envNames) > 0, "reasons": []}`, "")}).Decide(t.Context(), trap()), "policy_error")
}

// Trap 2: each field in turn is taken out of the input, and nothing passes.
func TestEveryFieldIsNeeded(t *testing.T) {
	e := open(t, Options{FS: bundle.Bundle})
	g := e.active.Load()
	request := typical()
	whole, ok := document(look(request)).(ast.Object)
	if !ok {
		t.Fatal("the input is no object")
	}
	judge := func(input ast.Value) policy.Decision {
		value, err := g.watchdog.evaluate(t.Context(), g.query, input)
		if err != nil {
			return deny(faultReason(err))
		}
		return conclude(value, request)
	}
	if decision := judge(whole); !decision.Allow {
		t.Fatalf("the whole input is denied: %v", decision.Reasons)
	}
	count := 0
	for _, path := range fieldsOf(whole, nil) {
		count++
		if judge(without(whole, path)).Allow {
			t.Errorf("allowed without %s", strings.Join(path, "."))
		}
	}
	if count < 45 {
		t.Errorf("only %d fields were taken out", count)
	}
	if judge(ast.NewObject()).Allow {
		t.Error("allowed with nothing at all")
	}
}

// The input has every field of its schema even when nothing was asked.
func TestInputIsComplete(t *testing.T) {
	input := document(look(policy.Request{})).(ast.Object)
	var got []string
	for _, path := range fieldsOf(input, nil) {
		got = append(got, strings.Join(path, "."))
	}
	want := schemaFields(inputFields, "")
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("input has %v, schema has %v", got, want)
	}
}

func fieldsOf(object ast.Object, above []string) [][]string {
	var paths [][]string
	object.Foreach(func(key, value *ast.Term) {
		path := append(slices.Clone(above), string(key.Value.(ast.String)))
		paths = append(paths, path)
		if child, isObject := value.Value.(ast.Object); isObject {
			paths = append(paths, fieldsOf(child, path)...)
		}
	})
	return paths
}

func schemaFields(schema map[string]any, above string) []string {
	var paths []string
	properties, _ := schema["properties"].(map[string]any)
	for name, child := range properties {
		paths = append(paths, above+name)
		paths = append(paths, schemaFields(child.(map[string]any), above+name+".")...)
	}
	return paths
}

func without(object ast.Object, path []string) ast.Value {
	result := ast.NewObject()
	object.Foreach(func(key, value *ast.Term) {
		switch {
		case string(key.Value.(ast.String)) != path[0]:
			result.Insert(key, value)
		case len(path) > 1:
			result.Insert(key, ast.NewTerm(without(value.Value.(ast.Object), path[1:])))
		}
	})
	return result
}

// Trap 2 again: a rule that names a field that isn't there never fires; it doesn't load.
func TestMisspeltFieldDoesNotLoad(t *testing.T) {
	refused(t, replaced(t, "context/privilege.rego", "input.securityContext.privileged != false", "input.securityContext.privileeged != false"), "privileeged")
}

// Trap 3, E1: a misspelt path is an empty result and no error.
func TestMissingEntrypointDoesNotLoad(t *testing.T) {
	refused(t, replaced(t, "main/decision.rego", "\ndecision := {", "\ndecisions := {"), "data.sandboxd.decision")
}

func TestUndefinedDecisionDenies(t *testing.T) {
	e := open(t, Options{FS: trapped(t, `{"allow": true, "reasons": [], "effective": {}, "accept": [], "labels": data.settings.nothing}`, "")})
	wantDenied(t, e.Decide(t.Context(), trap()), "undefined_decision")
}

// Trap 4, E9: capabilities count only on the compiler.
func TestBuiltinsThatLookOutsideDoNotLoad(t *testing.T) {
	for call, name := range map[string]string{
		`http.send({"method": "get", "url": "http://example.com"})`: "http.send",
		`net.lookup_ip_addr("example.com")`:                         "net.lookup_ip_addr",
		`opa.runtime()`:                                             "opa.runtime",
		`time.now_ns()`:                                             "time.now_ns",
		`rand.intn("x", 2)`:                                         "rand.intn",
		`uuid.rfc4122("x")`:                                         "uuid.rfc4122",
		`bits.lsh(1, 134217728)`:                                    "bits.lsh",
		`net.cidr_expand("10.0.0.0/8")`:                             "net.cidr_expand",
		`graph.reachable_paths({}, {"a"})`:                          "graph.reachable_paths",
		`json.match_schema({}, {"$ref": "http://example.com"})`:     "json.match_schema",
		`yaml.unmarshal("a: b")`:                                    "yaml.unmarshal",
		`rego.parse_module("a.rego", "package a")`:                  "rego.parse_module",
		`io.jwt.encode_sign({}, {}, {})`:                            "io.jwt.encode_sign",
	} {
		t.Run(name, func(t *testing.T) {
			files := defaultFiles(t)
			files["main/outside.rego"] = &fstest.MapFile{Data: []byte("package sandboxd\n\noutside := " + call + "\n")}
			refused(t, files, name)
			// Tests of the bundle run with the same capabilities.
			files = defaultFiles(t)
			files["main/outside_test.rego"] = &fstest.MapFile{Data: []byte("package sandboxd_test\n\ntest_outside if is_null(" + call + ") == false\n")}
			refused(t, files, name)
		})
	}
}

// Every name of the list is a builtin of this OPA, and none of them answers differently each time.
func TestBuiltinListIsCurrent(t *testing.T) {
	known := map[string]*ast.Builtin{}
	for _, builtin := range ast.CapabilitiesForThisVersion().Builtins {
		known[builtin.Name] = builtin
	}
	for _, name := range builtins {
		if known[name] == nil || known[name].IsNondeterministic() {
			t.Errorf("%s: unknown or nondeterministic", name)
		}
	}
	if got := len(capabilities().Builtins); got != len(builtins) {
		t.Errorf("%d builtins in force, %d listed", got, len(builtins))
	}
}

// Trap 5, E8: what can be stopped is stopped at the deadline.
func TestSlowPolicyIsDeniedAtTheDeadline(t *testing.T) {
	e := open(t, Options{Deadline: 300 * time.Millisecond, FS: trapped(t, `{"allow": true, "reasons": [format_int(slow, 10)], "effective": {}, "accept": [], "labels": {}}`,
		`slow := count([1 | some i in numbers.range(1, 100000); some j in numbers.range(1, 100000); i == j])`)})
	wantDenied(t, e.Decide(t.Context(), trap()), "policy_timeout")
	if decision := e.Decide(t.Context(), typical()); !decision.Allow {
		t.Errorf("the next request is denied: %v", decision.Reasons)
	}
}

// Trap 5: what can't be stopped is not waited for, and holds its slot, so that it can't pile up.
func TestWatchdogDoesNotWaitForADeafBuiltin(t *testing.T) {
	release := make(chan struct{})
	query, err := rego.New(rego.Query("x = deaf(1)"), rego.Function1(
		&rego.Function{Name: "deaf", Decl: types.NewFunction(types.Args(types.N), types.N)},
		func(rego.BuiltinContext, *ast.Term) (*ast.Term, error) {
			<-release
			return ast.IntNumberTerm(1), nil
		},
	)).PrepareForEval(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dog := newWatchdog(50*time.Millisecond, 2)
	for range 3 { // The third finds no slot.
		if _, err := dog.evaluate(t.Context(), query, ast.NewObject()); !errors.Is(err, errTimeout) {
			t.Fatalf("want %v, got %v", errTimeout, err)
		}
	}
	if len(dog.slots) != 2 {
		t.Errorf("%d slots are held, want 2", len(dog.slots))
	}
	close(release)
	for range 2 {
		dog.slots <- struct{}{} // Free again, or the test hangs.
	}
}

func TestWatchdogOutlivesAPanic(t *testing.T) {
	query, err := rego.New(rego.Query("x = broken(1)"), rego.Function1(
		&rego.Function{Name: "broken", Decl: types.NewFunction(types.Args(types.N), types.N)},
		func(rego.BuiltinContext, *ast.Term) (*ast.Term, error) { panic("broken") },
	)).PrepareForEval(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newWatchdog(time.Second, 1).evaluate(t.Context(), query, ast.NewObject()); err == nil || !strings.Contains(err.Error(), "panicked") {
		t.Errorf("want a panic as an error, got %v", err)
	}
}

// Trap 5: Rego never sees more than 256 KiB.
func TestLargeInputIsDenied(t *testing.T) {
	e := open(t, Options{FS: bundle.Bundle})
	decision := e.Decide(t.Context(), trap(strings.Repeat("x", mostInput)))
	wantDenied(t, decision, "engine.input_too_large")
	if field := decision.Reasons[0].Field; field != "command.argv" {
		t.Errorf("field is %s", field)
	}
	request := trap()
	request.Command.Stdin = make([]byte, 4*mostInput)
	if decision := e.Decide(t.Context(), request); !decision.Allow {
		t.Errorf("standard input counts though Rego doesn't see it: %v", decision.Reasons)
	}
}

// A caller that goes away is not an answer.
func TestCancelledDecisionDenies(t *testing.T) {
	e := open(t, Options{FS: bundle.Bundle})
	ctx, cancel := contextCancelled(t)
	defer cancel()
	wantDenied(t, e.Decide(ctx, trap()), "policy_error")
	if decision := e.Decide(t.Context(), trap()); !decision.Allow {
		t.Errorf("the failure was remembered: %v", decision.Reasons)
	}
}
