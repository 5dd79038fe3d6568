package runner

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/enforcer"
)

// BenchmarkListener is what naming the denied calls costs: refused and allowed calls in the target, and the whole exec of a program that makes none,
// each as a ratio to the same without a listener, interleaved. The best of all rounds counts: what else the machine does only makes them longer.
func BenchmarkListener(b *testing.B) {
	s, host, plain := realSandbox(b, 1)
	if !host.SeccompListener {
		b.Skip("seccomp.listener: Linux 5.19")
	}
	explaining, err := plain.Explaining(host)
	if err != nil {
		b.Fatal(err)
	}
	never := math.Inf(1)
	refused, allowed, exec := [2]float64{never, never}, [2]float64{never, never}, [2]float64{never, never}
	for b.Loop() {
		for i, plan := range []enforcer.Plan{plain, explaining} {
			inv, extra := withProgram(b, "$P hostile refused")
			exit, _ := timedExec(b, s, plan, inv, IO{OutputBytes: 1 << 10, Extra: extra})
			var call, other float64
			if _, err := fmt.Sscan(string(exit.Stdout.Data), &call, &other); err != nil {
				b.Fatalf("%s%s: %v", exit.Stdout.Data, exit.Stderr.Data, err)
			}
			refused[i], allowed[i] = min(refused[i], call), min(allowed[i], other)
			for range 20 {
				_, took := timedExec(b, s, plan, testInvocation("exit 0"), IO{OutputBytes: 1 << 10})
				exec[i] = min(exec[i], took.Seconds())
			}
		}
	}
	b.ReportMetric(refused[1], "ns/refused")
	b.ReportMetric(refused[1]/refused[0], "×refused")
	b.ReportMetric(allowed[1]/allowed[0], "×allowed")
	b.ReportMetric(exec[1]/exec[0], "×exec")
}

func timedExec(b *testing.B, s *Sandbox, plan enforcer.Plan, inv enforcer.Invocation, with IO) (Exit, time.Duration) {
	began := time.Now()
	c, err := s.Prepare(context.Background(), plan, inv, with)
	if err != nil {
		b.Fatal(err)
	}
	if err := errors.Join(c.Release(), c.Started(context.Background())); err != nil {
		b.Fatal(err)
	}
	exit := c.Wait(context.Background())
	return exit, time.Since(began)
}
