package runner

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/enforcer"
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
	return Config{Binary: binary, Host: host, Plan: plan, MaxWorkers: 2, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}
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
