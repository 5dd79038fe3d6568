package runner

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/enforcer/cgroup"
)

// probed is this machine, asked once.
var probed = sync.OnceValues(func() (enforcer.Host, error) { return enforcer.ProbeHost(enforcer.HostConfig{}) })

// testHost is this machine. Tests change it, so each gets its own maps.
func testHost(t testing.TB) enforcer.Host {
	t.Helper()
	host, err := probed()
	if err != nil {
		t.Fatal(err)
	}
	host.Namespaces = maps.Clone(host.Namespaces)
	return host
}

// testConfig is a sandbox of this test program.
func testConfig(t testing.TB) Config {
	t.Helper()
	binary, err := OpenBinary("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { binary.Close() })
	host := testHost(t)
	plan, err := enforcer.BuildSandbox(host, testSpec())
	if err != nil {
		t.Fatal(err)
	}
	return Config{
		Binary: binary, Host: host, Plan: plan, MaxWorkers: 2, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), Cgroup: neededGroup(t, host, plan),
	}
}

// neededGroup is a group for a sandbox on a kernel that has no other way to kill its trees: before 6.12 no shepherd has its signal scope.
func neededGroup(t testing.TB, host enforcer.Host, plan enforcer.SandboxPlan) *cgroup.Group {
	t.Helper()
	if host.LandlockABI >= 6 || host.Cgroup.Base == "" {
		return nil
	}
	group, err := host.Cgroup.Make(fmt.Sprintf("runner-test-%d-%d", os.Getpid(), groupNumber.Add(1)), plan.Worker.UID)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := group.Remove(); err != nil {
			t.Error(err)
		}
	})
	return group
}

// groupNumber numbers the groups of tests.
var groupNumber atomic.Int64

// kill has a plan kill the way that its sandbox can.
func kill(s *Sandbox, plan enforcer.Plan) enforcer.Plan {
	plan.Kill, plan.Cgroup = enforcer.KillShepherd, nil
	if s.config.Cgroup != nil && s.config.Host.LandlockABI < 6 {
		plan.Kill, plan.Cgroup = enforcer.KillCgroup, map[string]string{}
	}
	return plan
}

func testSpec() enforcer.SandboxSpec {
	return enforcer.SandboxSpec{
		TmpBytes: 1 << 20, WorkBytes: 2 << 20, Hostname: "box",
		Worker: enforcer.Identity{UID: 250000, GID: 250000}, Child: enforcer.Identity{UID: 250001, GID: 250001},
	}
}

// startSandbox starts one, and closes it at the end of the test.
func startSandbox(t testing.TB, c Config) *Sandbox {
	t.Helper()
	s, err := Start(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeSandbox(t, s) })
	return s
}

func closeSandbox(t testing.TB, s *Sandbox) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Error(err)
	}
}

func TestSandboxHolds(t *testing.T) {
	s := startSandbox(t, testConfig(t))
	for _, row := range s.Verdict().Rows {
		t.Logf("%-30s %-9s %s", row.Control, row.Evidence, row.Got)
		if !row.Held {
			t.Errorf("%s: want %s, got %s", row.Control, row.Want, row.Got)
		}
	}
}
