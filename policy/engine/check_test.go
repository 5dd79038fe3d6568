package engine

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/sandboxd/sandboxd/rego"
)

func TestCheckFindsTheDefaultBundleFine(t *testing.T) {
	report, err := Check(t.Context(), rego.Bundle)
	if err != nil || len(report.Flaws) > 0 {
		t.Fatalf("%v, %v", report.Flaws, err)
	}
	if report.Files < 30 || report.Rules < 60 || report.Tests < 60 || report.Decisions < 60 || report.Revision == "" {
		t.Errorf("%+v", report)
	}
}

// Each mistake alone is told, at its place; "refused" is what a load refuses too.
func TestCheck(t *testing.T) {
	add := func(name, text string) func(fstest.MapFS) {
		return func(files fstest.MapFS) { files[name] = &fstest.MapFile{Data: []byte(text)} }
	}
	described := "# METADATA\n# title: A rule\n# description: It does.\n# labels:\n#   rule: main.x\n"
	refuses, minds := true, false
	for name, row := range map[string]struct {
		change  func(fstest.MapFS)
		place   string
		refused bool
		word    string
	}{
		"syntax":             {replaceIn("main/decision.rego", "default allow := false", "default allow = := false"), "main/decision.rego:121", refuses, "rego_parse_error"},
		"misspelt input":     {replaceIn("context/privilege.rego", "input.securityContext.privileged != false", "input.securityContext.privileeged != false"), "context/privilege.rego:30", refuses, "undefined ref: input.securityContext.privileeged; have: \"privileeged\"; want (one of)"},
		"misspelt in a test": {replaceIn("limits/maximum_test.rego", "limits.proven with input as fixture.request\n", "limits.prooven with input as fixture.request\n"), "limits/maximum_test.rego:7", minds, "data.sandboxd.limits.prooven is nowhere, neither in data.json nor a rule; nearest is proven"},
		"outside":            {add("main/x.rego", "package sandboxd\n\n"+described+"x := http.send({})\n"), "main/x.rego:8", refuses, "http.send"},
		"unused variable":    {add("main/x.rego", "package sandboxd\n\n"+described+"x := y if {\n\ty := 1\n\tz := 2\n}\n"), "main/x.rego:10", refuses, "z"},
		"no entrypoint":      {replaceIn("main/decision.rego", "\ndecision := {", "\ndecisions := {"), "", refuses, "data.sandboxd.decision"},
		"kind of file":       {add("limits/data.yaml", "a: 1\n"), "limits/data.yaml:0", refuses, "unknown kind of file"},
		"data syntax":        {replaceIn("data.json", `"actions": [`, `"actions": ,[`), "data.json:3", refuses, "not one JSON value"},
		"data twice":         {replaceIn("data.json", `"accept": [],`, `"accept": [], "accept": [],`), "data.json:4", refuses, "duplicate"},
		"data and more":      {add("data.json", "{}\n{}\n"), "data.json:0", refuses, "more after it"},
		"data hides a rule":  {add("sandboxd/network/data.json", `{"deny": []}`), "network/egress.rego:53", refuses, "conflict"},
		"corpus key":         {add("corpus/x.json", "{\n\"title\": \"x\",\n\"casez\": []\n}\n"), "corpus/x.json:3", refuses, "casez"},
		"corpus request": {add("corpus/x.json", "{\"title\": \"x\",\n\"cases\": [\n{\"title\": \"y\", \"request\": {\"action\": \"exce\"}, \"want\": \"allow\"}\n]}\n"),
			"corpus/x.json:3", refuses, "nearest is exec"},
		"must deny":           {replaceIn("data.json", `"proc_mounts": ["Default"]`, `"proc_mounts": ["Default", "Unmasked"]`), "main/decision.rego:140", refuses, "an unmasked /proc"},
		"no METADATA":         {add("main/x.rego", "package sandboxd\n\nx := 1\n"), "main/x.rego:3", minds, "x has no METADATA"},
		"no description":      {add("main/x.rego", "package sandboxd\n\n# METADATA\n# title: X\nx := 1\n"), "main/x.rego:5", minds, "no description, no label"},
		"wrong label":         {replaceIn("context/privilege.rego", `"rule": "context.privileged"`, `"rule": "context.privilege"`), "context/privilege.rego:29", minds, `"context.privilege" and is labelled "context.privileged"`},
		"never looked at":     {add("main/x.rego", "package sandboxd.x\n\n"+described+"deny contains 1\n"), "main/x.rego:8", minds, "never looked at"},
		"stray test":          {add("main/x.rego", "package sandboxd\n\n"+described+"test_x if true\n"), "main/x.rego:8", minds, "never runs"},
		"stray rule":          {add("limits/more_test.rego", "package sandboxd.limits\n\ndeny contains 1\n"), "limits/more_test.rego:1", minds, "limits/maximum.rego"},
		"unknown data":        {replaceIn("data.json", "{\n  \"settings\": {", "{\n  \"setings\": {\"a\": 1},\n  \"settings\": {"), "data.json:2", minds, "no rule looks at data.setings"},
		"unknown beneath":     {replaceIn("data.json", `"proc_mounts": [`, `"proc_mount": [], "proc_mounts": [`), "data.json:17", minds, "no rule looks at data.settings.context.proc_mount"},
		"unknown in a folder": {add("settings/limits/data.json", "{\n\"minimum\": 1}\n"), "settings/limits/data.json:2", minds, "data.settings.limits.minimum"},
		"data is nowhere":     {replaceIn("data.json", `"cwd_denied": [`, `"cwd_denieds": [`), "exec/directory.rego:26", minds, "data.settings.exec.cwd_denied is nowhere, neither in data.json nor a rule; nearest is cwd_denieds"},
	} {
		t.Run(name, func(t *testing.T) {
			files := defaultFiles(t)
			row.change(files)
			report, err := Check(t.Context(), files)
			if err != nil {
				t.Fatal(err)
			}
			found := false
			for _, flaw := range report.Flaws {
				at := ""
				if flaw.File != "" {
					at = fmt.Sprintf("%s:%d", flaw.File, flaw.Line)
				}
				found = found || at == row.place && flaw.Refused == row.refused && strings.Contains(flaw.Message, row.word)
			}
			if !found {
				t.Errorf("want %s (refused: %t) with %q, got:\n%+v", row.place, row.refused, row.word, report.Flaws)
			}
			// Whether a load agrees. Tests of the bundle may find a flaw too, which is more than check asks.
			if row.refused {
				refused(t, files, "")
			}
		})
	}
}

