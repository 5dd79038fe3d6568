package faults

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/execd/audit"
)

// Daemons are killed at random moments under load, which finds what the list of points doesn't have.
const rounds = 12

// commands run while the daemon dies; each carries the marker in its command line, so that what is left of it can be found.
func commands(marker string) [][]string {
	return [][]string{
		{"sh", "-c", "sleep 60 # " + marker},
		{"sh", "-c", "setsid sh -c 'sleep 60 # " + marker + "' & setsid sleep 60 & trap '' TERM; wait # " + marker},
		{"true", marker},
		{"sh", "-c", "while :; do :; done # " + marker},
	}
}

func TestKillAtAnyMoment(t *testing.T) {
	needRoot(t)
	t.Parallel()
	bin := binaries(t, "")
	state := stateDir(t)
	for round := range rounds {
		d := start(t, bin, state)
		marker := d.marker
		ctx, cancel := context.WithCancel(t.Context())
		for _, argv := range commands(marker) {
			go d.hammer(ctx, argv)
		}
		// Anywhere from the first request's decision to the middle of a busy second.
		time.Sleep(time.Duration(rand.IntN(400)) * time.Millisecond)
		d.kill(t)
		cancel()
		d.nothingLeft(t)
		report, err := audit.Verify(filepath.Join(state, "audit"))
		if err != nil || !report.OK() {
			t.Fatalf("round %d: the log: %+v, %v", round, report, err)
		}
	}
	// The daemon starts on what was left and answers.
	d := start(t, bin, state)
	if got := d.exec(t, `"argv":["echo","alive"]`, ""); got.status != 200 || got.Stdout != "alive\n" {
		t.Errorf("after %d crashes: %+v\n%s", rounds, got, d.log)
	}
	d.stop(t)
}
