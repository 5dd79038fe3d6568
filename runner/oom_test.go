package runner

import (
	"context"
	"slices"
	"testing"
	"time"
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
