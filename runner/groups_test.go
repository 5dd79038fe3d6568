package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/enforcer"
)

// TestGroupsEndWithTheSandbox: a group that waits for the next exec is an open directory; it is closed with its sandbox, and none is kept after that.
func TestGroupsEndWithTheSandbox(t *testing.T) {
	host := testHost(t).Cgroup
	if host.Base == "" || !host.Kill {
		t.Skip("no usable version 2 hierarchy: " + host.Why)
	}
	if len(host.Controllers) > 0 {
		t.Skip("groups with controllers wait for nobody")
	}
	config := testConfig(t)
	group, err := host.Make(fmt.Sprintf("sandboxd-test-groups-%d", os.Getpid()), config.Plan.Outside.UID)
	if err != nil {
		t.Fatal(err)
	}
	config.Cgroup = group
	s := startSandbox(t, config)
	plan := testPlan(t, s)
	plan.Kill, plan.Cgroup = enforcer.KillCgroup, map[string]string{}
	c := prepared(t, s, plan, testInvocation("true"))
	if err := errors.Join(c.Release(), c.Started(context.Background())); err != nil {
		t.Fatal(err)
	}
	if exit := c.Wait(context.Background()); !exit.TreeEmpty {
		t.Fatalf("%+v", exit)
	}
	s.groups.mu.Lock()
	if len(s.groups.idle) != 1 {
		t.Fatalf("%d groups wait after an exec, want 1", len(s.groups.idle))
	}
	idle := s.groups.idle[0] // held, so that no collector closes it
	s.groups.mu.Unlock()
	if idle.FD() < 0 {
		t.Error("it is closed while it waits")
	}
	closeSandbox(t, s)
	for deadline := time.Now().Add(10 * time.Second); idle.FD() >= 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("descriptor %d of %s is still open after the sandbox's end", idle.FD(), idle.Dir())
		}
	}
	if s.groups.keep(idle) || s.groups.take() != nil {
		t.Error("a sandbox that has ended keeps a group")
	}
}
