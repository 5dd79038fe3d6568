package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/sandboxd/sandboxd/rego"
)

func TestTestPassesTheDefaultBundle(t *testing.T) {
	report, err := Test(t.Context(), rego.Bundle)
	if err != nil || !report.Passed() {
		t.Fatalf("%+v, %v", report, err)
	}
	if len(report.Tests) < 60 || len(report.Decisions) < 60 || report.Coverage.Percent < 99 || report.Coverage.Lines < 300 {
		t.Errorf("%d tests, %d decisions, coverage %+v", len(report.Tests), len(report.Decisions), report.Coverage)
	}
	for _, result := range slices.Concat(report.Tests, report.Decisions) {
		if result.File == "" || result.Line == 0 || result.Name == "" {
			t.Errorf("%+v", result)
		}
	}
}

// Every failure is told, where a load ends at the first.
func TestTestTellsEveryFailure(t *testing.T) {
	files := replaced(t, "data.json", `"proc_mounts": ["Default"]`, `"proc_mounts": ["Default", "Unmasked"]`)
	files["main/more_test.rego"] = &fstest.MapFile{Data: []byte("package sandboxd_test\n\ntest_false if 1 == 2\n\ntodo_test_later if true\n\ntest_fault if to_number(\"x\") == 1\n")}
	files["main/more.rego"] = &fstest.MapFile{Data: []byte("package sandboxd\n\nmore if {\n\tinput.action == \"never\"\n\tinput.sandbox == \"x\"\n}\n")}
	report, err := Test(t.Context(), files)
	if err != nil || report.Passed() {
		t.Fatalf("%v", err)
	}
	var failed []string
	for _, result := range slices.Concat(report.Tests, report.Decisions) {
		if !result.Pass {
			failed = append(failed, fmt.Sprintf("%s:%d %s", result.File, result.Line, result.Fault))
		}
	}
	all := strings.Join(failed, "\n")
	for _, want := range []string{
		"main/more_test.rego:3 is not true", "main/more_test.rego:5 is skipped", "main/more_test.rego:7 eval_builtin_error: ",
		"corpus/filters.json:43 want deny because of context.procMount, got allow",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in:\n%s", want, all)
		}
	}
	if !slices.Contains(report.Coverage.Missed, Place{"main/more.rego", 3}) {
		t.Errorf("missed: %v", report.Coverage.Missed)
	}
}

func TestTestWantsTestsAndDecisions(t *testing.T) {
	files := defaultFiles(t)
	for name := range files {
		if isTestFile(name) || isCorpus(name) {
			delete(files, name)
		}
	}
	report, err := Test(t.Context(), files)
	if err != nil || report.Passed() || len(report.Missing) != 2 {
		t.Errorf("%+v, %v", report.Missing, err)
	}
}
