package engine

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/format"

	bundle "github.com/sandboxd/sandboxd/rego"
)

func defaultParsed(t *testing.T) (source, parsed) {
	t.Helper()
	src, err := readBundle(bundle.Bundle)
	if err != nil {
		t.Fatal(err)
	}
	all, err := parse(src)
	if err != nil {
		t.Fatal(err)
	}
	return src, all
}

func TestDefaultBundleHasItsParts(t *testing.T) {
	src, all := defaultParsed(t)
	cases, titles := 0, map[string]bool{}
	for _, file := range all.corpus {
		cases += len(file.Cases)
		for _, c := range file.Cases {
			titles[c.Title] = true
		}
	}
	if cases < 60 || len(titles) != cases {
		t.Errorf("%d decisions, %d titles", cases, len(titles))
	}
	for name := range all.modules {
		if test := strings.TrimSuffix(name, ".rego") + "_test.rego"; src.files[test] == nil {
			t.Errorf("%s has no %s beside it", name, path.Base(test))
		}
	}
}

func TestDefaultBundleIsFormatted(t *testing.T) {
	src, _ := defaultParsed(t)
	for name, content := range src.files {
		if !strings.HasSuffix(name, ".rego") {
			continue
		}
		formatted, err := format.SourceWithOpts(name, content, format.Opts{RegoVersion: ast.RegoV1})
		if err != nil || !bytes.Equal(formatted, content) {
			t.Errorf("%s: not as `opa fmt` writes it (%v)", name, err)
		}
	}
}

// Every rule has a title, a description and a label, and the reasons that it gives have that label.
func TestEveryRuleIsDescribed(t *testing.T) {
	_, all := defaultParsed(t)
	rules := 0
	for name, module := range all.modules {
		set, errs := ast.BuildAnnotationSet([]*ast.Module{module})
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		for _, rule := range module.Rules {
			rules++
			place := fmt.Sprintf("%s:%d", name, rule.Location.Row)
			var own *ast.Annotations
			for _, link := range set.Chain(rule) {
				if link.Annotations != nil && (link.Annotations.Scope == "rule" || link.Annotations.Scope == "document") {
					own = link.Annotations
				}
			}
			if own == nil || own.Title == "" || own.Description == "" {
				t.Errorf("%s: no METADATA with title and description", place)
				continue
			}
			label, _ := own.Labels["rule"].(string)
			if label == "" {
				t.Errorf("%s: no label", place)
			}
			ast.WalkTerms(rule.Body, func(term *ast.Term) bool {
				if object, isObject := term.Value.(ast.Object); isObject {
					if said := object.Get(ast.InternedTerm("rule")); said != nil && object.Get(ast.InternedTerm("message")) != nil {
						if text, isText := said.Value.(ast.String); isText && string(text) != label {
							t.Errorf("%s: says %q, is labelled %q", place, text, label)
						}
					}
				}
				return false
			})
		}
	}
	if rules < 60 {
		t.Errorf("only %d rules", rules)
	}
}

// The mutation list: the bundle without any one of its rules that prove or deny doesn't pass its own tests.
func TestEveryRuleIsMissedByATest(t *testing.T) {
	src, all := defaultParsed(t)
	for _, name := range slices.Sorted(maps.Keys(all.modules)) {
		for i, rule := range all.modules[name].Rules {
			if head := string(rule.Head.Name); head != "proven" && head != denying && head != "complete" && head != "actions" {
				continue
			}
			t.Run(fmt.Sprintf("%s:%d", name, rule.Location.Row), func(t *testing.T) {
				t.Parallel()
				mutant, err := parse(src)
				if err != nil {
					t.Fatal(err)
				}
				module := mutant.modules[name]
				module.Rules = slices.Delete(module.Rules, i, i+1)
				if err := runTests(t.Context(), mutant); err == nil {
					t.Error("no test misses this rule")
				}
			})
		}
	}
}

