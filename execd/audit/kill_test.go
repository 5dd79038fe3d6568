package audit

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// appendForever is the process that TestKilledWriter kills: eight appenders that print each number the log has acknowledged.
func appendForever(dir string) {
	l, err := Open(dir, Options{FileBytes: 20_000})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var mu sync.Mutex
	for range 8 {
		go func() {
			for {
				sequence, err := l.Append(context.Background(), Record{Type: TypeRelease, Exec: strings.Repeat("x", rand.IntN(300))})
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				mu.Lock()
				fmt.Println(sequence)
				mu.Unlock()
			}
		}()
	}
	select {}
}

// TestKilledWriter kills a writer at random moments, several times on one log: what it acknowledged is there, the chain holds, and the next
// writer goes on.
func TestKilledWriter(t *testing.T) {
	dir := t.TempDir()
	var acknowledged int64
	for range 6 {
		process := exec.Command(os.Args[0])
		process.Env = append(os.Environ(), "AUDIT_TEST_APPEND="+dir)
		process.Stderr = os.Stderr
		out, err := process.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := process.Start(); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(5*time.Second, func() { process.Process.Kill() })
		wait := 20 + rand.IntN(400)
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			sequence, err := strconv.ParseInt(lines.Text(), 10, 64)
			if err != nil {
				continue // cut through by the kill
			}
			acknowledged = max(acknowledged, sequence)
			if n == wait {
				process.Process.Kill()
			}
		}
		process.Wait()
		timer.Stop()
		report := mustVerify(t, dir)
		if !report.OK() || report.Last < acknowledged {
			t.Fatalf("after the kill: %+v, %+v; %d was acknowledged", report, report.Bad, acknowledged)
		}
	}
	if acknowledged < 100 {
		t.Errorf("only %d records were acknowledged", acknowledged)
	}
	l := mustOpen(t, dir, Options{})
	mustAppend(t, l, Record{Type: TypeStart})
	l.Close()
	if report := mustVerify(t, dir); !report.OK() || report.TornBytes != 0 {
		t.Errorf("at the end: %+v", report)
	}
}
