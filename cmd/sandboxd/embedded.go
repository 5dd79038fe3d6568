package main

import (
	"context"
	"time"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/policy"
)

// embedded is a service in this process, for one command.
type embedded struct {
	service *execd.Service
	stop    time.Duration
}

func (e *embedded) Exec(ctx context.Context, action policy.Action, body []byte, sink execd.Sink, rows bool) (execd.Reply, error) {
	parse := execd.ParseExec
	if action == policy.ActionRun {
		parse = execd.ParseRun
	}
	request, options, err := parse(body)
	if err != nil {
		return execd.Reply{}, err
	}
	request.Caller = execd.Self()
	wanted := execd.OptionsOf(options, rows)
	wanted.Sink = sink
	return e.service.Exec(ctx, request, wanted), nil
}

func (e *embedded) Decide(ctx context.Context, body []byte) (execd.DecideReply, error) {
	request, err := execd.ParseDecide(body)
	if err != nil {
		return execd.DecideReply{}, err
	}
	request.Caller = execd.Self()
	return e.service.Decide(ctx, request)
}

func (e *embedded) Verify(ctx context.Context, body []byte, rows bool) (execd.VerifyReply, error) {
	request, err := execd.ParseVerify(body)
	if err != nil {
		return execd.VerifyReply{}, err
	}
	return e.service.Verify(ctx, request, execd.Self(), rows)
}

// Close runs after an interrupt too, so that it has a time of its own.
func (e *embedded) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), e.stop)
	defer cancel()
	return e.service.Close(ctx)
}
