package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// pointCall finds the points in the source, so that none is there that isn't tried.
var pointCall = regexp.MustCompile(`\bfault\("([a-z.]+)"( \+ step\.name)?\)`)

// launcherStep finds the names that the launcher's table adds to its point.
var launcherStep = regexp.MustCompile(`\{"([a-z]+)", (l\.)?[a-z]+\},`)

// points are all steps at which a process can be made to end, by the process that ends there; the daemon's in a change of a network apart.
func points(t *testing.T) (daemon, networks, sandbox []string) {
	t.Helper()
	files, err := filepath.Glob("../../execd/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"../../runner/*.go", "../../execd/audit/fault_on.go"} {
		more, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, more...)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range pointCall.FindAllSubmatch(source, -1) {
			names := []string{string(call[1])}
			if len(call[2]) > 0 {
				names = nil
				for _, step := range launcherStep.FindAllSubmatch(source, -1) {
					names = append(names, string(call[1])+string(step[1]))
				}
			}
			switch process, _, _ := strings.Cut(names[0], "."); process {
			case "launcher", "worker":
				sandbox = append(sandbox, names...)
			case "network":
				networks = append(networks, names...)
			default:
				daemon = append(daemon, names...)
			}
		}
	}
	slices.Sort(daemon)
	slices.Sort(networks)
	slices.Sort(sandbox)
	return slices.Compact(daemon), slices.Compact(networks), slices.Compact(sandbox)
}

// everything is a command that goes through every step: it has a tree with a member in a session of its own, outlives its time limit, and is
// killed. Who finds it running finds the marker.
const everything = `"argv":["sh","-c","setsid sleep 60 & sleep 60 # %s"]`

const halfASecond = `,"limits":{"timeoutSeconds":0.5}`

// TestDaemonDiesAtEachPoint: SIGKILL at every step of the walk leaves nothing running, a log that verifies, and a daemon that starts again, says
// of the exec that it was interrupted if it had been released, and works.
func TestDaemonDiesAtEachPoint(t *testing.T) {
	needRoot(t)
	bin := binaries(t, "fault")
	user := ordinaryUser()
	for name, way := range map[string]struct {
		start func(t *testing.T, state, point string) *daemon
		kept  bool
	}{
		"a fresh sandbox": {func(t *testing.T, state, point string) *daemon {
			return start(t, bin, state, "SANDBOXD_FAULT="+point, "--pool 0")
		}, false},
		"a kept sandbox": {func(t *testing.T, state, point string) *daemon {
			return start(t, bin, state, "SANDBOXD_FAULT="+point, "--pool 0")
		}, true},
		"an ordinary user's": {func(t *testing.T, state, point string) *daemon {
			return ordinary(t, user, bin, state, "SANDBOXD_FAULT="+point, "--pool 0")
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state := stateDir(t)
			names, _, _ := points(t)
			if len(names) < 20 {
				t.Fatalf("%d points: %v", len(names), names)
			}
			released := false
			for _, point := range names {
				d := way.start(t, state, point)
				if got := lastTypes(t, state); released && !slices.Contains(got, "interrupted") {
					t.Errorf("before %s: the next daemon recorded %v, want interrupted for what was released", point, got)
				}
				d.dieAt(t, point, way.kept)
				types := lastTypes(t, state)
				released = len(types) > 0 && types[len(types)-1] == "release"
			}
			d := way.start(t, state, "")
			if got := d.exec(t, `"argv":["echo","alive"]`, ""); got.Outcome != "ok" || got.Stdout != "alive\n" {
				t.Errorf("after all: %+v\n%s", got, d.log)
			}
			d.noGroups(t)
			d.stop(t)
		})
	}
}

// dieAt has the daemon do everything until it dies of the point.
func (d *daemon) dieAt(t *testing.T, point string, kept bool) {
	t.Helper()
	more, got := halfASecond, reply{}
	if kept {
		got = d.post(t.Context(), "/v1/sandboxes", "{}")
		more += `,"sandbox":"` + got.ID + `"`
	}
	if got.err == nil {
		got = d.exec(t, fmt.Sprintf(everything, d.marker), more)
	}
	if got.err == nil {
		t.Errorf("%s: answered %+v, want a daemon that dies\n%s", point, got, d.log)
		d.stop(t)
		return
	}
	d.awaitEnd(t)
	if status := d.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGKILL {
		t.Errorf("%s: the daemon ended by itself: %v\n%s", point, d.ProcessState, d.log)
	}
	d.nothingLeft(t)
	d.verify(t)
}

// TestDaemonDiesAsItStarts: the same while the pool is being filled, before or after anybody could connect.
func TestDaemonDiesAsItStarts(t *testing.T) {
	needRoot(t)
	t.Parallel()
	bin := binaries(t, "fault")
	state := stateDir(t)
	for _, point := range []string{"sandbox.spawned", "sandbox.sent", "sandbox.made"} {
		d := prepare(t, bin, state, "SANDBOXD_FAULT="+point)
		if err := d.Run(); err == nil {
			t.Errorf("%s: the daemon ended well\n%s", point, d.log)
		}
		d.nothingLeft(t)
		d.verify(t)
	}
	start(t, bin, state).stop(t)
}

// TestNoSandboxes: where no sandbox can be made, the daemon says so before anybody asks, fails what is asked all the same, and stops as it should.
func TestNoSandboxes(t *testing.T) {
	needRoot(t)
	t.Parallel()
	d := prepare(t, binaries(t, "fault"), stateDir(t), "SANDBOXD_FAULT=launcher.root")
	d.begin(t)
	d.awaitTrouble(t, "sandbox could not be made")
	if status, _ := d.get(t, "/healthz"); status != 200 {
		t.Errorf("healthz %d", status)
	}
	if got := d.exec(t, `"argv":["echo","ran"]`, ""); got.Outcome != "infra" || got.Stdout != "" {
		t.Errorf("%+v, want infra\n%s", got, d.log)
	}
	d.stop(t)
}

// TestSandboxDiesAtEachPoint: a launcher or worker that ends at any of its steps is told as a failure of ours, or doesn't show; nothing runs on,
// and the daemon goes on and stops as it should.
func TestSandboxDiesAtEachPoint(t *testing.T) {
	needRoot(t)
	t.Parallel()
	bin := binaries(t, "fault")
	state := stateDir(t)
	_, _, names := points(t)
	if len(names) < 15 {
		t.Fatalf("%d points: %v", len(names), names)
	}
	for _, name := range names {
		d := start(t, bin, state, "SANDBOXD_FAULT="+name, "--pool 0")
		got := d.exec(t, fmt.Sprintf(everything, d.marker), halfASecond)
		want := append([]string{"infra"}, alsoTold[name]...)
		if got.err != nil || !slices.Contains(want, got.Outcome) || !got.TreeEmpty {
			t.Errorf("%s: %+v, want outcome %v and an empty tree\n%s", name, got, want, d.log)
		}
		if status, _ := d.get(t, "/healthz"); status != 200 {
			t.Errorf("%s: health %d", name, status)
		}
		d.stop(t)
	}
	d := start(t, bin, state)
	if got := d.exec(t, `"argv":["echo","alive"]`, ""); got.Outcome != "ok" || got.Stdout != "alive\n" {
		t.Errorf("after all: %+v\n%s", got, d.log)
	}
	d.stop(t)
}

// alsoTold are other outcomes that are true when a process ends there.
var alsoTold = map[string][]string{
	"worker.exit":     {"timeout"}, // nobody heard of the leader's end, but it was we who killed it
	"worker.end":      {"timeout"}, // the leader's end has been told
	"worker.empty":    {"timeout"},
	"launcher.reaped": {"timeout"},  // of a worker that was let go
	"worker.spawned":  {"mismatch"}, // the second look finds a child with another parent before it finds none
}

// typeOf finds a record's type.
var typeOf = regexp.MustCompile(`"type":"([a-z]+)"`)

// lastTypes are the types of the records, from the last start but one's own records on: what the daemon before left and what this one made of it.
func lastTypes(t *testing.T, state string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(state, "audit", "audit-*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no log in %s: %v", state, err)
	}
	data, err := os.ReadFile(files[len(files)-1])
	if err != nil {
		t.Fatal(err)
	}
	var types []string
	for line := range strings.Lines(string(data)) {
		if found := typeOf.FindStringSubmatch(line); found != nil && strings.HasSuffix(line, "\n") {
			types = append(types, found[1])
		}
	}
	return types[max(0, len(types)-4):]
}

// noGroups: this daemon's start has cleared the groups of all that had ended by then. Daemons of tests beside this one end meanwhile.
func (d *daemon) noGroups(t *testing.T) {
	t.Helper()
	for _, dead := range deadGroups(t, d.began) {
		t.Errorf("a group of a daemon that died: %s", dead)
	}
}

// deadGroups are the groups of daemons that these tests started and that had ended by then.
func deadGroups(t *testing.T, then time.Time) []string {
	t.Helper()
	var dead []string
	for _, pattern := range []string{"/sys/fs/cgroup/sandboxd-*", "/sys/fs/cgroup/*/sandboxd-*"} {
		groups, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, group := range groups {
			var pid, start, namespace uint64
			if _, err := fmt.Sscanf(filepath.Base(group), "sandboxd-%d-%d-%d", &pid, &start, &namespace); err == nil && killed.before(pid, then) {
				dead = append(dead, group)
			}
		}
	}
	return dead
}
