package faults

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestNoDescriptors: a daemon that runs out of descriptors at any point of a request answers or closes the connection, runs nothing unproven,
// and works as before once there are some again.
func TestNoDescriptors(t *testing.T) {
	needRoot(t)
	t.Parallel()
	d := start(t, binaries(t, ""), stateDir(t), "--pool 0")
	if got := d.exec(t, `"argv":["true"]`, ""); got.Outcome != "ok" {
		t.Fatalf("%+v", got)
	}
	d.settles(t)
	open := d.descriptors(t)
	outcomes := map[string]int{}
	var idle []net.Conn
	for spare := range 26 { // from not even the connection to enough for all
		limit := unix.Rlimit{Cur: fewNumbers, Max: 1 << 12}
		if err := unix.Prlimit(d.Process.Pid, unix.RLIMIT_NOFILE, &limit, nil); err != nil {
			t.Fatal(err)
		}
		idle = d.spare(t, idle, spare)
		got := d.patient(t, fmt.Sprintf(`{"command":{"argv":["echo","ran","%s"]}}`, d.marker))
		switch {
		case got.err != nil:
			outcomes["no answer"]++
		case got.Outcome == "ok" && strings.HasPrefix(got.Stdout, "ran"), got.Outcome == "infra" && got.Stdout == "", got.Outcome == "mismatch" && got.Stdout == "",
			got.Code == "INTERNAL":
			outcomes[got.Outcome+got.Code]++
		default:
			t.Errorf("%d descriptors to spare: %+v", spare, got)
		}
		d.alive(t)
	}
	t.Log(outcomes)
	if outcomes["infra"] == 0 || outcomes["ok"] == 0 {
		t.Errorf("outcomes %v: want some that failed for want of descriptors and some that had enough", outcomes)
	}
	if err := unix.Prlimit(d.Process.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1 << 12, Max: 1 << 12}, nil); err != nil {
		t.Fatal(err)
	}
	for _, conn := range idle {
		conn.Close()
	}
	if got := d.exec(t, `"argv":["echo","ran"]`, ""); got.Outcome != "ok" || got.Stdout != "ran\n" {
		t.Errorf("with descriptors again: %+v\n%s", got, d.log)
	}
	d.settles(t)
	now := d.descriptors(t)
	for deadline := time.Now().Add(10 * time.Second); now > open+2 && time.Now().Before(deadline); now = d.descriptors(t) {
		time.Sleep(10 * time.Millisecond) // it closes its ends of the connections when it hears of ours
	}
	if now > open+2 {
		t.Errorf("%d descriptors before, %d after", open, now)
	}
	d.stop(t)
}

// patient posts an exec and gives up when the daemon can't even accept.
func (d *daemon) patient(t *testing.T, body string) reply {
	t.Helper()
	done := make(chan reply, 1)
	go func() { done <- d.post(t.Context(), "/v1/exec", body) }()
	select {
	case got := <-done:
		return got
	case <-time.After(2 * time.Second):
		// It waits for a descriptor: one more lets it in, and the answer is worth what any answer is.
		limit := unix.Rlimit{Cur: 1 << 12, Max: 1 << 12}
		if err := unix.Prlimit(d.Process.Pid, unix.RLIMIT_NOFILE, &limit, nil); err != nil {
			t.Fatal(err)
		}
		return <-done
	}
}

func (d *daemon) alive(t *testing.T) {
	t.Helper()
	select {
	case <-d.ended:
		t.Fatalf("the daemon died: %v\n%s", d.ProcessState, d.log)
	default:
	}
}

func (d *daemon) entries(t testing.TB) []os.DirEntry {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", d.Process.Pid))
	if err != nil {
		t.Fatalf("%v\n%s", err, d.log)
	}
	return entries
}

func (d *daemon) descriptors(t testing.TB) int { return len(d.entries(t)) }

// fewNumbers is the limit: a little more than the daemon's copy of its launcher needs, which has a number above 64.
const fewNumbers = 80

