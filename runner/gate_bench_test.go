package runner

import (
	"context"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/enforcer/seccomp"
)

// BenchmarkGate compares a gated exec of /bin/true with a bare spawn of it: turn by turn in one run, since only the ratio says something.
func BenchmarkGate(b *testing.B) {
	for _, fork := range []bool{false, true} {
		for _, callers := range []int{1, 4} {
			name := map[bool]string{false: "vfork", true: "fork"}[fork] + "/" + map[int]string{1: "1 caller", 4: "4 callers"}[callers]
			b.Run(name, func(b *testing.B) {
				plainFork = fork
				defer func() { plainFork = false }()
				benchmarkGate(b, callers)
			})
		}
	}
}

func benchmarkGate(b *testing.B, callers int) {
	config := testConfig(b)
	config.MaxWorkers = callers
	s := startSandbox(b, config)
	plan := testPlan(b, s)
	profile, err := seccomp.RuntimeDefault(runtime.GOARCH, "6.12")
	if err != nil {
		b.Fatal(err)
	}
	if plan.Seccomp, err = seccomp.NewFilter("RuntimeDefault", profile, runtime.GOARCH); err != nil {
		b.Fatal(err)
	}
	inv := enforcer.Invocation{Argv: []string{"/bin/true"}, Env: []string{"PATH=/bin"}, Cwd: "/work"}
	ways := map[string]func(){
		"bare":  func() { bare(b) },
		"gated": func() { gated(b, s, plan, inv) },
	}
	taken := map[string][]time.Duration{}
	for b.Loop() {
		for _, way := range []string{"bare", "gated"} {
			taken[way] = append(taken[way], together(callers, ways[way])...)
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

func gated(b *testing.B, s *Sandbox, plan enforcer.Plan, inv enforcer.Invocation) {
	c, err := s.Prepare(context.Background(), plan, inv, IO{OutputBytes: 1 << 20})
	if err != nil {
		b.Error(err)
		return
	}
	if err := c.Release(); err != nil {
		b.Error(err)
	}
	if err := c.Started(context.Background()); err != nil {
		b.Error(err)
	}
	if exit := c.Wait(context.Background()); !exit.Known || exit.Status != 0 || !exit.TreeEmpty {
		b.Errorf("%+v", exit)
	}
}
