package execd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/test/kerneltest"
)

// The main thread is kept for the main goroutine: a thread that has entered another namespace ends with its goroutine, and the main one can't end.
func init() { runtime.LockOSThread() }

// driftConfig looks often.
func driftConfig(t *testing.T) Config {
	c := testConfig(t)
	c.DriftInterval, c.ProbeInterval = 20*time.Millisecond, 0
	return c
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("an ordinary user can't change a sandbox from outside")
	}
}

// enter does something with our privilege in a namespace of a process, on a thread that ends with it.
func enter(t *testing.T, pid int, namespace string, do func() error) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked
		if unix.Gettid() == unix.Getpid() {
			defer runtime.UnlockOSThread() // the main thread can't end: another is taken while this one is held
			enter(t, pid, namespace, do)
			done <- nil
			return
		}
		err := unix.Unshare(unix.CLONE_FS)
		file, opened := os.Open(fmt.Sprintf("/proc/%d/ns/%s", pid, namespace))
		if err = errors.Join(err, opened); err == nil {
			err = unix.Setns(int(file.Fd()), 0)
			file.Close()
		}
		if err == nil {
			err = do()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// runs starts an exec that goes on for long, and gives it when it runs.
func runs(t *testing.T, s *Service, r policy.Request) (*walk, <-chan Reply) {
	t.Helper()
	return runsWith(t, t.Context(), s, r)
}

// runsWith is runs of a caller who may go away.
func runsWith(t *testing.T, ctx context.Context, s *Service, r policy.Request) (*walk, <-chan Reply) {
	t.Helper()
	before := s.running.all(nil)
	replies := make(chan Reply, 1)
	go func() { replies <- s.Exec(ctx, r, Options{}) }()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) { // polls the state that the test is about
		for _, w := range s.running.all(nil) {
			if !slices.Contains(before, w) {
				return w, replies
			}
		}
		select {
		case reply := <-replies:
			t.Fatalf("it ended: %+v", reply)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatal("nothing runs")
		}
	}
}

// until waits for something that comes by itself.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !is(); time.Sleep(time.Millisecond) { // polls the state that the test is about
		if time.Now().After(deadline) {
			t.Fatal("never ", what)
		}
	}
}

func hasRow(rows []policy.Row, control string) bool {
	return slices.ContainsFunc(rows, func(r policy.Row) bool { return !r.Held && strings.HasPrefix(r.Control, control) })
}

// raise gives a process more descriptors than its plan.
func raise(t *testing.T, pid int) error {
	t.Helper()
	err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 5000, Max: 5000}, nil)
	if errors.Is(err, unix.EPERM) && probedHost(t).Capabilities&(1<<unix.CAP_SYS_RESOURCE) == 0 {
		t.Skip("this root has no CAP_SYS_RESOURCE, without which nobody raises a hard limit")
	}
	return err
}

