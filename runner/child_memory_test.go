package runner

import (
	"context"
	"errors"
	"syscall"
	"testing"

	"github.com/sandboxd/sandboxd/enforcer"
)

func TestMemoryCounted(t *testing.T) {
	s, host, plan := realSandbox(t, 1)
	plan.Memory = 64 << 20
	t.Run("as it is here", func(t *testing.T) { countMemory(t, s, plan) })
	if host.LandlockABI < 6 {
		t.Skip("no tree is killed without a group here")
	}
	// Without a group of the exec's own its worker's descendants are counted.
	plan.Kill, plan.Cgroup = enforcer.KillShepherd, nil
	t.Run("without a group", func(t *testing.T) { countMemory(t, s, plan) })
}

func countMemory(t *testing.T, s *Sandbox, plan enforcer.Plan) {
	for name, line := range map[string]string{
		"the leader holds it":                     "exec dd if=/dev/zero of=/dev/null bs=256M",
		"its children do, each a part":            "for i in 1 2 3; do (dd if=/dev/zero bs=30M 2>/dev/null | sleep 1000) & done; wait",
		"a grandchild that left the session does": "setsid sh -c 'dd if=/dev/zero bs=256M 2>/dev/null | sleep 1000' & exec sleep 1000",
	} {
		got := released(t, s, plan, line).Wait(context.Background())
		if !got.MemoryLimit || !got.Killed || !got.TreeEmpty || got.Uncounted || got.CPULimit || got.Status.Signal() != syscall.SIGKILL || got.OOMKills != 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	got := released(t, s, plan, "dd if=/dev/zero of=/dev/null bs=16M count=64 2>/dev/null; exit 3").Wait(context.Background())
	if got.MemoryLimit || got.Killed || got.Status.ExitStatus() != 3 {
		t.Errorf("within it: %+v", got)
	}
}

// What nobody counts isn't within its limit.
func TestMemoryUncounted(t *testing.T) {
	s, _, plan := realSandbox(t, 1)
	plan.Memory = 1 << 40
	c := released(t, s, plan, "exec sleep 1000")
	c.mu.Lock()
	c.countMemory = func() (int64, error) { return 0, errors.New("no such file") }
	c.mu.Unlock()
	got := c.Wait(context.Background())
	if !got.Uncounted || got.MemoryLimit || !got.Killed {
		t.Errorf("%+v", got)
	}
}

func TestMemoryFiles(t *testing.T) {
	for text, want := range map[string]int64{"100 50 20 5 0 40 0\n": 30 * 4096, "1 2 3 4\n": 0, "1 2": -1, "a b c": -1, "": -1} {
		if got, err := anonymousPages([]byte(text), 4096); (err != nil) != (want < 0) || err == nil && got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	for text, want := range map[string]int64{
		"0-1 ---p 0 0 0 [rollup]\nRss: 9 kB\nPss:  8 kB\nPss_Anon:              12 kB\n": 12 << 10, "Pss_Anon: x kB\n": -1, "Pss_Dirty: 1 kB\n": -1, "": -1,
	} {
		if got, err := shareOf([]byte(text)); (err != nil) != (want < 0) || err == nil && got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
}
