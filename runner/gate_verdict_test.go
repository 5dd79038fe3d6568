package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/policy"
)

// realSandbox is one as the daemon makes it on this host, with the plan of a request that asks for nothing special.
func realSandbox(t testing.TB, workers int) (*Sandbox, enforcer.Host, enforcer.Plan) {
	t.Helper()
	host, err := enforcer.ProbeHost(enforcer.HostConfig{})
	if err != nil {
		t.Fatal(err)
	}
	config := testConfig(t)
	config.Host, config.MaxWorkers = host, workers
	config.Plan, err = enforcer.BuildSandbox(host, enforcer.SandboxSpec{
		TmpBytes: 1 << 20, WorkBytes: 2 << 20, Hostname: "box",
		Worker: enforcer.Identity{UID: 250000, GID: 250000}, Child: enforcer.Identity{UID: 250001, GID: 250001},
	})
	if err != nil {
		t.Fatal(err)
	}
	if host.Cgroup.Base != "" {
		if config.Cgroup, err = host.Cgroup.Make(fmt.Sprintf("gate-%d-%s", os.Getpid(), config.Plan.Hostname), config.Plan.Worker.UID); err != nil {
			t.Fatal(err)
		}
	}
	s := startSandbox(t, config)
	decision := policy.Decision{Allow: true}
	decision.Effective.SecurityContext = policy.SecurityContext{}.Defaulted()
	decision.Effective.Limits = policy.Limits{}.Defaulted()
	decision.Accept = []string{"cgroup.pids"}
	plan, err := enforcer.Build(decision, host, s.Plan(), enforcer.Profiles{})
	if err != nil {
		t.Fatal(err)
	}
	return s, host, plan
}

// The kernel's word on a child is what the plan says and what the daemon expects, at the gate and after execve.
func TestVerdictHolds(t *testing.T) {
	both(t, func(t *testing.T) {
		s, host, plan := realSandbox(t, 1)
		for _, line := range []string{"exec sleep 1000", "sleep 1000"} {
			c := prepared(t, s, plan, testInvocation(line))
			state, err := enforcer.Observe(c.PID(), host)
			if err != nil {
				t.Fatal(err)
			}
			wantHeld(t, "at the gate", enforcer.Check(plan, c.Expect(), state))
			if err := errors.Join(c.Release(), c.Started(context.Background())); err != nil {
				t.Fatal(err)
			}
			if state, err = enforcer.ObserveStarted(c.PID(), host); err != nil {
				t.Fatal(err)
			}
			wantHeld(t, "after execve", enforcer.CheckStarted(plan, c.Expect(), state))
			c.Kill()
			if exit := c.Wait(context.Background()); !exit.TreeEmpty || exit.TreeEvidence != policy.EvidenceKernel {
				t.Errorf("%+v", exit)
			}
		}
	})
}

func wantHeld(t *testing.T, when string, v policy.Verdict) {
	t.Helper()
	if len(v.Rows) < 20 {
		t.Errorf("%s: %d rows", when, len(v.Rows))
	}
	for _, row := range v.Failed() {
		t.Errorf("%s: %s (%s): want %s, got %s", when, row.Control, row.Evidence, row.Want, row.Got)
	}
}
