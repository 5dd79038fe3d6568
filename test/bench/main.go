// Command bench measures the budgets of docs/benchmarks.md: each row against its own baseline, interleaved in one run, so that a busy machine slows
// both. It prints the page; nothing here passes or fails.
//
//	bench [-rounds N] [-quick] > docs/benchmarks.md
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// row is one line of the page.
type row struct {
	What     string
	Budget   string
	Measured string
	Met      string
}

// bench is one run: where its binaries are and how often things are repeated.
type bench struct {
	ctx    context.Context
	dir    string // binaries and state, on disk
	memory string // the same in memory, where fsync costs nothing
	rounds int
	rows   []row
}

func (b *bench) add(what, budget, measured, met string) {
	b.rows = append(b.rows, row{what, budget, measured, met})
	fmt.Fprintf(os.Stderr, "%-70s %s\n", what, measured)
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == installWord {
		installAndExit()
	}
	if len(os.Args) == 3 && os.Args[1] == pandasWord {
		if err := measurePandas(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	rounds := flag.Int("rounds", 400, "execs of each kind")
	quick := flag.Bool("quick", false, "a tenth of everything: does it run at all")
	only := flag.String("only", "", "exec, parts, python, kill, memory, long, network or opensandbox: that part alone")
	profile := flag.String("cpuprofile", "", "write this process's CPU profile (the daemon's side of the exec rows) to a file")
	flag.Parse()
	if *quick {
		*rounds = max(*rounds/10, 20)
	}
	if err := profiled(*profile, func() error { return run(*rounds, *quick, *only) }); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// profiled writes a CPU profile of an act, where a file is named.
func profiled(file string, act func() error) error {
	if file == "" {
		return act()
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer out.Close()
	if err := pprof.StartCPUProfile(out); err != nil {
		return err
	}
	defer pprof.StopCPUProfile()
	return act()
}

func run(rounds int, quick bool, only string) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("needs root: the budgets are of the full tier")
	}
	dir, err := os.MkdirTemp("", "sandboxd-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	memory, err := os.MkdirTemp("/dev/shm", "sandboxd-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(memory)
	b := &bench{ctx: context.Background(), dir: dir, memory: memory, rounds: rounds}
	for _, name := range []string{"sandboxd", "sandboxd-runner"} {
		build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(dir, name), "./cmd/"+name)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("go build %s: %w\n%s", name, err, out)
		}
	}
	for _, part := range []struct {
		name    string
		measure func(*bench) error
	}{
		{"exec", execs}, {"parts", parts}, {"python", python}, {"kill", kill}, {"memory", memoryRows(quick)}, {"long", long}, {"network", network}, {"opensandbox", opensandbox(quick)},
	} {
		if only != "" && only != part.name {
			continue
		}
		if err := part.measure(b); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return b.page()
}

// page prints the table with the machine and the versions that it is of.
func (b *bench) page() error {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return err
	}
	fmt.Printf("# Benchmarks\n\nMade by `make bench` on %s: Linux %s, %s, %d processors (%s), %s. ", time.Now().UTC().Format(time.DateOnly),
		unix.ByteSliceToString(name.Release[:]), runtime.GOARCH, runtime.NumCPU(), processor(), runtime.Version())
	fmt.Printf("Every ratio is of two medians (or two p99) of one interleaved run; absolute times are this machine's and vary with its load.\n\n")
	fmt.Printf("| what | budget | measured | met |\n|---|---|---|---|\n")
	for _, row := range b.rows {
		fmt.Printf("| %s | %s | %s | %s |\n", row.What, row.Budget, row.Measured, row.Met)
	}
	notes, err := os.ReadFile("test/bench/notes.md")
	if err != nil {
		return err
	}
	fmt.Printf("\n%s", notes)
	return nil
}

// processor is the model name, as /proc/cpuinfo has it.
func processor() string {
	data, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(data)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}
