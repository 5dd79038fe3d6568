package runner

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/enforcer"
)

// burn keeps a core busy without end.
const burn = "while :; do :; done"

// cpuSandbox is a sandbox with a plan that gives its execs so much processor time.
func cpuSandbox(t *testing.T, give time.Duration) (*Sandbox, enforcer.Plan) {
	t.Helper()
	s, host, plan := realSandbox(t, 1)
	if host.Cgroup.Base == "" || !host.Cgroup.Kill {
		t.Skip("no cgroup that counts: ", host.Cgroup.Why)
	}
	plan.CPUTime = give.Microseconds()
	return s, plan
}

func released(t *testing.T, s *Sandbox, plan enforcer.Plan, line string) *Child {
	t.Helper()
	c := prepared(t, s, plan, testInvocation(line))
	if err := errors.Join(c.Release(), c.Started(context.Background())); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCPULimit(t *testing.T) {
	const give = 300 * time.Millisecond
	s, plan := cpuSandbox(t, give)
	for name, line := range map[string]string{
		"the leader burns it":                          "exec sh -c '" + burn + "'",
		"its children do, each a part":                 "for i in 1 2 3; do (" + burn + ") & done; wait",
		"a grandchild that left the session, and naps": "setsid sh -c '" + burn + "' & exec sleep 1000",
	} {
		got := released(t, s, plan, line).Wait(context.Background())
		if !got.CPULimit || !got.Killed || !got.TreeEmpty || got.Uncounted || got.OutputLimit || got.Status.Signal() != syscall.SIGKILL {
			t.Errorf("%s: %+v", name, got)
		}
		if got.CPUTime < give {
			t.Errorf("%s: killed after %s of processor time", name, got.CPUTime)
		}
	}
	// What doesn't use it isn't killed, however long it takes; what has ended by itself hasn't been killed.
	got := released(t, s, plan, "sleep 0.5; exit 3").Wait(context.Background())
	if got.CPULimit || got.Killed || got.Status.ExitStatus() != 3 || got.CPUTime <= 0 || got.CPUTime > give {
		t.Errorf("asleep: %+v", got)
	}
}

// A group that waits for the next exec has counted the one before.
func TestCPUCountsOneExec(t *testing.T) {
	s, plan := cpuSandbox(t, time.Hour)
	first := released(t, s, plan, "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done").Wait(context.Background())
	second := released(t, s, plan, "true").Wait(context.Background())
	if first.CPUTime <= 0 || second.CPUTime <= 0 || second.CPUTime > first.CPUTime/2 {
		t.Errorf("a loop took %s, nothing at all %s", first.CPUTime, second.CPUTime)
	}
}

// A count that can't be read is no count within the limit.
func TestCPUUncounted(t *testing.T) {
	s, plan := cpuSandbox(t, time.Hour)
	c := released(t, s, plan, "exec sleep 1000")
	c.mu.Lock()
	c.countCPU = func() (time.Duration, error) { return 0, errors.New("no such file") }
	c.mu.Unlock()
	got := c.Wait(context.Background())
	if !got.Uncounted || got.CPULimit || !got.Killed {
		t.Errorf("%+v", got)
	}
}

// A plan that limits what nobody counts isn't carried out.
func TestCPULimitWantsAGroup(t *testing.T) {
	s := startSandbox(t, testConfig(t))
	plan := testPlan(t, s)
	plan.Kill, plan.Cgroup, plan.CPUTime = enforcer.KillShepherd, nil, 1000
	if c, err := s.Prepare(context.Background(), plan, testInvocation("true"), IO{OutputBytes: 1}); !errors.Is(err, ErrTable) {
		t.Error("want ErrTable, got ", err)
		if err == nil {
			c.Abort()
		}
	}
}
