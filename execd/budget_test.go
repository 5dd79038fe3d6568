package execd

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/policy"
)

func TestBudget(t *testing.T) {
	b := newBudget(100, "full")
	var one, two share
	one.budget, two.budget = b, b
	if err := one.resize(60); err != nil {
		t.Fatal(err)
	}
	if err := two.resize(41); !errors.Is(err, ErrBusy) || err.Error() != "full" || two.bytes != 0 {
		t.Errorf("beyond: %v, and %d bytes", err, two.bytes)
	}
	if e := asError(b.refuse); e.Code != "BUSY" || e.RetryAfterSeconds != 1 {
		t.Errorf("answered as %+v", e)
	}
	if err := errors.Join(two.resize(40), one.resize(10), two.resize(90)); err != nil || b.held.Load() != 100 {
		t.Errorf("%v, %d held", err, b.held.Load())
	}
	one.end()
	two.end()
	two.end()
	if err := b.take(100); err != nil || b.held.Load() != 100 {
		t.Errorf("something is lost: %v, %d held", err, b.held.Load())
	}
}

// TestQueueWaitsForMemory: who would keep more output than there is memory for waits as for a place, and gives nothing back that it hasn't got.
func TestQueueWaitsForMemory(t *testing.T) {
	c := queueConfig(3, 3, time.Minute)
	c.OutputMemory = valueMemory + 100*outputStreams*outputWeight
	q := newQueue(c)
	enter := func() *ticket {
		ticket, err := q.enter()
		if err != nil {
			t.Fatal(err)
		}
		return ticket
	}
	first, second, third := enter(), enter(), enter()
	if err := first.run(t.Context(), policy.Limits{OutputBytes: 60}, 0); err != nil {
		t.Fatal(err)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if err := second.run(gone, policy.Limits{OutputBytes: 60}, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller who left: %v", err)
	}
	second.leave()
	ran := make(chan error)
	go func() { ran <- third.run(t.Context(), policy.Limits{OutputBytes: 1 << 30}, 0) }() // all there is
	for q.waiting.Load() == 0 {
		time.Sleep(time.Millisecond) // polls the state that the test is about
	}
	first.leave()
	if err := <-ran; err != nil {
		t.Error(err)
	}
	impatient := enter()
	q.patience = time.Millisecond
	if err := impatient.run(t.Context(), policy.Limits{}, 0); !errors.Is(err, ErrBusy) {
		t.Errorf("after its time: %v, want ErrBusy", err)
	}
	impatient.leave()
	third.leave()
	if q.outputs.held.Load() != 0 || q.running() != 0 || len(q.tickets) != 0 {
		t.Errorf("%d bytes, %d places, %d tickets are lost", q.outputs.held.Load(), q.running(), len(q.tickets))
	}
}
