package engine

import (
	"maps"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/util"
)

// rules looks at each rule as it is written.
func (c *checking) rules() {
	packages := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(c.bundle.modules)) {
		module := c.bundle.modules[name]
		packages[module.Package.Path.String()] = name
		for _, rule := range module.Rules {
			c.report.Rules++
			c.described(name, rule)
			if isTest(rule) {
				c.mind(name, rule.Location.Row, "%s never runs: tests are in files named *_test.rego", lastName(rule.Ref()))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.bundle.tests)) {
		module := c.bundle.tests[name]
		if beside := packages[module.Package.Path.String()]; beside != "" {
			c.mind(name, module.Package.Location.Row, "its rules count in tests alone, and yet it is in the package of %s; "+
				"name the file otherwise, or the package", beside)
		}
	}
}

// described wants METADATA with a title, a description and a label, and that the reasons which a rule gives have that label.
func (c *checking) described(name string, rule *ast.Rule) {
	line := rule.Location.Row
	own := ownAnnotations(rule)
	if own == nil {
		c.mind(name, line, "%s has no METADATA; write a title, a description and labels: {rule: …} in comments above it", rule.Head.Ref())
		return
	}
	label := labelOf(own)
	var missing []string
	for _, part := range []struct{ what, text string }{{"title", own.Title}, {"description", own.Description}, {"label, labels: {rule: …}", label}} {
		if strings.TrimSpace(part.text) == "" {
			missing = append(missing, part.what)
		}
	}
	if len(missing) > 0 {
		c.mind(name, line, "the METADATA of %s has no %s", rule.Head.Ref(), strings.Join(missing, ", no "))
	}
	for _, said := range labelsSaid(rule) {
		if label != "" && said != label {
			c.mind(name, line, "%s gives a reason of %q and is labelled %q", rule.Head.Ref(), said, label)
		}
	}
}

// labelsSaid are the literal labels of the reasons that are written in a rule: objects with a rule and a message.
func labelsSaid(rule *ast.Rule) []string {
	var said []string
	ast.WalkTerms(rule, func(term *ast.Term) bool {
		object, isObject := term.Value.(ast.Object)
		if !isObject || object.Get(ast.InternedTerm("message")) == nil {
			return false
		}
		if label := object.Get(ast.InternedTerm("rule")); label != nil {
			if text, isText := label.Value.(ast.String); isText {
				said = append(said, string(text))
			}
		}
		return false
	})
	return said
}

// testsCompile compiles the rules once more with their tests.
func (c *checking) testsCompile() {
	modules := map[string]*ast.Module{}
	for _, from := range []map[string]*ast.Module{c.bundle.modules, c.bundle.tests} {
		for name, module := range from {
			modules[name] = module.Copy()
		}
	}
	compiler := newCompiler()
	if compiler.Compile(modules); compiler.Failed() {
		c.compilerErrors(compiler.Errors)
		return
	}
	for _, ref := range dataRefs(compiler.Modules) {
		if isTestFile(ref.place(0).File) {
			c.dataThere(compiler, ref)
		}
	}
}

// unreachable tells rules that the decision doesn't depend on, by whatever way: they never speak.
func (c *checking) unreachable(compiler *ast.Compiler, decisions []*ast.Rule) {
	reached := map[util.T]bool{}
	var next []util.T
	for _, rule := range decisions {
		next = append(next, rule)
	}
	for len(next) > 0 {
		rule := next[len(next)-1]
		next = next[:len(next)-1]
		if reached[rule] {
			continue
		}
		reached[rule] = true
		for dependency := range compiler.Graph.Dependencies(rule) {
			next = append(next, dependency)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(compiler.Modules)) {
		for _, rule := range compiler.Modules[name].Rules {
			if !reached[rule] && !isTest(rule) {
				c.mind(name, rule.Location.Row, "%s is never looked at: %s doesn't depend on it", rule.Ref(), entrypoint)
			}
		}
	}
}
