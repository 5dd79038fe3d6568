package main

import (
	"context"
	"fmt"

	"github.com/sandboxd/sandboxd/policy/engine"
)

func (p *program) policyCheck(ctx context.Context, flags *flagSet, args []string) (int, error) {
	var asJSON bool
	flags.BoolVar(&asJSON, "json", false, "print it as JSON")
	b, err := openBundle(flags, args)
	if err != nil {
		return 0, err
	}
	report, err := engine.Check(ctx, b.files)
	if err != nil {
		return 0, fmt.Errorf("%s: %s: %w", flags.command.name, b, err)
	}
	status := 0
	if len(report.Flaws) > 0 {
		status = 1
	}
	if asJSON {
		return status, printJSON(p.stdout, report)
	}
	p.showFlaws(b, report)
	return status, nil
}

func (p *program) showFlaws(b bundle, report engine.CheckReport) {
	s := p.style(p.stdout)
	refused := 0
	for _, flaw := range report.Flaws {
		word := s.bold("flaw")
		if flaw.Refused {
			word = s.bad("refused")
			refused++
		}
		fmt.Fprintf(p.stdout, "%s%s: %s\n", b.where(flaw.File, flaw.Line), word, flaw.Message)
	}
	looked := fmt.Sprintf("%d files, %d rules, %d tests, %d decisions", report.Files, report.Rules, report.Tests, report.Decisions)
	switch {
	case refused > 0:
		fmt.Fprintf(p.stdout, "%s: %s can't be in force: %s\n", s.bad("refused"), b, looked)
	case len(report.Flaws) > 0:
		fmt.Fprintf(p.stdout, "%s: %s could be in force, and isn't what it seems: %s\n", s.bad("flawed"), b, looked)
	default:
		fmt.Fprintf(p.stdout, "%s: %s: %s; policy test runs them\n", s.good("fine"), b, looked)
	}
}
