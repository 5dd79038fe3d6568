package runner

import (
	"context"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/enforcer/network/fence"
)

// BenchmarkSandbox makes and ends sandboxes, in turns with bare spawns of the same machine in the same state; ratios of medians are reported.
// It uses the real program, whose start is shorter than a test program's.
func BenchmarkSandbox(b *testing.B) {
	config := testConfig(b)
	program := b.TempDir() + "/sandboxd-runner"
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", program, "../cmd/sandboxd-runner")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	binary, err := OpenBinary(program)
	if err != nil {
		b.Fatal(err)
	}
	defer binary.Close()
	config.Binary = binary
	var bare, idle, started, worker, verified, closed []time.Duration
	timed := func(into *[]time.Duration, do func()) {
		begin := time.Now()
		do()
		*into = append(*into, time.Since(begin))
	}
	for b.Loop() {
		timed(&bare, func() { exec.Command("/bin/true").Run() })
		// The launcher's program up to the first thing it does: it isn't PID 1 here, so it ends.
		timed(&idle, func() { exec.Command(program, "launcher").Run() })
		var s *Sandbox
		timed(&started, func() { s, err = Start(context.Background(), config) })
		if err != nil {
			b.Fatal(err)
		}
		timed(&worker, func() {
			w, err := s.worker(context.Background())
			if err != nil {
				b.Fatal(err)
			}
			s.putWorker(w)
		})
		timed(&verified, func() { s.Verify() })
		timed(&closed, func() { closeSandbox(b, s) })
	}
	median := func(d []time.Duration) float64 { slices.Sort(d); return float64(d[len(d)/2]) }
	unit := median(bare)
	b.ReportMetric(unit/1e3, "bare-µs")
	b.ReportMetric(median(idle)/unit, "launcher-program/bare")
	b.ReportMetric(median(started)/unit, "start/bare")
	b.ReportMetric(median(worker)/unit, "worker/bare")
	b.ReportMetric(median(verified)/unit, "verify/bare")
	b.ReportMetric(median(closed)/unit, "close/bare")
}

// BenchmarkSandboxFence makes and reads back sandboxes with and without a fence, in turns; the ratios of medians are what a fence costs.
func BenchmarkSandboxFence(b *testing.B) {
	with := testConfig(b)
	without := with
	without.Plan.Network = fence.Plan{}
	var started, verified [2][]time.Duration
	for b.Loop() {
		for i, config := range []Config{without, with} {
			begin := time.Now()
			s, err := Start(context.Background(), config)
			if err != nil {
				b.Fatal(err)
			}
			started[i] = append(started[i], time.Since(begin))
			for range 3 {
				begin = time.Now()
				if _, err := s.Verify(); err != nil {
					b.Fatal(err)
				}
				verified[i] = append(verified[i], time.Since(begin))
			}
			closeSandbox(b, s)
		}
	}
	median := func(d []time.Duration) float64 { slices.Sort(d); return float64(d[len(d)/2]) }
	b.ReportMetric(median(started[0])/1e3, "start-µs")
	b.ReportMetric(median(started[1])/median(started[0]), "fenced-start/start")
	b.ReportMetric(median(verified[0])/1e3, "verify-µs")
	b.ReportMetric(median(verified[1])/median(verified[0]), "fenced-verify/verify")
}
