package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/enforcer"
)

// BenchmarkGate compares a gated exec of /bin/true, as the daemon makes it but for policy and record, with a bare spawn of it: turn by turn in
// one run, since only the ratio says something.
func BenchmarkGate(b *testing.B) {
	for _, fork := range []bool{false, true} {
		for _, callers := range []int{1, 4} {
			for _, readBack := range []bool{false, true} {
				name := fmt.Sprintf("%s/%d callers/%s", map[bool]string{false: "vfork", true: "fork"}[fork], callers, map[bool]string{false: "confined", true: "read back"}[readBack])
				b.Run(name, func(b *testing.B) {
					plainFork = fork
					defer func() { plainFork = false }()
					benchmarkGate(b, callers, readBack)
				})
			}
		}
	}
}

func benchmarkGate(b *testing.B, callers int, readBack bool) {
	s, host, plan := realSandbox(b, callers)
	ways := map[string]func(){
		"bare":  func() { bare(b) },
		"gated": func() { gated(b, s, host, plan, readBack) },
	}
	taken, total := map[string][]time.Duration{}, map[string]time.Duration{}
	for b.Loop() {
		for _, way := range []string{"bare", "gated"} {
			start := time.Now()
			taken[way] = append(taken[way], together(callers, ways[way])...)
			total[way] += time.Since(start)
		}
	}
	for way, times := range taken {
		slices.Sort(times)
		b.ReportMetric(float64(times[len(times)/2].Microseconds()), way+"-p50-µs")
	}
	ratio := func(q int) float64 {
		n := len(taken["bare"])
		return float64(taken["gated"][n*q/100]) / float64(taken["bare"][n*q/100])
	}
	b.ReportMetric(ratio(50), "p50-ratio")
	b.ReportMetric(ratio(99), "p99-ratio")
	b.ReportMetric(float64(total["bare"])/float64(total["gated"]), "rate-ratio")
	b.ReportMetric(0, "ns/op")
}

// together has callers do it 8 times each, side by side.
func together(callers int, do func()) []time.Duration {
	const each = 8
	taken := make([]time.Duration, callers*each)
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for i := range each {
				start := time.Now()
				do()
				taken[caller*each+i] = time.Since(start)
			}
		})
	}
	all.Wait()
	return taken
}

func bare(b *testing.B) {
	p, err := os.StartProcess("/bin/true", []string{"/bin/true"}, &os.ProcAttr{Env: []string{"PATH=/bin"}})
	if err != nil {
		b.Error(err)
		return
	}
	p.Wait()
}

func gated(b *testing.B, s *Sandbox, host enforcer.Host, plan enforcer.Plan, readBack bool) {
	inv := enforcer.Invocation{Argv: []string{"/bin/true"}, Env: []string{"PATH=/bin"}, Cwd: "/work"}
	c, err := s.Prepare(context.Background(), plan, inv, IO{OutputBytes: 1 << 20})
	if err != nil {
		b.Error(err)
		return
	}
	if readBack {
		state, err := enforcer.Observe(c.PID(), host)
		if v := enforcer.Check(plan, c.Expect(), state); err != nil || !v.Held() {
			b.Error(err, v.Failed())
		}
	}
	if err := errors.Join(c.Release(), c.Started(context.Background())); err != nil {
		b.Error(err)
	}
	if readBack {
		state, err := enforcer.ObserveStarted(c.PID(), host)
		over := errors.Is(err, os.ErrProcessDone)
		if v := enforcer.CheckStarted(plan, c.Expect(), state); !over && (err != nil || !v.Held()) {
			b.Error(err, v.Failed())
		}
	}
	if exit := c.Wait(context.Background()); !exit.Known || exit.Status != 0 || !exit.TreeEmpty {
		b.Errorf("%+v", exit)
	}
}
