package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/policy"
)

// decideBody is the body of POST /v1/decide for a command.
type decideBody struct {
	Action policy.Action `json:"action"`
	execBody
}

// decide exits with 0 when the request would run, and with 1 when it wouldn't.
func (p *program) decide(ctx context.Context, flags *flagSet, args []string) (status int, err error) {
	var (
		where   place
		what    spec
		asJSON  bool
		request string
	)
	what.register(flags)
	where.registerClient(flags)
	flags.StringVar(&request, "request", "", "the whole body of POST /v1/decide, as `JSON`, @FILE or a path, in place of a command")
	flags.BoolVar(&asJSON, "json", false, "print the whole decision as JSON")
	if err := flags.parse(args); err != nil {
		return 0, err
	}
	body, err := what.decideBody(request, flags)
	if err != nil {
		return 0, err
	}
	service, err := where.open(ctx, p, flags)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, service.Close()) }()
	reply, err := service.Decide(ctx, body)
	if err != nil {
		return 0, err
	}
	if asJSON {
		err = printJSON(p.stdout, reply)
	} else {
		p.showDecision(reply)
	}
	if !reply.Decision.Allow || reply.Refused != nil {
		return 1, err
	}
	return 0, err
}

func (s *spec) decideBody(request string, flags *flagSet) ([]byte, error) {
	if request != "" {
		if flags.NArg() > 0 {
			return nil, errors.New("decide: --request is a whole request; a command can't stand beside it")
		}
		return jsonOrFile("--request", request)
	}
	if flags.NArg() == 0 {
		return nil, errors.New("decide: nothing to judge; write sandboxd decide -- COMMAND [ARGS], or --request FILE")
	}
	body := decideBody{Action: policy.ActionExec}
	var err error
	if body.common, err = s.common(); err != nil {
		return nil, err
	}
	if body.Command, err = s.command(flags.Args()); err != nil {
		return nil, err
	}
	return encode(body)
}

func (p *program) showDecision(reply execd.DecideReply) {
	s := p.style(p.stdout)
	switch {
	case !reply.Decision.Allow:
		fmt.Fprintf(p.stdout, "%s  policy %s\n", s.bad("deny"), reply.Decision.Revision)
		explainReasons(p.stdout, s, reply.Decision.Reasons)
		if len(reply.Changes) > 0 {
			fmt.Fprintln(p.stdout, "judged again with these changes, it is allowed:")
		}
		for _, edit := range reply.Changes {
			fmt.Fprintf(p.stdout, "   %s\n", s.good(change(edit)))
		}
	case reply.Refused != nil:
		fmt.Fprintf(p.stdout, "%s  policy %s allows it, this host can't hold it\n", s.bad("refuse"), reply.Decision.Revision)
		explainReasons(p.stdout, s, []policy.Reason{*reply.Refused})
	default:
		fmt.Fprintf(p.stdout, "%s  policy %s\n", s.good("allow"), reply.Decision.Revision)
	}
}
