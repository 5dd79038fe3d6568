package network

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/policy"
)

// hold opens connections to a server that speaks first, says which were answered and which were reset, and holds them: COUNT SECONDS.
const hold = `
import socket, sys, time
held, ends = [], []
for i in range(int(sys.argv[1])):
    try:
        s = socket.create_connection(("lines.example.net", 7000), timeout=10)
        ends.append("answered" if s.recv(5) == b"hello" else "ended")
        held.append(s)
    except ConnectionResetError:
        ends.append("reset")
print(*ends, flush=True)
time.sleep(float(sys.argv[2]))
`

// TestConnectionsAreCapped: one sandbox has so many connections at a time, and all together have so many. One more is reset at once, and recorded as what it was.
func TestConnectionsAreCapped(t *testing.T) {
	w := New(t)
	rules := spec(t, "allow lines.example.net 7000")
	d := startDaemon(t, w, []policy.NetworkSpec{rules}, "--sandbox-connections", "3", "--network-connections", "5")
	first, second := d.keep(t, rules), d.keep(t, rules)
	full := "relay: denied 198.18.0.1:7000: too many connections (rule -3)"

	holding := first.begin(t, python(hold, "5", "600")...)
	for deadline := time.Now().Add(30 * time.Second); w.Accepted(Lines, PortLines) < 3; time.Sleep(5 * time.Millisecond) { // polls the state that the test is about
		if time.Now().After(deadline) {
			t.Fatal("nothing is connected")
		}
	}
	if recorded, right := toldOf(full, func() []string { return first.recorded(t) }); !right {
		t.Errorf("on record is %q, want %q", recorded, full)
	}
	if said := second.run(t, python(hold, "3", "0")...); said != "answered answered reset exit 0" {
		t.Errorf("the second says %q", said)
	}
	if recorded, right := toldOf(full, func() []string { return second.recorded(t) }); !right {
		t.Errorf("on record is %q, want %q", recorded, full)
	}
	if accepted := w.Accepted(Lines, PortLines); accepted != 5 {
		t.Errorf("the host has taken %d connections, want 5", accepted)
	}
	first.end()
	<-holding
}

// TestDescriptorsAtStart: a daemon that may not open as many files as the connections that it is to carry doesn't start, and says what it takes.
func TestDescriptorsAtStart(t *testing.T) {
	bin, state := programs(t), t.TempDir()
	command := exec.CommandContext(t.Context(), "prlimit", "--nofile=4096:4096", filepath.Join(bin, "sandboxd"), "serve", "--socket", filepath.Join(state, "s"),
		"--state", filepath.Join(state, "state"), "--claim-file", filepath.Join(state, "ids"), "--network-connections", "5000")
	out, err := command.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "RLIMIT_NOFILE is 4096, 5000 connections need") {
		t.Errorf("%v: %s", err, out)
	}
}
