package faults

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// crowd is how many ask at the same moment.
const crowd = 10_000

// TestCrowd: of ten thousand requests at once as many run as may, every other one is told at once to come again, and the daemon's memory stays
// about where it was.
func TestCrowd(t *testing.T) {
	needRoot(t)
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Cur < crowd+200 {
		t.Skipf("needs %d descriptors for the clients, has %d (%v)", crowd+200, limit.Cur, err)
	}
	d := start(t, binaries(t, ""), stateDir(t))
	if got := d.exec(t, `"argv":["true"]`, ""); got.Outcome != "ok" {
		t.Fatalf("%+v", got)
	}
	before := d.memory(t, "VmHWM")
	// Few goroutines with many connections each: all are open before any is read, and none is closed by us before the last has its answer.
	const groups = 20
	var count [groups]map[string]int
	var conns [groups][]net.Conn
	var asking, answered sync.WaitGroup
	asking.Add(groups)
	began := time.Now()
	for i := range groups {
		answered.Go(func() {
			for range crowd / groups {
				conns[i] = append(conns[i], d.connect(t))
			}
			asking.Done()
			asking.Wait()
			count[i] = map[string]int{}
			for _, conn := range conns[i] {
				count[i][answerOf(conn)]++
			}
		})
	}
	answered.Wait()
	took := time.Since(began)
	total := map[string]int{}
	for i := range groups {
		for answer, n := range count[i] {
			total[answer] += n
		}
		for _, conn := range conns[i] {
			conn.Close()
		}
	}
	after := d.memory(t, "VmHWM")
	t.Logf("%v in %v; memory %d -> %d KiB", total, took, before, after)
	if total["ok"] < 16 || total["busy"] == 0 || total["ok"]+total["busy"] != crowd {
		t.Errorf("answers %v: want ok and busy only", total)
	}
	if after-before > 48<<10 {
		t.Errorf("the crowd took %d KiB", after-before)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) { // the last of the crowd is being let go
		got := d.exec(t, `"argv":["echo","ran"]`, "")
		if got.Outcome == "ok" && got.Stdout == "ran\n" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("afterwards: %+v", got)
		}
	}
	d.stop(t)
}

// connect makes a connection and asks. Where the kernel has no room for another one in the socket's queue it tries again: that is not the daemon's
// answer. Nor is it ours that a connection which has its answer already takes no more.
func (d *daemon) connect(t *testing.T) net.Conn {
	for {
		conn, err := net.Dial("unix", d.socket)
		if errors.Is(err, syscall.EAGAIN) {
			time.Sleep(time.Millisecond) // the queue is the kernel's, and tells nobody
			continue
		}
		if err != nil {
			t.Error(err)
			return nil
		}
		_, _ = io.WriteString(conn, strings.ReplaceAll(request(`{"command":{"argv":["true"]}}`), `\n`, "\r\n"))
		return conn
	}
}

// answerOf is what came of a request: "ok", "busy", or what it was.
func answerOf(conn net.Conn) string {
	if conn == nil {
		return "no connection"
	}
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	response, err := http.ReadResponse(bufio.NewReaderSize(conn, 512), nil)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	switch text := string(data); {
	case err != nil:
		return err.Error()
	case response.StatusCode == 200 && strings.Contains(text, `"outcome":"ok"`):
		return "ok"
	case response.StatusCode == 429 && strings.Contains(text, `"BUSY"`):
		return "busy"
	default:
		return response.Status
	}
}

// memory is a line of the daemon's status, in KiB.
func (d *daemon) memory(t testing.TB, line string) int {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.Process.Pid))
	if err != nil {
		t.Fatalf("%v\n%s", err, d.log)
	}
	for text := range strings.Lines(string(data)) {
		if rest, found := strings.CutPrefix(text, line+":"); found {
			value, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				t.Fatal(err)
			}
			return value
		}
	}
	t.Fatalf("no %s", line)
	return 0
}
