package runner

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/test/kerneltest"
)

// Where the group doesn't go as a whole, a leader may end by itself after the kernel has killed one of its own: both are told.
func TestOOMOfAGrandchild(t *testing.T) {
	s, host, plan := realSandbox(t, 1)
	if !slices.Contains(host.Cgroup.Controllers, "memory") {
		t.Skip("no memory controller: ", host.Cgroup.Why)
	}
	plan.Cgroup["memory.max"], plan.Cgroup["memory.oom.group"] = "67108864", "0"
	if host.Cgroup.Swap {
		plan.Cgroup["memory.swap.max"] = "0"
	}
	c := released(t, s, plan, "setsid sh -c 'dd if=/dev/zero of=/dev/null bs=256M count=1 2>/dev/null; echo $?'; exit 0")
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	got := c.Wait(ctx)
	if !got.Known || got.Status != 0 || got.OOMKills != 1 || got.Killed || !got.TreeEmpty || string(got.Stdout.Data) != "137\n" {
		t.Errorf("%+v", got)
	}
}

// A daemon that the kernel shall never kill for memory has no children of that kind.
func TestOOMScoreIsNotInherited(t *testing.T) {
	kerneltest.Require(t, kerneltest.Root)
	before, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte("-900"), 0); err != nil {
		t.Skip("CAP_SYS_RESOURCE: ", err)
	}
	defer os.WriteFile("/proc/self/oom_score_adj", before, 0)
	s := startSandbox(t, testConfig(t))
	if got := run(t, s, testInvocation("cat /proc/self/oom_score_adj"), IO{}); string(got.Stdout.Data) != "0\n" {
		t.Errorf("a child has %q", got.Stdout.Data)
	}
}
