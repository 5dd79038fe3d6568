package execd

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/policy"
)

func queueConfig(running, waiting int, patience time.Duration) Config {
	c := DefaultConfig("/")
	c.MaxRunning, c.MaxWaiting, c.QueueTimeout = running, waiting, patience
	return c
}

func TestQueueTurnsAwayAtOnce(t *testing.T) {
	q := newQueue(queueConfig(2, 3, time.Minute))
	var tickets []*ticket
	for i := range 5 {
		ticket, err := q.enter()
		if err != nil {
			t.Fatalf("ticket %d: %v", i, err)
		}
		tickets = append(tickets, ticket)
	}
	if _, err := q.enter(); !errors.Is(err, ErrBusy) {
		t.Fatalf("a sixth: %v, want ErrBusy", err)
	}
	for _, ticket := range tickets[:2] {
		if err := ticket.run(t.Context(), policy.Limits{}, 0); err != nil {
			t.Fatal(err)
		}
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if err := tickets[2].run(gone, policy.Limits{}, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller who left: %v", err)
	}
	ran := make(chan error)
	go func() { ran <- tickets[3].run(t.Context(), policy.Limits{}, 0) }()
	tickets[0].leave()
	if err := <-ran; err != nil {
		t.Errorf("the next in line: %v", err)
	}
	if q.running() != 2 || q.waiting.Load() != 0 {
		t.Errorf("running %d, waiting %d", q.running(), q.waiting.Load())
	}
	for _, ticket := range tickets[1:] {
		ticket.leave()
	}
	if len(q.tickets) != 0 || len(q.places) != 0 {
		t.Errorf("%d tickets and %d places are lost", len(q.tickets), len(q.places))
	}
}

func TestQueueLosesPatience(t *testing.T) {
	q := newQueue(queueConfig(1, 1, time.Millisecond))
	first, _ := q.enter()
	second, _ := q.enter()
	if err := first.run(t.Context(), policy.Limits{}, 0); err != nil {
		t.Fatal(err)
	}
	if err := second.run(t.Context(), policy.Limits{}, 0); !errors.Is(err, ErrBusy) {
		t.Errorf("after its time: %v, want ErrBusy", err)
	}
	second.leave()
	first.leave()
}
