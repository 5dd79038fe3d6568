package execd

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/policy"
)

// requireCgroup is set where a machine must have every controller: a test that skips there fails.
const requireCgroup = "SANDBOXD_REQUIRE_CGROUP"

// need skips where the host can't give groups a controller, or with none named, where it can't give them at all.
func need(t *testing.T, s *Service, controllers ...string) {
	t.Helper()
	host := s.host.Cgroup
	have := host.Base != "" && host.Kill
	for _, controller := range controllers {
		have = have && slices.Contains(host.Controllers, controller)
	}
	switch {
	case have:
	case os.Getenv(requireCgroup) != "":
		t.Fatalf("%s wants %q of %+v", requireCgroup, controllers, host)
	default:
		t.Skipf("no groups with %q here: %s", controllers, host.Why)
	}
}

// eat has 256 MiB touched by one process.
const eat = "dd if=/dev/zero of=/dev/null bs=256M count=1 2>/dev/null"

func TestMemoryLimit(t *testing.T) {
	c := testConfig(t)
	c.TmpBytes = 512 << 20
	s := start(t, c)
	need(t, s, "memory")
	for _, row := range []struct {
		name, script string
		want         Outcome
		status       int
		least, most  int64 // OOM kills
	}{
		{"within it", "dd if=/dev/zero of=/dev/null bs=16M count=1 2>/dev/null; exit 4", OutcomeError, 4, 0, 0},
		{"the leader", "exec " + eat, OutcomeOOM, 137, 1, 1},
		{"a child, and the leader would go on", eat + "; exit 0", OutcomeOOM, 137, 1, 100},
		{"a grandchild that left the session", "setsid sh -c '" + eat + "' & sleep 100", OutcomeOOM, 137, 1, 100},
		{"hidden in files", "exec dd if=/dev/zero of=/tmp/x bs=1M count=256 2>/dev/null", OutcomeOOM, 137, 1, 1},
		{"137 by itself", "exit 137", OutcomeError, 137, 0, 0},
		{"SIGKILL by itself", "kill -KILL $$", OutcomeSignaled, 137, 0, 0},
		// Whether the kernel is faster is a race; the leader's own end stands in either case.
		{"a child, when the leader has ended by itself", eat + " & exit 0", OutcomeOK, 0, 0, 100},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := shell(row.script)
			r.Limits.MemoryBytes = 64 << 20
			reply := s.Exec(t.Context(), r, Options{})
			mustBe(t, reply, row.want)
			if reply.ExitStatus() != row.status || reply.OOMKills < row.least || reply.OOMKills > row.most || !reply.TreeEmpty || reply.TimedOut {
				t.Errorf("status %d, want %d; oomKills %d, want %d..%d; treeEmpty %t, timedOut %t", reply.ExitStatus(), row.status, reply.OOMKills, row.least, row.most, reply.TreeEmpty, reply.TimedOut)
			}
			records := readLog(t, c)
			last := records[len(records)-1]
			if last.Type != audit.TypeOutcome || last.Ending == nil || last.Ending.Outcome != string(row.want) || last.Ending.OOMKills != reply.OOMKills {
				t.Errorf("record %+v", last)
			}
		})
	}
}

// The limits are those of the group that the process is in, when it runs: read here, not by the daemon, and by the kernel's list of its members. The
// process itself sees no path of it, since it has a cgroup namespace.
func TestLimitsAreInForceAfterExecve(t *testing.T) {
	s := start(t, testConfig(t))
	need(t, s, "memory", "cpu", "pids")
	r := shell("echo here; sleep 100")
	r.Limits.MemoryBytes, r.Limits.CPU, r.Limits.Pids, r.Limits.CPUSeconds = 64<<20, 0.5, 20, 10
	want := map[string]string{
		"memory.max": "67108864", "memory.swap.max": "0", "memory.oom.group": "1", "cpu.max": "50000 100000", "pids.max": "20",
	}
	ctx, cancel := context.WithCancel(t.Context())
	sink := &startedSink{started: func() {
		defer cancel()
		running := s.running.all(nil)
		if len(running) != 1 || running[0].plan.Kill != enforcer.KillCgroup {
			t.Errorf("%d run, or not in a group of their own", len(running))
			return
		}
		dir, pid := execGroup(t, running[0]), strconv.Itoa(running[0].child.PID())
		for name, value := range want {
			if got, err := os.ReadFile(filepath.Join(dir, name)); strings.TrimSpace(string(got)) != value {
				t.Errorf("%s is %q, want %q; %v", name, got, value, err)
			}
		}
		if members, err := os.ReadFile(filepath.Join(dir, "cgroup.procs")); !slices.Contains(strings.Fields(string(members)), pid) {
			t.Errorf("%s isn't among %q of %s: %v", pid, members, dir, err)
		}
	}}
	reply := s.Exec(ctx, r, Options{Rows: true, Sink: sink})
	mustBe(t, reply, OutcomeCancelled)
	for name, value := range want {
		i := slices.IndexFunc(reply.Verdict.Rows, func(row policy.Row) bool { return row.Control == "cgroup."+name })
		if i < 0 || reply.Verdict.Rows[i].Got != value || !reply.Verdict.Rows[i].Held || reply.Verdict.Rows[i].Evidence != policy.EvidenceKernel {
			t.Errorf("%s isn't in the verdict as %q: %+v", name, value, reply.Verdict.Rows)
		}
	}
	if i := slices.IndexFunc(reply.Verdict.Rows, func(row policy.Row) bool { return row.Control == "rlimit.cpu" }); i < 0 || !reply.Verdict.Rows[i].Held {
		t.Error("no row rlimit.cpu")
	}
}