func TestCheckWantsTestsAndDecisions(t *testing.T) {
	files := fstest.MapFS{"main/decision.rego": {Data: []byte("package sandboxd\n\ndecision := {\"allow\": false, \"reasons\": [{\"rule\": \"x\", \"message\": \"No.\"}]}\n")}}
	report, err := Check(t.Context(), files)
	if err != nil {
		t.Fatal(err)
	}
	all := fmt.Sprintf("%+v", report.Flaws)
	for _, want := range []string{"tests: none", "corpus: 0 cases to allow and 0 to deny", "no METADATA"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in %s", want, all)
		}
	}
}

// Where a load ends at the first, check tells all.
func TestCheckTellsAll(t *testing.T) {
	files := defaultFiles(t)
	replaceIn("context/privilege.rego", "input.securityContext.privileged != false", "input.securityContext.privileeged != false")(files)
	replaceIn("limits/maximum.rego", "some name, value in input.limits", "some name, value in input.limitz")(files)
	files["a.txt"], files["b.txt"] = &fstest.MapFile{}, &fstest.MapFile{}
	report, err := Check(t.Context(), files)
	if err != nil {
		t.Fatal(err)
	}
	var at []string
	for _, flaw := range report.Flaws {
		at = append(at, flaw.File)
	}
	if got := strings.Join(at, " "); got != "a.txt b.txt context/privilege.rego limits/maximum.rego" {
		t.Error(got)
	}
}
