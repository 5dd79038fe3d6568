package execd

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/execd/audit"
)

// doomedDaemon is the process that TestKilledDaemon kills: it runs one exec after the other, several at once, until then.
func doomedDaemon(dir string) {
	c := DefaultConfig(dir)
	c.RunnerPath, c.ClaimFile = os.Getenv("EXECD_TEST_RUNNER"), filepath.Join(dir, "ids")
	c.FirstUID, c.UIDs = 700_000, 2000
	hastenPolicy(&c)
	s, err := New(context.Background(), c)
	if err != nil {
		fmt.Println("daemon:", err)
		os.Exit(1)
	}
	for range 3 {
		go func() {
			for {
				s.Exec(context.Background(), command("sleep", os.Getenv("EXECD_TEST_MARK")), Options{Sink: sayDecisions{}})
			}
		}()
	}
	select {}
}

// TestKilledDaemon kills a daemon at several moments. Nothing runs on, the log verifies, and the next daemon says what was interrupted.
func TestKilledDaemon(t *testing.T) {
	c := testConfig(t)
	c.FirstUID, c.UIDs = 702_000, 2000
	interrupted := 0
	for round := range 5 {
		mark := fmt.Sprintf("%d.%d", 1000+round, os.Getpid())
		process := exec.Command("/proc/self/exe")
		process.Env = append(os.Environ(), "EXECD_TEST_DAEMON="+c.StateDir, "EXECD_TEST_RUNNER="+c.RunnerPath, "EXECD_TEST_MARK="+mark)
		process.Stderr = os.Stderr
		out, err := process.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := process.Start(); err != nil {
			t.Fatal(err)
		}
		// The third decision says that the daemon is in the middle of it.
		lines := bufio.NewScanner(out)
		for n := 0; n < 3 && lines.Scan(); n++ {
			if strings.HasPrefix(lines.Text(), "daemon:") {
				t.Fatal(lines.Text())
			}
		}
		time.Sleep(time.Duration(round) * 40 * time.Millisecond) // a different moment each time
		if round == 4 {
			// However slow the machine is, one moment is that at which a program runs.
			until(t, "running", func() bool { return len(processesWith(t, mark)) > 0 })
		}
		if err := process.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		process.Wait()
		for deadline := time.Now().Add(10 * time.Second); len(processesWith(t, mark)) > 0; {
			if time.Now().After(deadline) {
				t.Fatalf("round %d: still running: %v", round, processesWith(t, mark))
			}
			time.Sleep(time.Millisecond) // polls the kernel's state, which the test is about
		}
		if report, err := audit.Verify(c.auditDir()); err != nil || !report.OK() {
			t.Fatalf("round %d: %+v, %+v, %v", round, report, report.Bad, err)
		}
		s := start(t, c)
		stop(t, s)
		records := readLog(t, c)
		open := map[string]bool{}
		for _, r := range records {
			switch r.Type {
			case audit.TypeRelease:
				open[r.Exec] = true
			case audit.TypeInterrupted:
				interrupted++
				delete(open, r.Exec)
			case audit.TypeOutcome:
				delete(open, r.Exec)
			}
		}
		if len(open) > 0 {
			t.Errorf("round %d: released and never ended: %v", round, open)
		}
	}
	if interrupted == 0 {
		t.Error("no exec was interrupted: the kills came too early")
	}
}

// processesWith finds the processes whose command line has a word.
func processesWith(t *testing.T, word string) []string {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		if words := strings.Split(string(data), "\x00"); slices.Contains(words, word) {
			found = append(found, path+" "+strings.Join(words, " "))
		}
	}
	return found
}
