package opensandbox

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/test/kerneltest"
)

// TestClients are OpenSandbox's other clients, each against the same daemon, whose policy is the built-in one with one host.
func TestClients(t *testing.T) {
	kerneltest.Require(t, kerneltest.Root)
	bin := os.Getenv("SANDBOXD_CLIENTS")
	if bin == "" {
		t.Skip("SANDBOXD_CLIENTS names no folder with the clients' programs; test/opensandbox.sh does")
	}
	d := start(t, closedPolicy(t))
	reachable(t)
	t.Run("JavaScript", func(t *testing.T) { d.javascript(t, bin) })
	t.Run("CommandLine", func(t *testing.T) { d.python(t, bin, "cli") })
	t.Run("MCP", func(t *testing.T) { d.python(t, bin, "mcp") })
	d.keepsSecrets(t)
}

// closedPolicy is the built-in policy with one host that may be reached.
func closedPolicy(t *testing.T) string {
	t.Helper()
	return builtIn(t, [][2]string{
		{`"accept": []`, `"accept": ["cgroup.cpu", "cgroup.memory"]`},
		{`"targets": []`, `"targets": [{"target": "` + allowedHost.String() + `", "ports": []}]`},
	})
}

// reachable fails when a host can't be reached from here: that a sandbox doesn't reach it would prove nothing.
func reachable(t *testing.T) {
	t.Helper()
	for _, host := range []string{allowedHost.String(), deniedHost.String()} {
		connection, err := net.DialTimeout("tcp", net.JoinHostPort(host, "80"), 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		connection.Close()
	}
}

// variables are what OpenSandbox's clients read, and the hosts.
func (d *daemon) variables(more ...string) []string {
	return append(append(os.Environ(), "OPEN_SANDBOX_DOMAIN="+d.address, "OPEN_SANDBOX_API_KEY="+d.key,
		"SANDBOXD_TEST_ALLOWED="+allowedHost.String(), "SANDBOXD_TEST_DENIED="+deniedHost.String(), "PYTHONDONTWRITEBYTECODE=1"), more...)
}

var (
	nodePassed = regexp.MustCompile(`(?m)^# pass [1-9][0-9]*$`)
	nodeLeft   = regexp.MustCompile(`(?m)^# (?:skipped|todo|cancelled|fail) [1-9][0-9]*$`)
)

// javascript drives the JavaScript SDK, whose modules Node finds beside the suite.
func (d *daemon) javascript(t *testing.T, bin string) {
	t.Helper()
	dir := t.TempDir()
	suite, err := os.ReadFile("clients/js/sdk.test.mjs")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "sdk.test.mjs"), suite, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(os.Getenv("SANDBOXD_CLIENTS_MODULES"), filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	said, err := d.run(t, dir, d.variables(), filepath.Join(bin, "node"), "--test", "--test-reporter=tap", "--test-timeout=60000", "sdk.test.mjs")
	if err != nil || !nodePassed.MatchString(said) || nodeLeft.MatchString(said) {
		t.Errorf("node: %v\n%s\n\ndaemon:\n%s", err, said, tail(d.log.String()))
	}
}

// python drives a suite of ours by pytest, with the client's programs in front of the path.
func (d *daemon) python(t *testing.T, bin, suite string) {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("clients", suite))
	if err != nil {
		t.Fatal(err)
	}
	d.pytest(t, dir, filepath.Join(bin, "python"), []string{"-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout", "60", "-rA", "--tb=short"}, map[string]string{
		"OPEN_SANDBOX_DOMAIN": d.address, "OPEN_SANDBOX_API_KEY": d.key, "HOME": t.TempDir(), "PATH": bin + string(os.PathListSeparator) + os.Getenv("PATH"),
		"SANDBOXD_TEST_ALLOWED": allowedHost.String(), "SANDBOXD_TEST_DENIED": deniedHost.String(), "SANDBOXD_TEST_NEWEST_MCP": os.Getenv("SANDBOXD_CLIENTS_NEWEST"),
	})
}

// run runs a program to its end, and gives both of its outputs.
func (d *daemon) run(t *testing.T, dir string, env []string, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, name, args...)
	command.Dir, command.Env = dir, env
	out, err := command.CombinedOutput()
	return string(out), err
}
