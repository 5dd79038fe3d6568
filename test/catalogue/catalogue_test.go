// Package catalogue is the list of attacks and faults that sandboxd stands against, as a table that is run against the real daemon.
//
// The table's rows are in the files that end in rows_test.go, by the letter and number of the list of scenarios (docs/threat-model.md crosses
// them with the places of an attacker). Each is asked of `sandboxd serve` through its socket, as a client would, and held on four sides: what the
// program met (test/probe says it in errnos), the outcome in the reply, the audit record, and the read-back. elsewhere_test.go names the tests that
// hold a scenario which can't be a request, and TestEveryScenario holds that none is missing.
//
// A row that this kernel has no feature for is skipped by that name; a row whose limit this host can't hold must be refused by the name of
// what is missing. The run ends with a count of all of them. Where CATALOGUE_LACKS lists what a machine lacks, with ";" between, a row that is
// left out for anything else is a failure, and so is a name for which none is.
package catalogue

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// tally counts how rows ended.
type tally struct {
	mu      sync.Mutex // guards what follows
	held    int
	refused map[string]int
	skipped map[string]int
	absent  map[string]int
}

var count = tally{refused: map[string]int{}, skipped: map[string]int{}, absent: map[string]int{}}

func (c *tally) hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held++
}

func (c *tally) note(list map[string]int, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list[why]++
}

func (c *tally) String() string {
	list := func(reasons map[string]int) string {
		total, texts := 0, []string{}
		for _, why := range slices.Sorted(maps.Keys(reasons)) {
			total += reasons[why]
			texts = append(texts, fmt.Sprintf("%d: %s", reasons[why], why))
		}
		if total == 0 {
			return "0"
		}
		return fmt.Sprintf("%d (%s)", total, strings.Join(texts, "; "))
	}
	who := "root"
	if os.Geteuid() != 0 {
		who = "an ordinary user"
	}
	if where := os.Getenv("CATALOGUE_SOCKET"); where != "" {
		who = "a pod's"
	}
	return fmt.Sprintf("catalogue, as %s: held %d, refused as unsupported %s, not offered here %s, skipped %s", who, c.held, list(c.refused), list(c.absent), list(c.skipped))
}

func TestMain(m *testing.M) {
	if os.Getenv("CATALOGUE_BINFMT") == "1" {
		fmt.Fprintln(os.Stderr, registerKind(os.Args[1:]))
		os.Exit(3)
	}
	if dir := os.Getenv("CATALOGUE_MAKE"); dir != "" { // what a pod's image is made from
		if err := show(dir, os.Getenv("CATALOGUE_SHOWN"), os.Getenv("SANDBOXD_BIN")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	status := m.Run()
	fmt.Println(&count)
	if lacks, said := os.LookupEnv("CATALOGUE_LACKS"); said {
		for _, why := range count.unexpected(strings.Split(lacks, ";")) {
			fmt.Println(why)
			status = max(status, 1)
		}
	}
	os.Exit(status)
}

// unexpected holds what rows were left out for against the list of what this machine lacks.
func (c *tally) unexpected(lacks []string) []string {
	left := map[string]bool{}
	for _, list := range []map[string]int{c.refused, c.skipped, c.absent} {
		for why := range list {
			name, _, _ := strings.Cut(why, ": ")
			left[name] = true
		}
	}
	var wrong []string
	for _, name := range slices.Sorted(maps.Keys(left)) {
		if !slices.Contains(lacks, name) {
			wrong = append(wrong, "FAIL: rows were left out for "+name+", which CATALOGUE_LACKS hasn't")
		}
	}
	for _, name := range lacks {
		if !left[name] && name != "" {
			wrong = append(wrong, "FAIL: CATALOGUE_LACKS has "+name+", and no row was left out for it")
		}
	}
	return wrong
}

func TestUnexpected(t *testing.T) {
	c := &tally{refused: map[string]int{"cgroup.memory": 2}, skipped: map[string]int{"landlock.scope: not here": 3}, absent: map[string]int{}}
	for lacks, want := range map[string]int{"cgroup.memory;landlock.scope": 0, "cgroup.memory": 1, "": 2, "cgroup.memory;landlock.scope;FUSE": 1} {
		if got := c.unexpected(strings.Split(lacks, ";")); len(got) != want {
			t.Errorf("%q: %q", lacks, got)
		}
	}
}

func TestCatalogue(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	t.Run("rows", func(t *testing.T) {
		for _, r := range rows() {
			t.Run(r.name(), func(t *testing.T) {
				t.Parallel()
				f.hold(t, r)
			})
		}
	})
	if now := fileDigest(t, f.bin+"/sandboxd-runner"); now != f.runnerDigest {
		t.Errorf("the launcher's binary isn't what it was: %s, before %s", now, f.runnerDigest)
	}
	// B9: whoever has just ended is reaped within moments, and none stays.
	daemon := f.daemons[""].process.Process.Pid
	for deadline := time.Now().Add(soon); zombies(t, daemon) > 0; time.Sleep(20 * time.Millisecond) { // polls the kernel's state
		if time.Now().After(deadline) {
			t.Errorf("%d zombies of the daemon", zombies(t, daemon))
			break
		}
	}
}

// hold runs one row.
func (f *fixture) hold(t *testing.T, r row) {
	if why, found := strings.CutPrefix(r.user, "not offered: "); found && os.Geteuid() != 0 {
		count.note(count.absent, why)
		t.Skip("NOT OFFERED: " + why)
	}
	if why := f.pod.withholds(r); why != "" {
		count.note(count.absent, why)
		t.Skip("NOT OFFERED: " + why)
	}
	for _, need := range r.needs {
		if why := need.absent(f); why != "" {
			count.note(count.skipped, need.name+": "+why)
			t.Skipf("SKIP: %s: %s", need.name, why)
		}
	}
	a := f.ask(t, r)
	if r.lack != "" && !f.mechanisms[r.lack] {
		a.unsupported(t, r.lack)
		if !t.Failed() {
			count.note(count.refused, r.lack)
		}
		return
	}
	a.judge(t)
	if !t.Failed() {
		count.hold()
	}
}

// onlyRoot leaves a test out in the second place, counted and with its reason.
func onlyRoot(t *testing.T, why string) {
	t.Helper()
	if os.Geteuid() != 0 {
		count.note(count.absent, why)
		t.Skip("NOT OFFERED: " + why)
	}
}
