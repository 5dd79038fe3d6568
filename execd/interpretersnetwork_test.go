package execd

import (
	"testing"

	"github.com/sandboxd/sandboxd/policy"
)

// TestWarmIsLetOut: a job's network is in force from the hand-over, and no longer than that: the interpreter that waited had no way out.
func TestWarmIsLetOut(t *testing.T) {
	c := networked(t, "a.example", "b.example", documentation)
	c.Prewarm = []Prewarm{{Imports: []string{"socket"}, Size: 1}}
	s := start(t, c)
	untilFull(t, s)
	asks := func(network policy.NetworkSpec) policy.Request {
		r := pythonRun(`
import socket
_return = []
for name in 'a.example', 'b.example':
    try:
        socket.getaddrinfo(name, 80)
        _return.append(name)
    except OSError:
        pass
`)
		r.Network = network
		return r
	}
	for range 2 {
		run(t, s, InterpreterCold, asks(letting("a.example")))
	}
	awaited(t, "a shelf for those that are let out", func() bool {
		s.interpreters.mu.Lock()
		defer s.interpreters.mu.Unlock()
		return len(s.interpreters.shelves) == 2
	})
	for _, row := range []struct {
		network policy.NetworkSpec
		want    string
	}{
		{letting("a.example"), `["a.example"]`},
		{letting("b.example"), `["b.example"]`},
		{letting("a.example", "b.example"), `["a.example", "b.example"]`},
		{policy.NetworkSpec{DefaultAction: policy.NetworkDeny}, `[]`},
	} {
		untilFull(t, s)
		reply := run(t, s, InterpreterWarm, asks(row.network))
		mustBe(t, reply, OutcomeOK)
		if string(reply.ReturnValue) != row.want || !reply.Verdict.Held {
			t.Errorf("%v: it resolves %s, want %s", row.network, reply.ReturnValue, row.want)
		}
	}
}