func probedHost(t testing.TB) enforcer.Host {
	t.Helper()
	host, err := enforcer.ProbeHost(enforcer.HostConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return host
}

// moveAway takes a leader out of its cgroup.
func moveAway(t *testing.T, w *walk) error {
	execGroup(t, w)
	elsewhere, err := w.service.group.Sub("elsewhere", -1, true)
	if err != nil {
		return err
	}
	t.Cleanup(func() { elsewhere.Remove() })
	return elsewhere.Add(w.child.PID())
}

// execGroup is the directory of a walk's cgroup.
func execGroup(t *testing.T, w *walk) string {
	t.Helper()
	host := w.service.host.Cgroup
	if w.plan.Kill != enforcer.KillCgroup {
		t.Skip("no cgroup for an exec on this host: " + host.Why)
	}
	return filepath.Join(host.Base, strings.TrimPrefix(w.child.Expect().Cgroup, strings.TrimSuffix(host.Path, "/")))
}

// TestDriftKills changes from outside what runs, one thing at a time. It is killed for it, with all of its sandbox; the record and the reply have
// the row; and the service is ready again when the sandbox is gone.
func TestDriftKills(t *testing.T) {
	needRoot(t)
	for _, row := range []struct {
		name, control, where string
		change               func(*testing.T, *walk) error
	}{
		{"a limit is raised", "rlimit.nofile", "exec", func(t *testing.T, w *walk) error { return raise(t, w.child.PID()) }},
		{"something is mounted", "mount /tmp", "sandbox", func(t *testing.T, w *walk) error {
			enter(t, w.child.PID(), "mnt", func() error { return unix.Mount("evil", "/tmp", "tmpfs", 0, "") })
			return nil
		}},
		{"a mount becomes writable", "mount /", "sandbox", func(t *testing.T, w *walk) error {
			enter(t, w.box.PID(), "mnt", func() error { return unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND, "") })
			return nil
		}},
		{"it is moved out of its cgroup", "cgroup", "exec", moveAway},
		{"a limit of its cgroup is raised", "cgroup.pids.max", "exec", func(t *testing.T, w *walk) error {
			dir := execGroup(t, w)
			if _, planned := w.plan.Cgroup["pids.max"]; !planned {
				t.Skip("no controller for processes in this host's cgroup v2")
			}
			return os.WriteFile(filepath.Join(dir, "pids.max"), []byte("max"), 0)
		}},
		{"its memory is raised", "cgroup.memory.max", "exec", func(t *testing.T, w *walk) error {
			return os.WriteFile(filepath.Join(execGroup(t, w), "memory.max"), []byte("max"), 0)
		}},
	} {
		for _, kept := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/kept=%t", row.name, kept), func(t *testing.T) {
				c := driftConfig(t)
				s := start(t, c)
				r := shell("sleep 60 & sleep 60")
				if row.control == "cgroup.memory.max" {
					need(t, s, "memory")
					r.Limits.MemoryBytes = 64 << 20
				}
				if kept {
					box, err := s.sandboxes.create(t.Context(), Self(), rootSpec{}, "")
					if err != nil {
						t.Fatal(err)
					}
					r.Sandbox = box.id
				}
				w, replies := runs(t, s, r)
				if err := row.change(t, w); err != nil {
					t.Fatal(err)
				}
				reply := <-replies
				mustBe(t, reply, OutcomeMismatch)
				if !hasRow(reply.Verdict.Rows, row.control) || reply.Verdict.Held || !reply.TreeEmpty || reply.ExitCode != nil || !strings.Contains(reply.Message, "drift") {
					t.Errorf("reply %+v", reply)
				}
				until(t, "ready again", func() bool { return len(s.troubles()) == 0 })
				if got := s.Status(); got.Sandboxes.Drifted != 0 || got.Sandboxes.Kept != 0 {
					t.Errorf("%+v", got.Sandboxes)
				}
				if kept {
					mustBe(t, s.Exec(t.Context(), r, Options{}), OutcomeDenied)
				}
				mustBe(t, s.Exec(t.Context(), command("true"), Options{}), OutcomeOK)
				stop(t, s)
				drifts := slices.DeleteFunc(readLog(t, c), func(r audit.Record) bool { return r.Type != audit.TypeDrift })
				if len(drifts) != 1 {
					t.Fatalf("%d records of drift", len(drifts))
				}
				d := drifts[0]
				if d.Sandbox == "" || d.Verdict == nil || d.Verdict.Held || !hasRow(d.Verdict.Failed, row.control) || !strings.HasPrefix(d.Message, "kill: ") ||
					(d.Exec == reply.ID) != (row.where == "exec") {
					t.Errorf("%+v", d)
				}
			})
		}
	}
}

// member waits for the process of a walk's tree that is "sleep" of so many seconds. A shell on its way there still has the whole script in its command line.
func member(t *testing.T, w *walk, seconds string) (pid int) {
	t.Helper()
	until(t, "a process sleeps for "+seconds, func() bool {
		tree, err := w.child.Tree()
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range tree {
			if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", one)); string(line) == "sleep\x00"+seconds+"\x00" {
				pid = one
			}
		}
		return pid != 0
	})
	return pid
}

