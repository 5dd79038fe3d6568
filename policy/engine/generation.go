package engine

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"github.com/open-policy-agent/opa/v1/util"
)

// entrypoint is the one rule that sandboxd asks for.
const entrypoint = "data.sandboxd.decision"

var errNoEntrypoint = fmt.Errorf("no rule %s; a bundle must have `decision` in `package sandboxd`", entrypoint)

// generation is one bundle, compiled. Nothing in it changes but its cache.
type generation struct {
	revision string
	loadedAt time.Time
	query    rego.PreparedEvalQuery
	rules    []Rule
	cache    *cache
	watchdog *watchdog
}

// compile turns files into a generation. It proves nothing about it yet: see [prove].
func compile(ctx context.Context, src source, dog *watchdog) (*generation, parsed, error) {
	bundle, err := parse(src)
	if err != nil {
		return nil, parsed{}, err
	}
	store := inmem.NewFromObjectWithOpts(bundle.data, inmem.OptReturnASTValuesOnRead(true))
	compiler, err := bundle.compile(ctx, store)
	if err != nil {
		return nil, parsed{}, err
	}
	// A misspelt package is no error in OPA but an answer that is always empty.
	if len(compiler.GetRulesExact(ast.MustParseRef(entrypoint))) == 0 {
		return nil, parsed{}, errNoEntrypoint
	}
	// Without partial evaluation: it brought nothing measurable here, and it rewrites some sound rules into ones that don't compile.
	query, err := rego.New(
		rego.Query(entrypoint),
		rego.Compiler(compiler),
		rego.Store(store),
		rego.StrictBuiltinErrors(true),
	).PrepareForEval(ctx)
	if err != nil {
		return nil, parsed{}, err
	}
	return &generation{
		revision: src.revision,
		loadedAt: time.Now(),
		query:    query,
		rules:    listRules(bundle.modules),
		cache:    newCache(),
		watchdog: dog,
	}, bundle, nil
}

// parsed is a bundle before compilation.
type parsed struct {
	// modules are the rules, tests the rules' tests, by path.
	modules, tests map[string]*ast.Module
	data           map[string]any
	corpus         []corpusFile
}

func parse(src source) (parsed, error) {
	bundle, faults := parseAll(src)
	if len(faults) > 0 {
		return parsed{}, faults[0].err
	}
	return bundle, nil
}

// fileFault is what is wrong with one file; the error names the file too.
type fileFault struct {
	name string
	err  error
}

// parseAll leaves out the files that it has faults of.
func parseAll(src source) (parsed, []fileFault) {
	bundle := parsed{modules: map[string]*ast.Module{}, tests: map[string]*ast.Module{}, data: map[string]any{}}
	var faults []fileFault
	for _, name := range slices.Sorted(maps.Keys(src.files)) {
		if err := bundle.parseFile(name, src.files[name]); err != nil {
			faults = append(faults, fileFault{name, err})
		}
	}
	return bundle, faults
}

func (p *parsed) parseFile(name string, content []byte) error {
	switch {
	case strings.HasSuffix(name, ".rego"):
		module, err := ast.ParseModuleWithOpts(name, string(content),
			ast.ParserOptions{RegoVersion: ast.RegoV1, ProcessAnnotation: true, Capabilities: capabilities()})
		if err != nil {
			return err
		}
		if strings.HasSuffix(name, "_test.rego") {
			p.tests[name] = module
		} else {
			p.modules[name] = module
		}
	case path.Base(name) == "data.json":
		if err := p.addData(name, content); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	case isCorpus(name):
		file, err := parseCorpus(name, content)
		if err != nil {
			return err
		}
		p.corpus = append(p.corpus, file)
	}
	return nil
}

// addData puts the object of a data.json at the path of its folder, as OPA's own bundles do.
func (p *parsed) addData(name string, content []byte) error {
	// Two members of one name, where the last would win, are an editing mistake.
	if err := validJSON(content); err != nil {
		return err
	}
	var object map[string]any
	if err := util.UnmarshalJSON(content, &object); err != nil {
		return err
	}
	node := p.data
	if folder := path.Dir(name); folder != "." {
		for part := range strings.SplitSeq(folder, "/") {
			child, isObject := node[part].(map[string]any)
			if !isObject {
				if _, there := node[part]; there {
					return fmt.Errorf("another data.json has a value for %q", part)
				}
				child = map[string]any{}
				node[part] = child
			}
			node = child
		}
	}
	for key, value := range object {
		if _, there := node[key]; there {
			return fmt.Errorf("another data.json has a value for %q", key)
		}
		node[key] = value
	}
	return nil
}

// newCompiler has the capabilities set on itself: given to rego.New they would be ignored beside a compiler that has none. It knows the input's
// schema, so that a misspelt field is an error at load.
func newCompiler() *ast.Compiler {
	return ast.NewCompiler().
		WithCapabilities(capabilities()).
		WithDefaultRegoVersion(ast.RegoV1).
		WithStrict(true).
		SetErrorLimit(0).
		WithSchemas(inputSchema())
}

// compile compiles the rules without their tests.
func (p parsed) compile(ctx context.Context, store storage.Store) (*ast.Compiler, error) {
	txn, err := store.NewTransaction(ctx)
	if err != nil {
		return nil, err
	}
	defer store.Abort(ctx, txn)
	// Data must not hide a rule.
	compiler := newCompiler().WithPathConflictsCheck(storage.NonEmpty(ctx, store, txn))
	if compiler.Compile(maps.Clone(p.modules)); compiler.Failed() {
		return nil, compiler.Errors
	}
	return compiler, nil
}
