package execd

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// ErrBusy says that as many requests run and wait as may.
var ErrBusy = errors.New("as many requests run and wait as this daemon allows")

// queue bounds what is going on: so many requests run, so many more wait, and the next one is turned away at once.
type queue struct {
	// tickets bound the requests that are here at all, and so the memory of their bodies; places bound those that run.
	tickets  chan struct{}
	places   chan struct{}
	patience time.Duration
	waiting  atomic.Int64
}

func newQueue(running, waiting int, patience time.Duration) *queue {
	return &queue{tickets: make(chan struct{}, running+waiting), places: make(chan struct{}, running), patience: patience}
}

// ticket is one request's right to be here.
type ticket struct {
	queue *queue
	runs  bool
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

// run waits for a place.
func (t *ticket) run(ctx context.Context) error {
	q := t.queue
	select {
	case q.places <- struct{}{}:
		t.runs = true
		return nil
	default:
	}
	q.waiting.Add(1)
	defer q.waiting.Add(-1)
	timer := time.NewTimer(q.patience)
	defer timer.Stop()
	select {
	case q.places <- struct{}{}:
		t.runs = true
		return nil
	case <-timer.C:
		return ErrBusy
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// leave gives ticket and place back.
func (t *ticket) leave() {
	if t.runs {
		<-t.queue.places
	}
	<-t.queue.tickets
}

func (q *queue) running() int { return len(q.places) }
