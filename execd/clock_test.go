package execd

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/policy"
)

// jumping is a wall clock that is an hour off in one direction or the other, another one each time it is asked.
func jumping() func() time.Time {
	var asked atomic.Int64
	return func() time.Time {
		hours := []time.Duration{0, 1, -1, 24, -24}[asked.Add(1)%5]
		return time.Now().Add(hours * time.Hour).Round(0) // without the monotonic reading, as a jump of the real one is seen
	}
}

func within(limit float64, argv ...string) policy.Request {
	r := command(argv...)
	r.Limits.TimeoutSeconds = limit
	return r
}

// TestClockJumps: with a wall clock that jumps at every record, limits still end when they should, what is short isn't cut, the log verifies, and
// no time in a reply is longer than it took.
func TestClockJumps(t *testing.T) {
	c := testConfig(t)
	c.Now = jumping()
	s := start(t, c)
	for range 5 {
		began := time.Now()
		reply := s.Exec(t.Context(), within(0.3, "sh", "-c", "sleep 60 & sleep 60"), Options{})
		took := time.Since(began)
		if reply.Outcome != OutcomeTimeout || !reply.TreeEmpty {
			t.Errorf("a limit of 0.3 s: %+v", reply)
		}
		if reply.DurationSeconds < 0.29 || reply.DurationSeconds > took.Seconds() {
			t.Errorf("%v s by the reply, %v by the clock on the wall here", reply.DurationSeconds, took)
		}
		if reply := s.Exec(t.Context(), within(30, "sleep", "0.1"), Options{}); reply.Outcome != OutcomeOK {
			t.Errorf("well within a limit: %+v", reply)
		}
	}
	stop(t, s)
	records := readLog(t, c) // which verifies
	ended := 0
	for _, r := range records {
		if r.Type == audit.TypeOutcome {
			ended++
		}
	}
	if ended != 10 {
		t.Errorf("%d outcomes on record, want 10", ended)
	}
	// The next daemon reads times that lie in its future.
	c.Now = nil
	s = start(t, c)
	if reply := s.Exec(t.Context(), within(30, "true"), Options{}); reply.Outcome != OutcomeOK {
		t.Errorf("after the clock was put right: %+v", reply)
	}
	stop(t, s)
	readLog(t, c)
}
