package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
)

// Flaw is one thing that is wrong with a bundle.
type Flaw struct {
	// File is beneath the bundle; empty when the whole bundle is meant.
	File string `json:"file"`
	// Line is 0 when the whole file is meant.
	Line int `json:"line"`
	// Refused says that a bundle with this flaw is never in force. Without it the bundle would be, and do other than its author thinks.
	Refused bool   `json:"refused"`
	Message string `json:"message"`
}

// CheckReport is what [Check] found. It is empty of flaws when the bundle is fine.
type CheckReport struct {
	Revision string `json:"revision"`
	Flaws    []Flaw `json:"flaws"`
	// Files, Rules, Tests and Decisions count what was looked at.
	Files     int `json:"files"`
	Rules     int `json:"rules"`
	Tests     int `json:"tests"`
	Decisions int `json:"decisions"`
}

// checking collects flaws.
type checking struct {
	report CheckReport
	src    source
	bundle parsed
}

func (c *checking) refuse(file string, line int, format string, args ...any) {
	c.report.Flaws = append(c.report.Flaws, Flaw{file, line, true, fmt.Sprintf(format, args...)})
}

func (c *checking) mind(file string, line int, format string, args ...any) {
	c.report.Flaws = append(c.report.Flaws, Flaw{file, line, false, fmt.Sprintf(format, args...)})
}

// Check looks at a whole bundle and tells every flaw, where a load ends at the first. It runs the must-deny list, but neither tests nor corpus: see
// [Test]. The error is that of a directory that can't be read.
func Check(ctx context.Context, fsys fs.FS) (CheckReport, error) {
	c := &checking{report: CheckReport{Flaws: []Flaw{}}}
	var err error
	c.src, err = readBundleBut(fsys, func(name string, err error) error {
		c.refuse(name, 0, "%s", strings.TrimPrefix(err.Error(), name+": "))
		return nil
	})
	if err != nil {
		return CheckReport{}, err
	}
	c.report.Revision, c.report.Files = c.src.revision, len(c.src.files)
	var faults []fileFault
	c.bundle, faults = parseAll(c.src)
	for _, fault := range faults {
		c.fault(fault)
	}
	c.counts()
	c.rules()
	if len(faults) == 0 { // Else half of the bundle is missing, and all that follows would say so.
		if err := c.whole(ctx); err != nil {
			return CheckReport{}, err
		}
	}
	slices.SortStableFunc(c.report.Flaws, func(a, b Flaw) int { return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line)) })
	return c.report, nil
}

// fault tells a file that doesn't parse.
func (c *checking) fault(fault fileFault) {
	if c.compilerErrors(fault.err) {
		return
	}
	content := c.src.files[fault.name]
	line := faultLine(content, fault.err)
	var inCase *caseError
	if errors.As(fault.err, &inCase) {
		line = memberLines(content)[inCase.pointer()]
	}
	c.refuse(fault.name, line, "%s", strings.TrimPrefix(fault.err.Error(), fault.name+": "))
}

// compilerErrors tells OPA's errors, each at its place, and says whether err had any.
func (c *checking) compilerErrors(err error) bool {
	var list ast.Errors
	if !errors.As(err, &list) {
		return false
	}
	for _, one := range list {
		location := cmp.Or(one.Location, &ast.Location{})
		c.refuse(location.File, location.Row, "%s: %s", one.Code, sayCompilerError(one))
	}
	return true
}

// sayCompilerError leaves out the source line and the mark beneath it, which a terminal of another width breaks.
func sayCompilerError(one *ast.Error) string {
	parts := []string{strings.ReplaceAll(one.Message, "\n", "; ")}
	if one.Details != nil {
		for _, line := range one.Details.Lines() {
			trimmed := strings.TrimSpace(line)
			if trimmed != "" && !strings.HasPrefix(trimmed, "^") && !strings.Contains(one.Message, trimmed) {
				parts = append(parts, trimmed)
			}
		}
	}
	return strings.Join(parts, "; ")
}

// counts wants what a bundle proves itself by.
func (c *checking) counts() {
	for _, module := range c.bundle.tests {
		for _, rule := range module.Rules {
			if isTest(rule) {
				c.report.Tests++
			}
		}
	}
	wants := map[string]int{}
	for _, file := range c.bundle.corpus {
		c.report.Decisions += len(file.Cases)
		for _, one := range file.Cases {
			wants[one.Want]++
		}
	}
	if c.report.Tests == 0 {
		c.refuse("", 0, "%v", errNoTests)
	}
	if err := enoughDecisions(wants); err != nil {
		c.refuse("", 0, "%v", err)
	}
}

// whole looks at what only a bundle without faults can be asked.
func (c *checking) whole(ctx context.Context) error {
	store := inmem.NewFromObjectWithOpts(c.bundle.data, inmem.OptReturnASTValuesOnRead(true))
	compiler, err := c.bundle.compile(ctx, store)
	if err != nil {
		if !c.compilerErrors(err) {
			c.refuse("", 0, "%v", err)
		}
		return nil
	}
	c.testsCompile()
	c.dataPaths(compiler)
	decisions := compiler.GetRulesExact(ast.MustParseRef(entrypoint))
	if len(decisions) == 0 {
		c.refuse("", 0, "%v", errNoEntrypoint)
		return nil
	}
	c.unreachable(compiler, decisions)
	generation, _, err := compile(ctx, c.src, newWatchdog(defaultDeadline, 1))
	if err != nil {
		c.refuse("", 0, "%v", err)
		return nil
	}
	place := cmp.Or(decisions[0].Location, &ast.Location{})
	for fault := range generation.mustDenyFaults(ctx, c.bundle.data) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		c.refuse(place.File, place.Row, "%v", fault)
	}
	return nil
}

func isTest(rule *ast.Rule) bool {
	name := lastName(rule.Ref())
	return strings.HasPrefix(name, "test_") || strings.HasPrefix(name, "todo_test_")
}

// isTestFile says that a file's rules are compiled for its tests alone.
func isTestFile(name string) bool { return strings.HasSuffix(path.Base(name), "_test.rego") }