// TestDriftOfTheTree: a process far from the leader, in a session of its own and an orphan, is read as the leader is.
func TestDriftOfTheTree(t *testing.T) {
	needRoot(t)
	for _, row := range []struct {
		name, control string
		change        func(*testing.T, *walk, int) error
	}{
		{"a limit is raised", "rlimit.nofile", func(t *testing.T, _ *walk, pid int) error { return raise(t, pid) }},
		{"it is moved out of its cgroup", "cgroup", func(t *testing.T, w *walk, pid int) error {
			execGroup(t, w)
			elsewhere, err := w.service.group.Sub("elsewhere", -1, true)
			if err != nil {
				return err
			}
			t.Cleanup(func() { elsewhere.Remove() })
			return elsewhere.Add(pid)
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := driftConfig(t)
			s := start(t, c)
			w, replies := runs(t, s, shell("(setsid sleep 61 &); (true &); sleep 62 & sleep 60"))
			if err := row.change(t, w, member(t, w, "61")); err != nil {
				t.Fatal(err)
			}
			reply := <-replies
			mustBe(t, reply, OutcomeMismatch)
			if !hasRow(reply.Verdict.Rows, row.control) || !strings.Contains(reply.Message, "(process ") || !reply.TreeEmpty {
				t.Errorf("reply %+v", reply)
			}
			until(t, "ready again", func() bool { return len(s.troubles()) == 0 })
		})
	}
}

// TestDriftStopsTheTree: with no cgroup to freeze, every process of the exec is stopped by signals, those that its program makes meanwhile too.
func TestDriftStopsTheTree(t *testing.T) {
	needRoot(t)
	kerneltest.Require(t, kerneltest.Landlock(6)) // without a cgroup, as here, nothing else ends a tree
	c := driftConfig(t)
	c.OnDrift = DriftDeny
	s := start(t, c)
	s.host.Cgroup.Base = ""
	s.sandboxes.group, s.sandboxes.host = nil, s.host
	box, err := s.sandboxes.create(t.Context(), Self(), rootSpec{}, "")
	if err != nil {
		t.Fatal(err)
	}
	r := shell("(setsid sleep 61 &); i=0; while :; do (setsid sh -c 'sleep 0.01; sleep 0.01' &); i=$((i+1)); test $i -gt 50 && sleep 0.05; done")
	r.Sandbox = box.id
	w, replies := runs(t, s, r)
	if w.plan.Kill != enforcer.KillShepherd {
		t.Fatalf("kill %q", w.plan.Kill)
	}
	if err := raise(t, member(t, w, "61")); err != nil {
		t.Fatal(err)
	}
	until(t, "not ready", func() bool { return len(s.troubles()) == 1 })
	until(t, "stopped", func() bool {
		tree, err := w.child.Tree()
		if err != nil || len(tree) < 2 {
			t.Fatal(tree, err)
		}
		return !slices.ContainsFunc(tree, func(pid int) bool {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			return err != nil || !strings.Contains(string(stat), ") T ") && !strings.Contains(string(stat), ") Z ")
		})
	})
	if err := s.sandboxes.delete(t.Context(), box.id, Self()); err != nil {
		t.Fatal(err)
	}
	reply := <-replies
	mustBe(t, reply, OutcomeMismatch)
	if !hasRow(reply.Verdict.Rows, "rlimit.nofile") || !reply.TreeEmpty {
		t.Errorf("%+v", reply)
	}
}

// TestDriftDenies: what drifted stays where it is, frozen, for those who want to look; nothing is started beside it; and the service isn't ready
// until its sandbox is gone.
func TestDriftDenies(t *testing.T) {
	needRoot(t)
	c := driftConfig(t)
	c.OnDrift = DriftDeny
	s := start(t, c)
	box, err := s.sandboxes.create(t.Context(), Self(), rootSpec{}, "")
	if err != nil {
		t.Fatal(err)
	}
	r := shell("sleep 60 & sleep 60")
	r.Sandbox = box.id
	w, replies := runs(t, s, r)
	if err := moveAway(t, w); err != nil {
		t.Fatal(err)
	}
	until(t, "not ready", func() bool { return len(s.troubles()) == 1 })
	if trouble := s.troubles()[0]; !strings.Contains(trouble, box.id) || !strings.Contains(trouble, "cgroup") {
		t.Error(trouble)
	}
	// What stayed in the group is frozen with it; the leader, which didn't, is stopped.
	group := execGroup(t, w)
	until(t, "frozen", func() bool {
		events, err := os.ReadFile(filepath.Join(group, "cgroup.events"))
		stat, failed := os.ReadFile(fmt.Sprintf("/proc/%d/stat", w.child.PID()))
		return err == nil && failed == nil && strings.Contains(string(events), "frozen 1") && strings.Contains(string(stat), ") T ")
	})
	if reply := s.Exec(t.Context(), r, Options{}); reply.Outcome != OutcomeDenied || !strings.Contains(reply.Reasons[0].Message, "drifted") {
		t.Errorf("beside it: %+v", reply)
	}
	mustBe(t, s.Exec(t.Context(), command("true"), Options{}), OutcomeOK) // elsewhere
	select {
	case reply := <-replies:
		t.Fatalf("it ended: %+v", reply)
	default:
	}
	if err := s.sandboxes.delete(t.Context(), box.id, Self()); err != nil {
		t.Fatal(err)
	}
	reply := <-replies
	mustBe(t, reply, OutcomeMismatch)
	if !hasRow(reply.Verdict.Rows, "cgroup") || !reply.TreeEmpty {
		t.Errorf("%+v", reply)
	}
	until(t, "ready again", func() bool { return len(s.troubles()) == 0 })
}

