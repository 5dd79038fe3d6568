package execd

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/sandboxd/sandboxd/policy"
)

// ErrBusy says that as many requests run and wait as may.
var ErrBusy = errors.New("as many requests run and wait as this daemon allows")

// queue bounds what is going on: so many requests run, so many more wait, and the next one is turned away at once.
type queue struct {
	// tickets bound the requests that are here at all; places bound those that run, outputs the memory that their output may take.
	tickets  chan struct{}
	places   chan struct{}
	outputs  *budget
	patience time.Duration
	waiting  atomic.Int64
}

func newQueue(c Config) *queue {
	return &queue{
		tickets: make(chan struct{}, c.MaxRunning+c.MaxWaiting), places: make(chan struct{}, c.MaxRunning), patience: c.QueueTimeout,
		outputs: newBudget(c.OutputMemory, "the output of what runs may take as much memory as this daemon allows"),
	}
}

// ticket is one request's right to be here.
type ticket struct {
	queue *queue
	runs  bool
	// output is what it has reserved of the queue's outputs.
	output int64
}

// enter gives a ticket or ErrBusy, without waiting.
func (q *queue) enter() (*ticket, error) {
	select {
	case q.tickets <- struct{}{}:
		return &ticket{queue: q}, nil
	default:
		return nil, ErrBusy
	}
}

// run waits for a place, and then for memory for the output that the request may have, and for more besides: others end, and give theirs back.
func (t *ticket) run(ctx context.Context, l policy.Limits, more int64) error {
	q := t.queue
	output := min(q.outputs.outputShare(l.Defaulted().OutputBytes)+more, q.outputs.most)
	if t.tryPlace() && q.outputs.take(output) == nil {
		t.output = output
		return nil
	}
	q.waiting.Add(1)
	defer q.waiting.Add(-1)
	bounded, cancel := context.WithTimeoutCause(ctx, q.patience, ErrBusy)
	defer cancel()
	if !t.runs {
		select {
		case q.places <- struct{}{}:
			t.runs = true
		case <-bounded.Done():
			return context.Cause(bounded)
		}
	}
	if err := q.outputs.await(bounded, output); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	t.output = output
	return nil
}

// tryPlace takes a place if one is free.
func (t *ticket) tryPlace() bool {
	select {
	case t.queue.places <- struct{}{}:
		t.runs = true
	default:
	}
	return t.runs
}

// leave gives ticket, place and memory back.
func (t *ticket) leave() {
	t.queue.outputs.give(t.output)
	if t.runs {
		<-t.queue.places
	}
	<-t.queue.tickets
}

func (q *queue) running() int { return len(q.places) }
