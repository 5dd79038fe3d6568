package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// networkRow is a budget of the network that a benchmark beside its code measures: against a direct way, or another, in the same run.
type networkRow struct {
	dir, benchmark, unit string
	what                 string
	budget               string
	limit                float64 // 0: there is none
	atLeast              bool
	format               string
}

var networkRows = []networkRow{
	{"./enforcer/network", "BenchmarkName", "ns-p50", "network: a name judged by 10,000 rules, p50", "≤ 50 ns", 50, false, "%.0f ns"},
	{"./enforcer/network", "BenchmarkName", "p50/map", "network: the same, over a lookup of those names in a map", "–", 0, false, "%.2f ×"},
	{"./enforcer/network", "BenchmarkAddress", "ns-p50", "network: an address judged by 10,000 rules, p50", "≤ 50 ns", 50, false, "%.0f ns"},
	{"./enforcer/network", "BenchmarkAddress", "p50/map", "network: the same, over a lookup of those addresses in a map", "–", 0, false, "%.2f ×"},
	{"./enforcer/network/names", "BenchmarkName", "µs-p50", "network: a name answered, p50", "≤ 100 µs", 100, false, "%.0f µs"},
	{"./enforcer/network/names", "BenchmarkName", "ratio-p50", "network: the same, over a bare UDP echo", "≤ 4 ×", 4, false, "%.2f ×"},
	{"./enforcer/network/names", "BenchmarkUpstream", "µs-p50", "network: a name answered that a local name server is asked for, p50", "≤ 100 µs", 100, false, "%.0f µs"},
	{"./enforcer/network/relay", "BenchmarkSetUp", "p50/direct", "network: connection through the relay to the first byte, over direct, p50", "≤ 4 ×", 4, false, "%.2f ×"},
	{"./enforcer/network/relay", "BenchmarkSetUp", "p99/direct", "network: the same, p99", "≤ 4 ×", 4, false, "%.2f ×"},
	{"./enforcer/network/relay", "BenchmarkPeek", "p50/without", "network: looking at a TLS hello, over bytes as many that aren't one, p50", "in the noise", 1.1, false, "%.2f ×"},
	{"./enforcer/network/relay", "BenchmarkThroughput/1/up", "%direct", "network: throughput of direct, 1 stream up", "≥ 50 %", 50, true, "%.0f %%"},
	{"./enforcer/network/relay", "BenchmarkThroughput/1/down", "%direct", "network: throughput of direct, 1 stream down", "≥ 50 %", 50, true, "%.0f %%"},
	{"./enforcer/network/relay", "BenchmarkThroughput/64/up", "%direct", "network: throughput of direct, 64 streams up", "≥ 60 %", 60, true, "%.0f %%"},
	{"./enforcer/network/relay", "BenchmarkThroughput/64/up", "%direct-cpu", "network: the same, by the processor time of all", "–", 0, true, "%.0f %%"},
	{"./enforcer/network/relay", "BenchmarkThroughput/64/down", "%direct", "network: throughput of direct, 64 streams down", "≥ 60 %", 60, true, "%.0f %%"},
	{"./enforcer/network/relay", "BenchmarkThroughput/64/down", "%direct-cpu", "network: the same, by the processor time of all", "–", 0, true, "%.0f %%"},
	{"./enforcer/network/relay", "BenchmarkCut", "ms/1000", "network: 1,000 live connections cut by a tighter spec", "≤ 1 s", 1000, false, "%.0f ms"},
	{"./enforcer/network/fence", "BenchmarkMake", "fenced/empty", "network: a namespace fenced, over an empty one", "≤ 4 ×", 4, false, "%.2f ×"},
	{"./enforcer/network/fence", "BenchmarkObserve", "p50-µs", "network: the fence read back, p50", "≤ 1.5 ms", 1500, false, "%.0f µs"},
	{"./enforcer/network/fence", "BenchmarkNotice", "p50-µs", "network: a foreign change noticed, p50", "≤ 50 ms", 50_000, false, "%.0f µs"},
}

// network runs the benchmarks of the network's packages, each package once, and takes the figures that have a budget.
func network(b *bench) error {
	figures := map[string]map[string]float64{}
	for _, dir := range []string{"./enforcer/network", "./enforcer/network/names", "./enforcer/network/relay", "./enforcer/network/fence"} {
		cmd := exec.CommandContext(b.ctx, "go", "test", "-run", "^$", "-bench", ".", dir)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s: %w\n%s", dir, err, out)
		}
		for line := range strings.Lines(string(out)) {
			if name, values, ok := figuresOf(line); ok {
				figures[dir+" "+name] = values
			}
		}
	}
	for _, row := range networkRows {
		value, measured := figures[row.dir+" "+row.benchmark][row.unit]
		if !measured {
			return fmt.Errorf("%s %s says nothing of %s", row.dir, row.benchmark, row.unit)
		}
		b.add(row.what, row.budget, fmt.Sprintf(row.format, value), row.met(value))
	}
	return nil
}

func (r networkRow) met(value float64) string {
	switch {
	case r.limit == 0:
		return "–"
	case r.atLeast:
		return met(r.limit, value) // the budget over what was reached
	}
	return met(value, r.limit)
}

// figuresOf reads a line of go test -bench: name-processors, rounds, then pairs of value and unit.
func figuresOf(line string) (name string, figures map[string]float64, ok bool) {
	fields := strings.Fields(line)
	if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
		return "", nil, false
	}
	name, figures = fields[0], map[string]float64{}
	if at := strings.LastIndexByte(name, '-'); at > 0 {
		if _, err := strconv.Atoi(name[at+1:]); err == nil {
			name = name[:at]
		}
	}
	for i := 2; i+1 < len(fields); i += 2 {
		value, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return "", nil, false
		}
		figures[fields[i+1]] = value
	}
	return name, figures, true
}
