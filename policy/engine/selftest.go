package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/cover"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"github.com/open-policy-agent/opa/v1/tester"
)

// longestTest bounds one rule of *_test.rego.
const longestTest = 5 * time.Second

// prove runs what a bundle brings along to say that it is good: its tests and its corpus.
func (g *generation) prove(ctx context.Context, bundle parsed) error {
	if err := runTests(ctx, bundle); err != nil {
		return err
	}
	return g.proveCorpus(ctx, bundle.corpus)
}

func runTests(ctx context.Context, bundle parsed) error {
	results, err := testResults(ctx, bundle, nil)
	if err != nil {
		return err
	}
	passed := 0
	var failed []string
	for _, result := range results {
		if result.Pass() {
			passed++
			continue
		}
		failed = append(failed, testFault(result))
	}
	switch {
	case len(failed) > 0:
		return errors.New("tests: " + strings.Join(failed, "; "))
	case passed == 0:
		return errNoTests
	}
	return nil
}

var errNoTests = errors.New("tests: none; a bundle has its tests in *_test.rego")

// testResults runs every rule of *_test.rego whose name begins with test_. Where covered isn't nil, it is told what they reached.
func testResults(ctx context.Context, bundle parsed, covered *cover.Cover) ([]*tester.Result, error) {
	modules := maps.Clone(bundle.modules)
	maps.Copy(modules, bundle.tests)
	for name, module := range modules {
		// The runner rewrites modules as it compiles them.
		modules[name] = module.Copy()
	}
	store := inmem.NewFromObjectWithOpts(bundle.data, inmem.OptReturnASTValuesOnRead(true))
	txn, err := store.NewTransaction(ctx)
	if err != nil {
		return nil, err
	}
	defer store.Abort(ctx, txn)
	runner := tester.NewRunner().
		SetCompiler(newCompiler()).
		SetStore(store).
		SetModules(modules).
		RaiseBuiltinErrors(true).
		SetTimeout(longestTest)
	if covered != nil {
		// Without the runs that would say why a line is missed.
		runner = runner.SetCoverageRuns(nil).SetCoverageQueryTracer(covered)
	}
	running, err := runner.RunTests(ctx, txn)
	if err != nil {
		return nil, fmt.Errorf("tests: %w", err)
	}
	var results []*tester.Result
	for result := range running {
		results = append(results, result)
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("tests: %w", ctx.Err())
	}
	return results, nil
}

func testFault(result *tester.Result) string {
	place := result.Package + "." + result.Name
	if result.Location != nil {
		place = fmt.Sprintf("%s:%d: %s", result.Location.File, result.Location.Row, result.Name)
	}
	switch {
	case result.Skip:
		return place + " is skipped"
	case result.Error != nil:
		return fmt.Sprintf("%s: %v", place, result.Error)
	}
	return place + " failed"
}
