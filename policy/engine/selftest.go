package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

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
	modules := maps.Clone(bundle.modules)
	maps.Copy(modules, bundle.tests)
	for name, module := range modules {
		// The runner rewrites modules as it compiles them.
		modules[name] = module.Copy()
	}
	store := inmem.NewFromObjectWithOpts(bundle.data, inmem.OptReturnASTValuesOnRead(true))
	txn, err := store.NewTransaction(ctx)
	if err != nil {
		return err
	}
	defer store.Abort(ctx, txn)
	results, err := tester.NewRunner().
		SetCompiler(newCompiler()).
		SetStore(store).
		SetModules(modules).
		RaiseBuiltinErrors(true).
		SetTimeout(longestTest).
		RunTests(ctx, txn)
	if err != nil {
		return fmt.Errorf("tests: %w", err)
	}
	passed := 0
	var failed []string
	for result := range results {
		if result.Pass() {
			passed++
			continue
		}
		failed = append(failed, testFault(result))
	}
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("tests: %w", ctx.Err())
	case len(failed) > 0:
		return errors.New("tests: " + strings.Join(failed, "; "))
	case passed == 0:
		return errors.New("tests: none; a bundle has its tests in *_test.rego")
	}
	return nil
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