// spare has idle connections take all numbers below the limit but so many.
func (d *daemon) spare(t testing.TB, idle []net.Conn, spare int) []net.Conn {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) { // it accepts and closes when it does
		free := fewNumbers
		for _, entry := range d.entries(t) {
			if number, err := strconv.Atoi(entry.Name()); err == nil && number < fewNumbers {
				free--
			}
		}
		switch {
		case free == spare:
			return idle
		case free > spare:
			conn, err := net.Dial("unix", d.socket)
			if err != nil {
				t.Fatal(err)
			}
			idle = append(idle, conn)
		case len(idle) > 0:
			last := len(idle) - 1 // the highest numbers come free first, as they do in life
			idle[last].Close()
			idle = idle[:last]
		}
		time.Sleep(5 * time.Millisecond) // one at a time
	}
	t.Errorf("the daemon has never %d numbers to spare", spare)
	return idle
}

// settles waits until no sandbox is left: they end in the background.
func (d *daemon) settles(t testing.TB) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) { // polls what the test is about
		if len(d.left()) == 0 {
			return
		}
	}
	t.Errorf("sandboxes are still there: %v\n%s", d.left(), d.log)
}

// TestNoForks: where the kernel refuses the launcher another process, the exec is ours to have failed, not run less confined, and other
// sandboxes don't notice.
func TestNoForks(t *testing.T) {
	needRoot(t)
	t.Parallel()
	d := start(t, binaries(t, ""), stateDir(t), "--pool 0")
	box := d.makeSandbox(t)
	launchers := d.left()
	if len(launchers) != 1 {
		t.Fatalf("%d processes of one sandbox: %v", len(launchers), launchers)
	}
	pid, err := strconv.Atoi(filepath.Base(strings.Fields(launchers[0])[0]))
	if err != nil {
		t.Fatal(err)
	}
	// The limit counts the threads of the sandbox's own user: the launcher alone has more than this. That user may set it.
	visit(t, int(owner(t, pid)), "limit", strconv.Itoa(pid), "1")
	got := d.exec(t, `"argv":["echo","ran"]`, `,"sandbox":"`+box+`"`)
	if got.err != nil || got.Outcome != "infra" || got.Stdout != "" || !strings.Contains(got.Message, "start a worker") {
		t.Errorf("without forks: %+v, want infra that says so\n%s", got, d.log)
	}
	if got := d.exec(t, `"argv":["echo","ran"]`, ""); got.Outcome != "ok" {
		t.Errorf("in another sandbox: %+v", got)
	}
	d.deleteSandbox(t, box)
	d.stop(t)
}

// TestNoForksForTheDaemon: a daemon whose user has no process left can neither start a launcher nor a thread. It may say so or die of it, as Go
// programs do when the kernel refuses a thread; nothing runs, and another daemon starts on what it left.
func TestNoForksForTheDaemon(t *testing.T) {
	needRoot(t)
	t.Parallel()
	uid := int(ordinaryUser())
	d := ordinary(t, uint32(uid), binaries(t, ""), stateDir(t), "--pool 0")
	visit(t, uid, "limit", strconv.Itoa(d.Process.Pid), "1")
	got := d.exec(t, `"argv":["echo","ran"]`, "")
	if got.err == nil && (got.Outcome != "infra" || got.Stdout != "") {
		t.Errorf("%+v, want infra or no answer", got)
	}
	t.Logf("answer %+v", got)
	select {
	case <-d.ended:
	default:
		visit(t, uid, "limit", strconv.Itoa(d.Process.Pid), "1000")
		if got := d.exec(t, `"argv":["echo","ran"]`, ""); got.Outcome != "ok" || got.Stdout != "ran\n" {
			t.Errorf("with forks again: %+v\n%s", got, d.log)
		}
		d.kill(t)
	}
	d.nothingLeft(t)
	d.verify(t)
}