func TestBundlesThatProveTooLittle(t *testing.T) {
	for name, row := range map[string]struct {
		change func(files fstest.MapFS)
		word   string
	}{
		"no tests":                  {func(files fstest.MapFS) { delete(files, "decision_test.rego") }, "tests: none"},
		"no corpus":                 {func(files fstest.MapFS) { delete(files, "corpus/all.json") }, "corpus: 0 cases to allow and 0 to deny"},
		"can't say no":              {replaceIn("corpus/all.json", `["no"]}}, "want": "deny", "because": ["tiny"]`, `["maybe"]}}, "want": "allow"`), "2 cases to allow and 0 to deny"},
		"can't say yes":             {replaceIn("corpus/all.json", `["yes"]}}, "want": "allow"`, `["no"]}}, "want": "deny", "because": ["tiny"]`), "0 cases to allow and 2 to deny"},
		"decides otherwise":         {replaceIn("corpus/all.json", `["yes"]`, `["no"]`), `"Yes": want allow, got deny because of tiny`},
		"denies for another reason": {replaceIn("corpus/all.json", `["tiny"]`, `["small"]`), "want deny because of small, got deny because of tiny"},
		"denies for no reason":      {replaceIn("corpus/all.json", `, "because": ["tiny"]`, ``), "because of which rules"},
		"a bad request":             {replaceIn("corpus/all.json", `"argv"`, `"argc"`), "command.argc"},
		"an unknown field":          {replaceIn("corpus/all.json", `"title": "Yes"`, `"titel": "Yes"`), "titel"},
		"a skipped test":            {replaceIn("decision_test.rego", "test_nothing", "todo_test_nothing"), "is skipped"},
		"a failing test":            {replaceIn("decision_test.rego", "if not", "if"), "decision_test.rego:5: test_nothing failed"},
		"a test that errs":          {replaceIn("decision_test.rego", "input as {}", "input as {\"x\": to_number(\"y\")}"), "to_number"},
		"no rules":                  {func(files fstest.MapFS) { delete(files, "decision.rego"); delete(files, "decision_test.rego") }, "data.sandboxd.decision"},
	} {
		t.Run(name, func(t *testing.T) {
			files := tiny("true")
			files["decision.rego"].Data = bytes.Replace(files["decision.rego"].Data, []byte("\ttrue\n"), []byte("\tnot input.securityContext.privileged\n"), 1)
			row.change(files)
			refused(t, files, row.word)
		})
	}
}

func replaceIn(name, from, to string) func(fstest.MapFS) {
	return func(files fstest.MapFS) {
		after := strings.Replace(string(files[name].Data), from, to, 1)
		if after == string(files[name].Data) {
			panic(name + " has no " + from)
		}
		files[name] = &fstest.MapFile{Data: []byte(after)}
	}
}

// Each line of the must-deny list is needed: a bundle that gives way at that one place alone is refused, by that line's name.
func TestMustDenyListSeesEachHole(t *testing.T) {
	for line, row := range map[string]string{
		"capability":              `	count(input.securityContext.capabilities.add) == 0`,
		"privilege escalation":    `	not input.securityContext.allowPrivilegeEscalation`,
		"user root":               `	input.securityContext.runAsUser != 0`,
		"group root":              `	input.securityContext.runAsGroup != 0`,
		"supplemental group root": `	count(input.securityContext.supplementalGroups) == 0`,
		"an unmasked /proc":       `	input.securityContext.procMount == "Default"`,
		"seccomp Unconfined":      `	input.securityContext.seccompProfile.type == "RuntimeDefault"`,
	} {
		t.Run(line, func(t *testing.T) {
			files := tiny("not input.securityContext.privileged")
			replaceIn("decision.rego", row+"\n", "")(files)
			refused(t, files, "must-deny: the bundle allows "+line)
		})
	}
	open(t, Options{FS: tiny("not input.securityContext.privileged")})
}

// Unconfined is a person's to permit, in data and nowhere else.
func TestUnconfinedNeedsData(t *testing.T) {
	files := tiny("not input.securityContext.privileged")
	replaceIn("decision.rego", `	input.securityContext.seccompProfile.type == "RuntimeDefault"`+"\n", "")(files)
	files["data.json"] = &fstest.MapFile{Data: []byte(`{"settings": {"context": {"seccomp_profile_types": ["RuntimeDefault", "Unconfined"]}}}`)}
	open(t, Options{FS: files})
}

func TestDataMayBeInFolders(t *testing.T) {
	all, err := parse(source{files: map[string][]byte{"data.json": []byte(`{"a": {"b": 1}}`), "c/d/data.json": []byte(`{"e": 2}`)}})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(all.data); got != "map[a:map[b:1] c:map[d:map[e:2]]]" {
		t.Error(got)
	}
	for name, files := range map[string]map[string][]byte{
		"twice the same":  {"data.json": []byte(`{"a": {"b": 1}}`), "a/data.json": []byte(`{"b": 2}`)},
		"beneath a value": {"data.json": []byte(`{"a": 1}`), "a/data.json": []byte(`{"b": 2}`)},
		"no object":       {"data.json": []byte(`[]`)},
		"trailing data":   {"data.json": []byte(`{} {}`)},
		"not UTF-8":       {"data.json": []byte("{\"a\": \"\xff\"}")},
	} {
		if _, err := parse(source{files: files}); err == nil || !strings.Contains(err.Error(), "data.json") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Data must not hide a rule.
func TestDataThatHidesARule(t *testing.T) {
	files := defaultFiles(t)
	files["sandboxd/network/data.json"] = &fstest.MapFile{Data: []byte(`{"deny": []}`)}
	refused(t, files, "conflicting rule for data path")
}
