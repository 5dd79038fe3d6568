package runner

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/enforcer/mount"
	"github.com/sandboxd/sandboxd/enforcer/procfs"
)

// testHost is this machine, as far as a sandbox needs it.
func testHost(t testing.TB) enforcer.Host {
	t.Helper()
	sources, err := mount.Sources(nil)
	if err != nil {
		t.Fatal(err)
	}
	self, err := procfs.Open(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	host := enforcer.Host{UID: os.Geteuid(), GID: os.Getegid(), UserNamespaces: true, Sources: sources, Namespaces: map[string]uint64{}}
	for _, name := range enforcer.NamespaceNames {
		if host.Namespaces[name], err = self.Namespace(name); err != nil {
			t.Fatal(err)
		}
	}
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