// startedSink hears that the program runs: it has written something.
type startedSink struct {
	once    sync.Once
	started func()
}

func (*startedSink) Decision(policy.Decision) {}

func (s *startedSink) Output(string, []byte) { s.once.Do(s.started) }

func TestPidsLimit(t *testing.T) {
	s := start(t, testConfig(t))
	need(t, s, "pids")
	r := shell("i=0; while [ $i -lt 40 ]; do sleep 100 & i=$((i+1)); done; echo all")
	r.Limits.Pids = 10
	reply := s.Exec(t.Context(), r, Options{})
	mustBe(t, reply, OutcomeError)
	if stdout, stderr := reply.Output(); len(stdout) > 0 || !strings.Contains(strings.ToLower(string(stderr)), "fork") || !reply.TreeEmpty {
		t.Errorf("stdout %q, stderr %q", stdout, stderr)
	}
	r.Limits.Pids = 60
	reply = s.Exec(t.Context(), r, Options{})
	mustBe(t, reply, OutcomeOK)
}

// cpu bounds how fast, not how much: the clock ends it.
func TestCPULimit(t *testing.T) {
	s := start(t, testConfig(t))
	need(t, s, "cpu")
	r := shell("while :; do :; done")
	r.Limits.CPU, r.Limits.TimeoutSeconds = 0.2, 2
	reply := s.Exec(t.Context(), r, Options{})
	mustBe(t, reply, OutcomeTimeout)
	if used := reply.Usage.CPUSeconds; used > 0.3*reply.DurationSeconds || reply.Message != "" {
		t.Errorf("%.2f s of processor time in %.2f s; message %q", used, reply.DurationSeconds, reply.Message)
	}
}

func TestCPUSeconds(t *testing.T) {
	c := testConfig(t)
	s := start(t, c)
	need(t, s)
	const burn = "while :; do :; done"
	for _, row := range []struct{ name, script string }{
		{"the leader", burn},
		{"several, each a part", "for i in 1 2 3; do (" + burn + ") & done; wait"},
		{"one that left the session, while the leader sleeps", "setsid sh -c '" + burn + "' & sleep 100"},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := shell("echo begun; " + row.script)
			r.Limits.CPUSeconds = 0.5
			reply := s.Exec(t.Context(), r, Options{Rows: true})
			mustBe(t, reply, OutcomeTimeout)
			stdout, _ := reply.Output()
			if reply.ExitStatus() != 124 || !reply.TimedOut || !reply.TreeEmpty || string(stdout) != "begun\n" || !strings.Contains(reply.Message, "limits.cpuSeconds") {
				t.Errorf("%+v", reply)
			}
			if used := reply.Usage.CPUSeconds; used < 0.5 || used > 3 {
				t.Errorf("used %g s", used)
			}
			if !slices.ContainsFunc(reply.Verdict.Rows, func(row policy.Row) bool { return row.Control == "rlimit.cpu" && row.Held && row.Got != "unlimited" }) {
				t.Error("no row rlimit.cpu")
			}
			if records := readLog(t, c); records[len(records)-1].Message != reply.Message {
				t.Errorf("record %+v", records[len(records)-1])
			}
		})
	}
	t.Run("the clock is another limit", func(t *testing.T) {
		r := shell("sleep 100")
		r.Limits.CPUSeconds, r.Limits.TimeoutSeconds = 10, 0.5
		reply := s.Exec(t.Context(), r, Options{})
		mustBe(t, reply, OutcomeTimeout)
		if reply.Message != "" {
			t.Errorf("message %q", reply.Message)
		}
	})
	t.Run("what ends within it has ended by itself", func(t *testing.T) {
		r := shell("exit 3")
		r.Limits.CPUSeconds = 5
		mustBe(t, s.Exec(t.Context(), r, Options{}), OutcomeError)
	})
}

// Limits that need no group.
func TestFileLimits(t *testing.T) {
	s := start(t, testConfig(t))
	r := shell("exec dd if=/dev/zero of=/work/x bs=64k count=4 2>/dev/null")
	r.Limits.FileBytes = 128 << 10
	reply := s.Exec(t.Context(), r, Options{})
	mustBe(t, reply, OutcomeSignaled)
	if reply.Signal == nil || *reply.Signal != 25 { // SIGXFSZ
		t.Errorf("%+v", reply)
	}
	r = shell("ulimit -n; ulimit -Hn; ulimit -c; sh -c 'kill -SEGV $$'; ls /work")
	r.Limits.OpenFiles = 32
	reply = s.Exec(t.Context(), r, Options{})
	stdout, _ := reply.Output()
	if lines := strings.Fields(string(stdout)); len(lines) < 2 || lines[0] != "32" || lines[1] != "32" || slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "core") }) {
		t.Errorf("stdout %q", stdout)
	}
}
