package faults

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestForkRefused: where the kernel has no memory or no process left for a launcher, a worker or a child, the exec is ours to have failed: infra, with the
// reason in answer and record, and nothing ran. The next one works, in the same sandbox, and nothing is left of the first.
func TestForkRefused(t *testing.T) {
	needRoot(t)
	t.Parallel()
	bin, state := binaries(t, "fault"), stateDir(t)
	for point, row := range map[string]struct {
		kept bool
		says string
	}{
		"sandbox.fork":  {false, "start the launcher"},
		"launcher.fork": {true, "start a worker"},
		"worker.clone":  {true, "clone3"},
	} {
		for errno, text := range map[string]string{"ENOMEM": "cannot allocate memory", "EAGAIN": "resource temporarily unavailable"} {
			d := start(t, bin, state, "SANDBOXD_FAULT="+point+"="+errno, "--pool 0")
			d.refusesOnce(t, row.kept, row.says, text)
			before := d.targets(t)
			if row.kept { // another launcher and another worker are refused as well
				d.refusesOnce(t, row.kept, row.says, text)
				d.hasDescriptors(t, before, 0)
			}
			if groups := d.groups(t); groups > 1 { // the daemon's own
				t.Errorf("%s %s: %d groups are left", point, errno, groups)
			}
			d.stop(t)
		}
	}
}

// refusesOnce has a sandbox in which the first exec meets the fault, and the second doesn't.
func (d *daemon) refusesOnce(t *testing.T, kept bool, who, why string) {
	t.Helper()
	more, box := "", ""
	if kept {
		box = d.makeSandbox(t)
		more = `,"sandbox":"` + box + `"`
	}
	got := d.exec(t, `"argv":["echo","ran"]`, more)
	if got.err != nil || got.Outcome != "infra" || got.Stdout != "" || !got.TreeEmpty || !strings.Contains(got.Message, who) || !strings.Contains(got.Message, why) {
		t.Errorf("%+v, want infra that says %q and %q\n%s", got, who, why, d.log)
	}
	d.recordedOutcome(t, got, "infra", why)
	if got := d.exec(t, `"argv":["echo","ran"]`, more); got.Outcome != "ok" || got.Stdout != "ran\n" {
		t.Errorf("after %q: the next one: %+v\n%s", why, got, d.log)
	}
	if kept {
		d.deleteSandbox(t, box)
	}
	d.settles(t)
}

// recordedOutcome: the exec's end is on record, as it was answered.
func (d *daemon) recordedOutcome(t *testing.T, got reply, outcome, text string) {
	t.Helper()
	for line := range strings.Lines(d.records(t)) {
		if strings.Contains(line, got.ID) && regexp.MustCompile(`"outcome":"`+outcome+`"`).MatchString(line) && strings.Contains(line, text) {
			return
		}
	}
	t.Errorf("no record of %s has outcome %s and %q:\n%s", got.ID, outcome, text, d.records(t))
}

// TestNoForksForTheWorker has the kernel's own EAGAIN: the worker lives, and its user has no process left for a child.
func TestNoForksForTheWorker(t *testing.T) {
	needRoot(t)
	t.Parallel()
	d := start(t, binaries(t, ""), stateDir(t), "--pool 0")
	box := d.makeSandbox(t)
	more := `,"sandbox":"` + box + `"`
	if got := d.exec(t, `"argv":["true"]`, more); got.Outcome != "ok" {
		t.Fatalf("%+v", got)
	}
	worker := 0
	for _, process := range d.left() {
		if strings.HasSuffix(strings.TrimSpace(process), " worker") {
			pid, err := strconv.Atoi(filepath.Base(strings.Fields(process)[0]))
			if err != nil {
				t.Fatal(err)
			}
			worker = pid
		}
	}
	if worker == 0 {
		t.Fatalf("no worker: %v", d.left())
	}
	user := int(owner(t, worker))
	visit(t, user, "limit", strconv.Itoa(worker), "1")
	got := d.exec(t, `"argv":["echo","ran"]`, more)
	if got.err != nil || got.Outcome != "infra" || got.Stdout != "" || !got.TreeEmpty || !strings.Contains(got.Message, "clone3") {
		t.Errorf("without forks: %+v, want infra that says so\n%s", got, d.log)
	}
	d.recordedOutcome(t, got, "infra", "resource temporarily unavailable")
	visit(t, user, "limit", strconv.Itoa(worker), fmt.Sprint(1<<12))
	if got := d.exec(t, `"argv":["echo","ran"]`, more); got.Outcome != "ok" || got.Stdout != "ran\n" {
		t.Errorf("with forks again: %+v\n%s", got, d.log)
	}
	d.deleteSandbox(t, box)
	d.stop(t)
}
