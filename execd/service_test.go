package execd

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/runner"
)

// runnerDir has the launcher, built once for all tests.
var runnerDir string

var buildRunner = sync.OnceValues(func() (string, error) {
	// A test program that runs as another user, who has no Go, has its launcher built for it.
	if dir := os.Getenv("SANDBOXD_BIN"); dir != "" {
		return filepath.Join(dir, runner.Name), nil
	}
	dir, err := os.MkdirTemp("", "execd-runner")
	if err != nil {
		return "", err
	}
	runnerDir = dir
	path := filepath.Join(dir, "sandboxd-runner")
	build := exec.Command("go", "build", "-o", path, "github.com/sandboxd/sandboxd/cmd/sandboxd-runner")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

func removeRunner() {
	if runnerDir != "" {
		os.RemoveAll(runnerDir)
	}
}

// testConfig is a daemon of its own, with the real launcher.
func testConfig(t testing.TB) Config {
	t.Helper()
	path, err := buildRunner()
	if err != nil {
		t.Fatal(err)
	}
	c := DefaultConfig(t.TempDir())
	c.RunnerPath = path
	c.ClaimFile = filepath.Join(c.StateDir, "ids")
	c.FirstUID = 400_000 + os.Getpid()%1000*1000 // no other package's tests have these
	c.UIDs = 1000
	c.Pool = 0
	c.CompileDriver = false // a run of its own, at any time
	hastenPolicy(&c)
	c.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	return c
}

// hastenPolicy leaves out what policy/engine's own tests are about: the bundle's tests, which would run at the start of every service here, and how long a
// decision may take, which on an emulated processor is another time.
func hastenPolicy(c *Config) {
	c.TestedPolicy, c.DecisionTimeout = true, 30*time.Second
	c.ProbeInterval = 0 // what is tried at a start has tests of its own
}

// start starts a service and closes it at the test's end.
func start(t testing.TB, c Config) *Service {
	t.Helper()
	s, err := New(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, s) })
	return s
}

func stop(t testing.TB, s *Service) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// command is an exec of a shell script, with the reply's lifetime bounded.
func command(argv ...string) policy.Request {
	return policy.Request{
		Action: policy.ActionExec, Caller: Self(), Command: policy.Command{Argv: argv}, Limits: policy.Limits{TimeoutSeconds: 20},
	}
}

func shell(script string) policy.Request { return command("sh", "-c", script) }

// mustBe fails the test with the whole reply when the outcome isn't the wanted one.
func mustBe(t testing.TB, reply Reply, want Outcome) {
	t.Helper()
	if reply.Outcome != want {
		text, _ := reply.Encode()
		t.Fatalf("outcome %s, want %s: %s", reply.Outcome, want, text)
	}
}
