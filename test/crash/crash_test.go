// Package crash kills the daemon at random moments and looks at what is left: no process of any sandbox, a log that verifies, and a daemon that
// starts again on the same state.
package crash

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/execd/audit"
)

const rounds = 12

// commands run while the daemon dies; each carries the marker in its command line, so that what is left of it can be found.
func commands(marker string) [][]string {
	return [][]string{
		{"sh", "-c", "sleep 60 # " + marker},
		{"sh", "-c", "setsid sh -c 'sleep 60 # " + marker + "' & setsid sleep 60 & trap '' TERM; wait # " + marker},
		{"true", marker},
		{"sh", "-c", "while :; do :; done # " + marker},
	}
}

func TestKillAtAnyMoment(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: the ordinary user's run has its own test of the launcher's end")
	}
	dir := t.TempDir()
	build(t, dir)
	state := filepath.Join(dir, "state")
	before := sandboxProcesses(t, "")
	for round := range rounds {
		marker := fmt.Sprintf("crash-%d-%d", os.Getpid(), round)
		socket := filepath.Join(dir, "s", fmt.Sprintf("%d.sock", round))
		daemon, log := start(t, dir, state, socket)
		ctx, cancel := context.WithCancel(t.Context())
		for _, argv := range commands(marker) {
			go hammer(ctx, socket, argv)
		}
		// Anywhere from the first request's decision to the middle of a busy second.
		time.Sleep(time.Duration(rand.IntN(400)) * time.Millisecond)
		if err := daemon.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = daemon.Wait()
		cancel()
		if left := waitGone(t, marker, before); len(left) > 0 {
			t.Fatalf("round %d: left behind: %v\n%s", round, left, log)
		}
		report, err := audit.Verify(filepath.Join(state, "audit"))
		if err != nil {
			t.Fatalf("round %d: the log: %v", round, err)
		}
		t.Logf("round %d: %+v", round, report)
	}
	// The daemon starts on what was left and answers.
	socket := filepath.Join(dir, "s", "last.sock")
	daemon, log := start(t, dir, state, socket)
	status, body := post(t.Context(), socket, []string{"echo", "alive"})
	if status != http.StatusOK || !strings.Contains(body, "alive") {
		t.Errorf("after %d crashes: %d %s\n%s", rounds, status, body, log)
	}
	_ = daemon.Process.Signal(syscall.SIGTERM)
	if err := daemon.Wait(); err != nil {
		t.Errorf("graceful stop: %v\n%s", err, log)
	}
	if left := waitGone(t, "", before); len(left) > 0 {
		t.Errorf("after a graceful stop: %v", left)
	}
}

func build(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{"sandboxd", "sandboxd-runner"} {
		cmd := exec.Command("go", "build", "-o", filepath.Join(dir, name), "../../cmd/"+name)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go build %s: %v\n%s", name, err, out)
		}
	}
}

// start runs the daemon until its socket answers.
func start(t *testing.T, dir, state, socket string) (*exec.Cmd, *strings.Builder) {
	t.Helper()
	log := new(strings.Builder)
	cmd := exec.Command(filepath.Join(dir, "sandboxd"), "serve", "--socket", socket, "--state", state)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	for range 200 {
		if response, err := client(socket).Get("http://sandboxd/readyz"); err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return cmd, log
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("the daemon wasn't ready in 4 s:\n%s", log)
	return nil, nil
}

func client(socket string) *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
}

// hammer sends one command after the other until the daemon is gone.
func hammer(ctx context.Context, socket string, argv []string) {
	for ctx.Err() == nil {
		if status, _ := post(ctx, socket, argv); status == 0 {
			return
		}
	}
}

// post answers status 0 when the daemon went away.
func post(ctx context.Context, socket string, argv []string) (int, string) {
	quoted := make([]string, len(argv))
	for i, word := range argv {
		quoted[i] = fmt.Sprintf("%q", word)
	}
	body := `{"command":{"argv":[` + strings.Join(quoted, ",") + `]}}`
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://sandboxd/v1/exec", strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client(socket).Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(text)
}

// waitGone gives the kernel two seconds to finish what it has begun, then returns what is still there.
func waitGone(t *testing.T, marker string, before map[string]bool) []string {
	t.Helper()
	var left []string
	for range 100 {
		left = left[:0]
		for line := range sandboxProcesses(t, marker) {
			if !before[line] {
				left = append(left, line)
			}
		}
		if len(left) == 0 {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return left
}

// sandboxProcesses are launchers, workers, and whatever carries the marker; but not the test itself.
func sandboxProcesses(t *testing.T, marker string) map[string]bool {
	t.Helper()
	found := make(map[string]bool)
	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		exe, _ := os.Readlink(entry + "/exe")
		cmdline, _ := os.ReadFile(entry + "/cmdline")
		if strings.Contains(exe, "sandboxd-runner") || marker != "" && strings.Contains(string(cmdline), marker) {
			found[entry+" "+exe+" "+string(cmdline)] = true
		}
	}
	return found
}
