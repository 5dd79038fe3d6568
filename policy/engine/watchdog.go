package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
)

var (
	errTimeout   = errors.New("policy_timeout")
	errUndefined = errors.New("undefined_decision")
)

// watchdog bounds evaluations in time and in number. A builtin that doesn't look at its context goes on after the deadline and keeps its slot, so
// that a policy that hangs costs a bounded number of goroutines; the caller has its answer at the deadline.
type watchdog struct {
	deadline time.Duration
	slots    chan struct{}
}

func newWatchdog(deadline time.Duration, slots int) *watchdog {
	return &watchdog{deadline: deadline, slots: make(chan struct{}, slots)}
}

type evaluation struct {
	value any
	err   error
}

// evaluate asks the prepared query. The value is JSON-like; an empty result is errUndefined, and none at the deadline errTimeout.
func (w *watchdog) evaluate(ctx context.Context, query rego.PreparedEvalQuery, input ast.Value, options ...rego.EvalOption) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, w.deadline)
	defer cancel()
	select {
	case w.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, stopped(ctx)
	}
	done := make(chan evaluation, 1)
	go func() {
		defer func() { <-w.slots }()
		growStack()
		done <- evaluateOnce(ctx, query, append(options, rego.EvalParsedInput(input)))
	}()
	select {
	case answer := <-done:
		// OPA answers a cancelled evaluation with an error of its own.
		if answer.err != nil && ctx.Err() != nil {
			return nil, stopped(ctx)
		}
		return answer.value, answer.err
	case <-ctx.Done():
		return nil, stopped(ctx)
	}
}

func stopped(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return errTimeout
	}
	return ctx.Err()
}

// evaluateOnce turns a panic of the evaluator into an error: it must deny, not end the daemon.
func evaluateOnce(ctx context.Context, query rego.PreparedEvalQuery, options []rego.EvalOption) (answer evaluation) {
	defer func() {
		if cause := recover(); cause != nil {
			answer = evaluation{err: fmt.Errorf("OPA panicked; please report this: %v\n%s", cause, debug.Stack())}
		}
	}()
	results, err := query.Eval(ctx, options...)
	if err != nil {
		return evaluation{err: err}
	}
	if len(results) != 1 || len(results[0].Expressions) != 1 {
		return evaluation{err: errUndefined}
	}
	return evaluation{value: results[0].Expressions[0].Value}
}

// growStack makes a new goroutine's stack large in one step while there is nothing on it to copy. The evaluator recurses deeply, and growing under
// it by doubling cost a fifth of a decision.
//
//go:noinline
func growStack() byte {
	var room [128 << 10]byte
	return room[len(os.Args)]
}
