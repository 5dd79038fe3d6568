package faults

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// crowd is how many ask at the same moment.
const crowd = 10_000

// TestCrowd: of ten thousand requests at once as many run as may, every other one is told at once to come again, and the daemon's memory stays
// about where it was.
func TestCrowd(t *testing.T) {
	needRoot(t)
	d := start(t, binaries(t, ""), stateDir(t))
	if got := d.exec(t, `"argv":["true"]`, ""); got.Outcome != "ok" {
		t.Fatalf("%+v", got)
	}
	before := d.memory(t, "VmHWM")
	answers := make([]reply, crowd)
	begin := make(chan struct{})
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() {
			<-begin
			answers[i] = d.insist(t, `{"command":{"argv":["true"]}}`)
		})
	}
	began := time.Now()
	close(begin)
	all.Wait()
	took := time.Since(began)
	count := map[string]int{}
	var busy []time.Duration
	for _, got := range answers {
		switch {
		case got.err != nil:
			count["error"]++
			t.Logf("%v", got.err)
		case got.status == 429 && got.Code == "BUSY":
			count["busy"]++
			busy = append(busy, got.took)
		case got.status == 200 && got.Outcome == "ok":
			count["ok"]++
		default:
			count["other"]++
			t.Logf("%+v", got)
		}
	}
	after := d.memory(t, "VmHWM")
	slices.Sort(busy)
	t.Logf("%v in %v; memory %d -> %d KiB", count, took, before, after)
	if count["ok"] < 16 || count["busy"] == 0 || count["error"]+count["other"] > 0 {
		t.Errorf("answers %v: want ok and busy only", count)
	}
	if after-before > 48<<10 {
		t.Errorf("the crowd took %d KiB", after-before)
	}
	if len(busy) > 0 {
		t.Logf("busy after p50 %v, p99 %v", busy[len(busy)/2], busy[len(busy)*99/100])
	}
	if got := d.exec(t, `"argv":["echo","ran"]`, ""); got.Outcome != "ok" || got.Stdout != "ran\n" {
		t.Errorf("afterwards: %+v", got)
	}
	d.stop(t)
}

// insist asks again as long as the kernel has no room for another connection in its queue: that is not the daemon's answer.
func (d *daemon) insist(t *testing.T, body string) reply {
	for {
		got := d.post(t.Context(), "/v1/exec", body)
		if !errors.Is(got.err, syscall.EAGAIN) {
			return got
		}
		time.Sleep(time.Millisecond) // the queue is the kernel's, and tells nobody
	}
}

// memory is a line of the daemon's status, in KiB.
func (d *daemon) memory(t testing.TB, line string) int {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.Process.Pid))
	if err != nil {
		t.Fatalf("%v\n%s", err, d.log)
	}
	for text := range strings.Lines(string(data)) {
		if rest, found := strings.CutPrefix(text, line+":"); found {
			value, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				t.Fatal(err)
			}
			return value
		}
	}
	t.Fatalf("no %s", line)
	return 0
}
