package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/sandboxd/sandboxd/policy/engine"
)

// testReply is what policy test prints with --json.
type testReply struct {
	OK bool `json:"ok"`
	engine.TestReport
}

func (p *program) policyTest(ctx context.Context, flags *flagSet, args []string) (int, error) {
	var asJSON, verbose bool
	flags.BoolVar(&asJSON, "json", false, "print it as JSON")
	flags.BoolVar(&verbose, "verbose", false, "name each test and each decision, not the failed ones alone")
	b, err := openBundle(flags, args)
	if err != nil {
		return 0, err
	}
	report, err := engine.Test(ctx, b.files)
	if err != nil {
		return 0, uncompiled(flags, b, err)
	}
	status := 0
	if !report.Passed() {
		status = 1
	}
	if asJSON {
		return status, printJSON(p.stdout, testReply{report.Passed(), report})
	}
	p.showTests(b, report, verbose)
	return status, nil
}

func (p *program) showTests(b bundle, report engine.TestReport, verbose bool) {
	s := p.style(p.stdout)
	all := append(report.Tests[:len(report.Tests):len(report.Tests)], report.Decisions...)
	rows := [][]string{{"file", "passed", "failed"}}
	passed, failed := map[string]int{}, map[string]int{}
	var files []string
	for _, result := range all {
		if passed[result.File]+failed[result.File] == 0 {
			files = append(files, result.File)
		}
		if result.Pass {
			passed[result.File]++
		} else {
			failed[result.File]++
		}
	}
	for _, file := range files {
		bad := strconv.Itoa(failed[file])
		if failed[file] > 0 {
			bad = s.bad(bad)
		}
		rows = append(rows, []string{file, strconv.Itoa(passed[file]), bad})
	}
	printTable(p.stdout, s, rows)
	for _, result := range all {
		switch {
		case !result.Pass:
			fmt.Fprintf(p.stdout, "%s %s%s: %s\n", s.bad("failed"), b.where(result.File, result.Line), result.Name, oneLine(result.Fault))
		case verbose:
			fmt.Fprintf(p.stdout, "%s %s%s\n", s.good("passed"), b.where(result.File, result.Line), result.Name)
		}
	}
	for _, missing := range report.Missing {
		fmt.Fprintf(p.stdout, "%s %s\n", s.bad("missing"), missing)
	}
	word := s.good("passed")
	if !report.Passed() {
		word = s.bad("failed")
	}
	fmt.Fprintf(p.stdout, "%s: %d tests, %d decisions; they reach %.1f %% of the rules' lines%s\n",
		word, len(report.Tests), len(report.Decisions), report.Coverage.Percent, missed(b, report.Coverage.Missed))
}

// mostMissed is how many lines are named; --json has all.
const mostMissed = 5

func missed(b bundle, places []engine.Place) string {
	if len(places) == 0 {
		return ""
	}
	var names []string
	for _, place := range places[:min(len(places), mostMissed)] {
		names = append(names, strings.TrimSuffix(b.where(place.File, place.Line), ": "))
	}
	text := ", not " + strings.Join(names, ", ")
	if more := len(places) - mostMissed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func oneLine(text string) string { return strings.ReplaceAll(strings.TrimSpace(text), "\n", "; ") }
