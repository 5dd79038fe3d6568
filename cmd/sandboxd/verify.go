package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/sandboxd/sandboxd/execd"
)

// verify exits with 0 when everything holds, and with 1 when something doesn't, or couldn't be read or tried.
func (p *program) verify(ctx context.Context, flags *flagSet, args []string) (status int, err error) {
	var (
		where  place
		body   execd.VerifyRequest
		rows   bool
		asJSON bool
	)
	where.registerClient(flags)
	flags.StringVar(&body.Sandbox, "sandbox", "", "`id` of the only sandbox to look at, with what runs in it")
	flags.BoolVar(&rows, "rows", false, "print every row, also those that hold")
	flags.BoolVar(&asJSON, "json", false, "print the whole report as JSON")
	if err := flags.parse(args); err != nil {
		return 0, err
	}
	if err := flags.noArguments(); err != nil {
		return 0, err
	}
	if body.Sandbox != "" && where.socket == "" {
		return 0, errors.New("--sandbox names one that a daemon keeps: give --socket too")
	}
	service, err := where.open(ctx, p, flags)
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, service.Close()) }()
	data, err := encode(body)
	if err != nil {
		return 1, err
	}
	reply, err := service.Verify(ctx, data, rows)
	if err != nil {
		return 1, err
	}
	if asJSON {
		err = printJSON(p.stdout, reply)
	} else {
		p.showVerification(reply)
	}
	if !reply.Held {
		return 1, err
	}
	return 0, err
}

func (p *program) showVerification(r execd.VerifyReply) {
	s := p.style(p.stdout)
	rows := [][]string{{"what", "control", "want", "got", "held", "evidence"}}
	var kernel, probe, report int
	add := func(what string, proof execd.Proof) {
		kernel, probe, report = kernel+proof.Evidence.Kernel, probe+proof.Evidence.Probe, report+proof.Evidence.Report
		for _, row := range proof.Rows {
			held := s.good("yes")
			if !row.Held {
				held = s.bad("NO")
			}
			rows = append(rows, []string{what, row.Control, cell(row.Want), cell(row.Got), held, string(row.Evidence)})
		}
	}
	add("daemon", r.Daemon)
	for _, box := range r.Sandboxes {
		add("sandbox "+short(box.ID), box.Verdict)
	}
	for _, exec := range r.Execs {
		add("exec "+short(exec.ID), exec.Verdict)
	}
	for _, plan := range r.Probes {
		add("probes", plan.Verdict)
	}
	if len(rows) > 1 {
		printTable(p.stdout, s, rows)
	}
	fmt.Fprintf(p.stdout, "%s: tier %s, Linux %s: the daemon, %s, %s, %s; %d rows read from the kernel, %d probed, %d reported by the launcher\n",
		heldWord(s, r.Held), r.Tier, r.Kernel, count(len(r.Sandboxes), "sandbox", "sandboxes"), count(len(r.Execs), "exec", "execs"),
		count(len(r.Probes), "plan by probes", "plans by probes"), kernel, probe, report)
	explainUntried(p.stdout, s, r.Probes)
}

// explainUntried says why a plan's acts couldn't be tried.
func explainUntried(w io.Writer, s style, plans []execd.PlanProof) {
	for _, plan := range plans {
		if plan.Message != "" {
			fmt.Fprintf(w, "%s %s\n", s.bad("not tried"), plan.Message)
		}
	}
}

// short is enough of an id to tell it from others; --json has it whole.
func short(id string) string { return id[:min(len(id), 8)] }

func count(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprint(n, " ", more)
}
