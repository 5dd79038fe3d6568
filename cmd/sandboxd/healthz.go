package main

import (
	"context"
	"fmt"
	"time"
)

// healthz exits with 0 when the daemon answers yes. It is for supervisors that have no HTTP client of their own.
func (p *program) healthz(ctx context.Context, flags *flagSet, args []string) (int, error) {
	var ready bool
	var timeout time.Duration
	socket := flags.String("socket", defaultSocket(p.getenv), "`path` of the daemon's socket")
	flags.BoolVar(&ready, "ready", false, "ask whether it can run something now, not only whether it is alive")
	flags.DurationVar(&timeout, "timeout", 2*time.Second, "how long to wait for the answer")
	if err := flags.parse(args); err != nil {
		return 0, err
	}
	if err := flags.noArguments(); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	path := "/healthz"
	if ready {
		path = "/readyz"
	}
	if err := newClient(*socket).get(ctx, path); err != nil {
		return 1, err
	}
	fmt.Fprintln(p.stdout, "ok")
	return 0, nil
}
