package main

import (
	"context"
	"time"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/execd/spool"
	"github.com/sandboxd/sandboxd/policy"
)

// embedded is a service in this process, for one command.
type embedded struct {
	service *execd.Service
	stop    time.Duration
}

func (e *embedded) Exec(ctx context.Context, action policy.Action, body requestBody, sink execd.Sink, rows bool) (execd.Reply, error) {
	var (
		request policy.Request
		options policy.ExecOptions
		inputs  *spool.Text
		err     error
	)
	if action == policy.ActionRun {
		request, options, inputs, err = e.service.ReadRun(body.reader())
	} else {
		request, options, err = execd.ParseExec(body.json)
	}
	if err != nil {
		return execd.Reply{}, body.fault(err)
	}
	if inputs != nil {
		defer inputs.Close()
	}
	request.Caller = execd.Self()
	wanted := execd.OptionsOf(options, rows)
	wanted.Sink, wanted.Inputs, wanted.LongValue = sink, inputs, true
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