// TestDriftInThePool: a sandbox that drifts before anybody uses it is never given away.
func TestDriftInThePool(t *testing.T) {
	needRoot(t)
	c := driftConfig(t)
	c.Pool = 1
	s := start(t, c)
	until(t, "filled", func() bool { return len(s.sandboxes.alive(nil)) == 1 && len(s.sandboxes.ready) == 1 })
	drifter := s.sandboxes.alive(nil)[0]
	enter(t, drifter.PID(), "uts", func() error { return unix.Sethostname([]byte("evil")) })
	until(t, "gone", func() bool { return isGone(drifter) })
	until(t, "filled again", func() bool { return len(s.sandboxes.ready) == 1 && len(s.troubles()) == 0 })
	reply := s.Exec(t.Context(), shell("cat /proc/sys/kernel/hostname"), Options{})
	mustBe(t, reply, OutcomeOK)
	if stdout, _ := reply.Output(); string(stdout) != "sandbox\n" {
		t.Errorf("%q", stdout)
	}
}

// TestDriftAtTheGate: what drifts between the read-back and the release isn't released.
func TestDriftAtTheGate(t *testing.T) {
	c := driftConfig(t)
	s := start(t, c)
	w, err := s.enter(t.Context(), shell("echo ran"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, arrow := range []func() error{w.decide, w.build, w.prepare, w.check, w.record} {
		if err := arrow(); err != nil {
			t.Fatal(err)
		}
	}
	w.box.drift.Store(&drift{[]policy.Row{{Control: "mount /usr", Want: "a", Got: "b"}}, "sandbox"})
	err = w.release()
	if err == nil {
		t.Fatal("released")
	}
	reply := w.fail(err)
	s.leave(w)
	mustBe(t, reply, OutcomeMismatch)
	if reply.Bytes.Stdout != 0 || reply.DurationSeconds != 0 || !hasRow(reply.Verdict.Rows, "mount /usr") {
		t.Errorf("%+v", reply)
	}
}

// TestNoDrift: what a program may do to itself is none, however often one looks, and neither is its end.
func TestNoDrift(t *testing.T) {
	c := driftConfig(t)
	c.DriftInterval = 10 * time.Millisecond
	c.Pool = 2
	s := start(t, c)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for _, script := range []string{
				"ulimit -n 64; cd /tmp; umask 077; exec 9</etc/passwd; trap '' INT TERM; sleep 0.3",
				"for i in 1 2 3 4 5 6 7 8 9 10; do (true & true); done",
				"setsid sleep 60 & sleep 0.1",
				// Threads that come and go while they are read.
				"test ! -x /usr/bin/python3 || exec /usr/bin/python3 -c 'import threading\nfor i in range(400): t = threading.Thread(target=int); t.start(); t.join()'",
				"exec sleep 0.2",
				"exit 3",
			} {
				reply := s.Exec(t.Context(), shell(script), Options{})
				if reply.Outcome != OutcomeOK && reply.Outcome != OutcomeError {
					t.Errorf("%s: %s: %s", script, reply.Outcome, reply.Message)
				}
			}
		})
	}
	all.Wait()
	if troubles := s.troubles(); len(troubles) != 0 {
		t.Error(troubles)
	}
}
