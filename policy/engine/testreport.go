package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/cover"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/tester"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// TestReport is how a bundle's own proofs went: each test of *_test.rego, and each decision of its corpus.
type TestReport struct {
	Revision  string       `json:"revision"`
	Tests     []TestResult `json:"tests"`
	Decisions []TestResult `json:"decisions"`
	// Missing says what a bundle needs and this one doesn't have: a test, a case to allow, a case to deny.
	Missing  []string `json:"missing"`
	Coverage Coverage `json:"coverage"`
}

// TestResult is one test or one decision.
type TestResult struct {
	File string `json:"file"`
	Line int    `json:"line"`
	// Name is a rule's, or a case's title.
	Name string `json:"name"`
	Pass bool   `json:"pass"`
	// Fault says what came instead; empty when it passed.
	Fault   string  `json:"fault,omitempty"`
	Seconds float64 `json:"seconds"`
}

// Coverage is how much of the rules tests and corpus have reached together, by lines.
type Coverage struct {
	Percent      float64 `json:"percent"`
	CoveredLines int     `json:"coveredLines"`
	Lines        int     `json:"lines"`
	// Missed are the first lines of what nothing has reached.
	Missed []Place `json:"missed"`
}

// Place is a line of a bundle.
type Place struct {
	File string `json:"file"`
	Line int    `json:"line"`
}

// Passed says that everything did, and that nothing is missing.
func (r TestReport) Passed() bool {
	failed := func(result TestResult) bool { return !result.Pass }
	return len(r.Missing) == 0 && !slices.ContainsFunc(r.Tests, failed) && !slices.ContainsFunc(r.Decisions, failed)
}

// Test compiles a bundle and runs all of its tests and its whole corpus, where a load ends at the first that fails. The error is that of a bundle
// that can't be read or doesn't compile: see [Check].
func Test(ctx context.Context, fsys fs.FS) (TestReport, error) {
	ctx, cancel := context.WithTimeout(ctx, longestLoad)
	defer cancel()
	src, err := readBundle(fsys)
	if err != nil {
		return TestReport{}, err
	}
	g, bundle, err := compile(ctx, src, newWatchdog(defaultDeadline, 1))
	if err != nil {
		return TestReport{}, err
	}
	covered := cover.New()
	report := TestReport{Revision: src.revision, Missing: []string{}}
	results, err := testResults(ctx, bundle, covered)
	if err != nil {
		return TestReport{}, err
	}
	report.Tests = listTests(results)
	if len(report.Tests) == 0 {
		report.Missing = append(report.Missing, errNoTests.Error())
	}
	report.Decisions = g.testCorpus(ctx, src, bundle.corpus, covered)
	wants := map[string]int{}
	for _, file := range bundle.corpus {
		for _, one := range file.Cases {
			wants[one.Want]++
		}
	}
	if err := enoughDecisions(wants); err != nil {
		report.Missing = append(report.Missing, err.Error())
	}
	report.Coverage = coverageOf(covered, bundle.modules)
	return report, ctx.Err()
}

func listTests(results []*tester.Result) []TestResult {
	list := make([]TestResult, 0, len(results))
	for _, result := range results {
		location := cmp.Or(result.Location, &ast.Location{})
		one := TestResult{File: location.File, Line: location.Row, Name: result.Name, Pass: result.Pass(), Seconds: result.Duration.Seconds()}
		switch {
		case one.Pass:
		case result.Skip:
			one.Fault = "is skipped; a name that begins with todo_ proves nothing"
		case result.Error != nil:
			one.Fault = result.Error.Error()
			var evaluation *topdown.Error
			if errors.As(result.Error, &evaluation) { // Without the place, which is the test's.
				one.Fault = evaluation.Code + ": " + evaluation.Message
			}
		default:
			one.Fault = "is not true"
		}
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b TestResult) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Name, b.Name))
	})
	return list
}

func (g *generation) testCorpus(ctx context.Context, src source, files []corpusFile, covered *cover.Cover) []TestResult {
	list := []TestResult{}
	for _, file := range files {
		lines := memberLines(src.files[file.name])
		for i, want := range file.Cases {
			start := time.Now()
			decision, err := g.judge(ctx, look(want.request), rego.EvalQueryTracer(covered))
			one := TestResult{File: file.name, Line: lines[casePointer(i)], Name: want.Title, Seconds: time.Since(start).Seconds()}
			if got := wrong(want, decision); err != nil {
				one.Fault = faultReason(err).Message
			} else if got != "" {
				one.Fault = fmt.Sprintf("want %s, got %s", describe(want.Want, want.Because), got)
			}
			one.Pass = one.Fault == ""
			list = append(list, one)
		}
	}
	return list
}

func coverageOf(covered *cover.Cover, modules map[string]*ast.Module) Coverage {
	report := covered.Report(modules)
	coverage := Coverage{Missed: []Place{}}
	for _, name := range slices.Sorted(maps.Keys(modules)) { // The report has the tests' own files too.
		file := report.Files[name]
		if file == nil {
			continue
		}
		coverage.CoveredLines += file.CoveredLines
		coverage.Lines += file.CoveredLines + file.NotCoveredLines
		for _, missed := range file.NotCovered {
			coverage.Missed = append(coverage.Missed, Place{name, missed.Start.Row})
		}
	}
	coverage.Missed = slices.Compact(coverage.Missed)
	if coverage.Lines > 0 {
		coverage.Percent = 100 * float64(coverage.CoveredLines) / float64(coverage.Lines)
	}
	return coverage
}
