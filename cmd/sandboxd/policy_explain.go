package main

import (
	"context"
	"encoding/json/jsontext"
	"fmt"

	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/policy/engine"
)

// policyEval exits with 0 when the request is allowed, and with 1 when it is denied.
func (p *program) policyEval(ctx context.Context, flags *flagSet, args []string) (status int, err error) {
	var q question
	err = q.judge(ctx, p, flags, args, func(e *engine.Engine, body []byte, caller policy.Caller) error {
		request, err := policy.ParseDecide(body)
		if err != nil {
			return err
		}
		request.Caller = caller
		decision := e.Decide(ctx, request)
		status = denied(decision)
		return printJSON(p.stdout, decision)
	})
	return status, err
}

func (p *program) policyExplain(ctx context.Context, flags *flagSet, args []string) (status int, err error) {
	var (
		q      question
		asJSON bool
	)
	flags.BoolVar(&asJSON, "json", false, "print it as JSON, with the changed request")
	err = q.judge(ctx, p, flags, args, func(e *engine.Engine, body []byte, caller policy.Caller) error {
		explained, err := e.ExplainBody(ctx, body, caller)
		if err != nil {
			return err
		}
		status = denied(explained.Decision)
		if asJSON {
			return printJSON(p.stdout, explained)
		}
		p.showExplanation(explained)
		return nil
	})
	return status, err
}

func denied(decision policy.Decision) int {
	if decision.Allow {
		return 0
	}
	return 1
}

func (p *program) showExplanation(explained engine.BodyExplanation) {
	s := p.style(p.stdout)
	word := s.good("allow")
	if !explained.Decision.Allow {
		word = s.bad("deny")
	}
	fmt.Fprintf(p.stdout, "%s  policy %s\n", word, explained.Decision.Revision)
	content := 0
	for _, finding := range explained.Findings {
		if len(finding.Reasons) == 0 {
			content++
			continue
		}
		explainReasons(p.stdout, s, finding.Reasons)
		for _, rule := range finding.Spoke {
			fmt.Fprintf(p.stdout, "   rule    %s, %s:%d\n", rule.Title, rule.File, rule.Line)
		}
	}
	fmt.Fprintf(p.stdout, "%d labels had nothing against it\n", content)
	then := "in force, where that isn't what was asked:"
	switch {
	case explained.Decision.Allow:
	case !explained.Passes:
		fmt.Fprintln(p.stdout, "no change of the request is known that passes")
		return
	default:
		fmt.Fprintln(p.stdout, "judged again with these changes, it is allowed; none of them can be left out:")
		for _, edit := range explained.Changes {
			fmt.Fprintf(p.stdout, "   %s\n", s.good(change(edit)))
		}
		then = "in force then, where that isn't what was asked:"
	}
	if len(explained.Tightened) == 0 {
		fmt.Fprintln(p.stdout, "policy tightens nothing of it: in force is what was asked, and the defaults")
		return
	}
	fmt.Fprintln(p.stdout, then)
	rows := [][]string{{"field", "asked", "in force"}}
	for _, d := range explained.Tightened {
		rows = append(rows, []string{d.Field, valueCell(d.Asked), valueCell(d.InForce)})
	}
	printTable(p.stdout, s, rows)
}

func valueCell(value jsontext.Value) string { return cell(string(value)) }
