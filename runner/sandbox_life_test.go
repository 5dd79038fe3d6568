package runner

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer"
)

// TestSandboxCloseEndsAll: when Close returns, everything in it has ended, what ignores signals in a session of its own too.
func TestSandboxCloseEndsAll(t *testing.T) {
	s := startSandbox(t, testConfig(t))
	w, err := s.worker(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if got := askWorker(t, s, w, "leave a daemon"); got["leave a daemon"] != "ok" {
		t.Fatal(got)
	}
	closeSandbox(t, s)
	// Every process that could still hold the other end is gone, so its end is there at once.
	raw, err := w.conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	raw.Control(func(fd uintptr) {
		if n, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_DONTWAIT); n != 0 || err != nil {
			t.Errorf("somebody holds the worker's socket still: %d, %v", n, err)
		}
	})
	if !ended(int(w.pidfd.Fd())) {
		t.Error("the worker lives")
	}
	select {
	case <-w.gone:
	default:
		t.Error("the worker isn't said to be gone")
	}
	s.dropWorker(w)
	if _, err := s.worker(context.Background()); !errors.Is(err, errSandboxGone) {
		t.Errorf("a worker of a closed sandbox: %v", err)
	}
	closeSandbox(t, s) // once more does no harm
}

// TestSandboxLauncherKilled: a sandbox whose launcher is killed is gone, and says so.
func TestSandboxLauncherKilled(t *testing.T) {
	s := startSandbox(t, testConfig(t))
	w, err := s.worker(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer s.dropWorker(w)
	if err := unix.Kill(s.PID(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.Gone():
	case <-time.After(10 * time.Second):
		t.Fatal("not gone")
	}
	if !ended(int(w.pidfd.Fd())) {
		t.Error("the worker lives")
	}
	if _, err := s.Verify(); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("read-back of a sandbox that is gone: %v", err)
	}
}

func TestSandboxWorkers(t *testing.T) {
	s := startSandbox(t, testConfig(t))
	ctx := context.Background()
	first, err := s.worker(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if parent := parentOf(t, first.pid); parent != s.PID() {
		t.Errorf("the worker's parent is %d, the launcher %d", parent, s.PID())
	}
	second, err := s.worker(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if first.pid == second.pid || first.inside == second.inside {
		t.Errorf("two workers, pids %d (%d) and %d (%d)", first.pid, first.inside, second.pid, second.inside)
	}
	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	if _, err := s.worker(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a third of two workers: %v", err)
	}
	s.putWorker(second)
	if again, err := s.worker(ctx); err != nil || again != second {
		t.Errorf("the idle worker isn't used again: %v", err)
	}
	s.dropWorker(second)
	select {
	case <-second.gone:
	case <-time.After(10 * time.Second):
		t.Fatal("a dropped worker isn't reported as reaped")
	}
	third, err := s.worker(ctx)
	if err != nil || third.pid == second.pid {
		t.Fatalf("after a worker was dropped: %v", err)
	}
	s.putWorker(third)
	unix.Kill(third.pid, unix.SIGKILL) // dies while idle
	<-third.gone
	fourth, err := s.worker(ctx)
	if err != nil || fourth == third {
		t.Fatalf("a dead idle worker was given out: %v", err)
	}
	s.dropWorker(fourth)
	s.dropWorker(first)
}

func parentOf(t *testing.T, pid int) int {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		t.Fatal(err)
	}
	return parent
}

// TestSandboxLeaksNothing: descriptors and goroutines of the daemon are what they were.
func TestSandboxLeaksNothing(t *testing.T) {
	c := testConfig(t)
	run := func() {
		s, err := Start(context.Background(), c)
		if err != nil {
			t.Fatal(err)
		}
		w, err := s.worker(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		s.putWorker(w)
		closeSandbox(t, s)
	}
	run() // the runtime's poller and pidfd probes open what they keep
	before := descriptors(t)
	for range 3 {
		run()
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
	goleak.VerifyNone(t, goleak.IgnoreCurrent())
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// TestSandboxStartFails: each error names its step, and nothing is left.
func TestSandboxStartFails(t *testing.T) {
	before := descriptors(t)
	for _, test := range []struct {
		name   string
		change func(*Config)
		want   func(error) bool
	}{
		{"a source that has gone", func(c *Config) {
			for i := range c.Plan.Root.Mounts {
				if c.Plan.Root.Mounts[i].Target == "/usr" {
					c.Plan.Root.Mounts[i].Source = "/usr-that-is-not-there"
				}
			}
		}, isStep("root", syscall.ENOENT)},
		{"a device that is none", func(c *Config) {
			for i := range c.Plan.Root.Mounts {
				if c.Plan.Root.Mounts[i].Target == "/dev/zero" {
					c.Plan.Root.Mounts[i].Source = "/dev/null"
					c.Plan.Root.Mounts[i].Device = true
				}
			}
		}, isMismatch("mount /dev/zero")}, // a real device, but not this one: the read-back says so
		{"a mask that isn't the null device", func(c *Config) {
			for i := range c.Plan.Root.Mounts {
				if c.Plan.Root.Mounts[i].Target == "/proc/keys" {
					c.Plan.Root.Mounts[i].Source = "/etc/services"
				}
			}
		}, isStep("root", 0)},
		{"a mask on nothing", func(c *Config) {
			for i := range c.Plan.Root.Mounts {
				if c.Plan.Root.Mounts[i].Target == "/proc/keys" {
					c.Plan.Root.Mounts[i].Target = "/proc/no-such-file"
				}
			}
		}, isStep("root", syscall.ENOENT)},
		{"a hostname too long", func(c *Config) { c.Plan.Hostname = strings.Repeat("x", 65) }, isStep("hostname", syscall.EINVAL)},
		{"a network that isn't its own", func(c *Config) {
			c.Plan.Namespaces = []string{"ipc", "mnt", "pid", "uts", "net"}
			c.Host.Namespaces["net"] = 1
			c.Plan.Namespaces[4] = "time"
		}, func(err error) bool { return err != nil && strings.Contains(err.Error(), "namespace") }},
	} {
		c := testConfig(t)
		test.change(&c)
		s, err := Start(context.Background(), c)
		if err == nil {
			closeSandbox(t, s)
		}
		if !test.want(err) {
			t.Errorf("%s: %v", test.name, err)
		}
		c.Binary.Close()
	}
	if after := descriptors(t); after > before+2 {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func isStep(step string, errno syscall.Errno) func(error) bool {
	return func(err error) bool {
		var failed *LauncherError
		return errors.As(err, &failed) && failed.Step == step && failed.Errno == errno
	}
}

func isMismatch(control string) func(error) bool {
	return func(err error) bool {
		var mismatch *MismatchError
		if !errors.As(err, &mismatch) {
			return false
		}
		failed := mismatch.Verdict.Failed()
		return len(failed) == 1 && failed[0].Control == control
	}
}

func TestSandboxStartCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s, err := Start(ctx, testConfig(t))
	if err == nil {
		closeSandbox(t, s)
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("started under an ended context: %v", err)
	}
}

func TestOpenBinary(t *testing.T) {
	dir := t.TempDir()
	fifo, open := filepath.Join(dir, "fifo"), filepath.Join(dir, "open")
	if err := errors.Join(unix.Mkfifo(fifo, 0o700), os.WriteFile(open, []byte("a program"), 0o700), os.Chmod(open, 0o702)); err != nil {
		t.Fatal(err)
	}
	// Whoever waits at the FIFO is let go, so that the test ends.
	release := time.AfterFunc(10*time.Second, func() {
		t.Error("waits for somebody to write to the FIFO")
		if f, err := os.OpenFile(fifo, os.O_RDWR, 0); err == nil {
			f.Close()
		}
	})
	defer release.Stop()
	for _, path := range []string{"/", "/dev/null", filepath.Join(dir, "none"), fifo, open} {
		if f, err := OpenBinary(path); err == nil {
			f.Close()
			t.Errorf("%s is a binary", path)
		}
	}
	binary, err := OpenBinary("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer binary.Close()
	if _, err := binary.WriteAt([]byte{0}, 0); err == nil {
		t.Error("written")
	}
	own := fmt.Sprint("/proc/self/fd/", binary.Fd())
	if f, err := os.OpenFile(own, os.O_RDWR, 0); err == nil { // root may open it; the seal refuses the write
		defer f.Close()
		if _, err := f.WriteAt([]byte{0}, 0); !errors.Is(err, syscall.EPERM) {
			t.Errorf("write to the sealed binary: %v", err)
		}
	}
	if err := os.Truncate(own, 0); err == nil {
		t.Error("truncated")
	}
}

// daemonName is argv[0] of a test program that is a daemon to be killed.
const daemonName = "doomed-daemon"

// doomedDaemon makes a sandbox with a runaway in it, says who lives, and waits for its end.
func doomedDaemon() int {
	t := &standalone{}
	c := testConfig(t)
	c.Logger = slog.New(slog.DiscardHandler)
	s, err := Start(context.Background(), c)
	if err != nil {
		fmt.Println("start:", err)
		return 1
	}
	w, err := s.worker(context.Background())
	if err != nil {
		fmt.Println("worker:", err)
		return 1
	}
	if got := askWorker(t, s, w, "leave a daemon"); got["leave a daemon"] != "ok" {
		fmt.Println("act:", got)
		return 1
	}
	fmt.Println("alive", s.PID(), w.pid)
	time.Sleep(time.Hour)
	runtime.KeepAlive(w)
	return 1
}

// standalone is what of a test the helpers need, outside of one.
type standalone struct{ testing.TB }

func (standalone) Helper()           {}
func (standalone) Cleanup(func())    {}
func (standalone) Output() io.Writer { return io.Discard }
func (standalone) Fatal(args ...any) { fmt.Println(args...); os.Exit(1) }
func (standalone) Fatalf(f string, args ...any) {
	fmt.Printf(f+"\n", args...)
	os.Exit(1)
}

// TestSandboxEndsWithDaemon kills the daemon, in a moment when it waits and in the middle of starts, and finds nothing left: the orphans come to
// this process, their subreaper, and the kernel says when there is none.
func TestSandboxEndsWithDaemon(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	defer unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	for _, delay := range []time.Duration{-1, 2 * time.Millisecond, 10 * time.Millisecond, 15 * time.Millisecond, 20 * time.Millisecond, 30 * time.Millisecond} {
		daemon := exec.Command("/proc/self/exe")
		daemon.Args = []string{daemonName}
		out, err := daemon.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := daemon.Start(); err != nil {
			t.Fatal(err)
		}
		var launcher, worker int
		if delay < 0 {
			line, err := bufio.NewReader(out).ReadString('\n')
			if _, scanErr := fmt.Sscanf(line, "alive %d %d", &launcher, &worker); scanErr != nil {
				t.Errorf("daemon said %q, %v", line, err)
			}
		} else {
			time.Sleep(delay) // not a wait for anything: a kill at an arbitrary moment
		}
		if err := daemon.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		daemon.Wait()
		reaped := reapOrphans(t)
		if delay < 0 && !slices.Equal(reaped, []int{launcher}) {
			t.Errorf("reaped %v, want the launcher %d", reaped, launcher)
		}
		if delay < 0 && unix.Kill(worker, 0) != unix.ESRCH {
			t.Errorf("worker %d lives on", worker)
		}
	}
}

// reapOrphans waits until this process has no child left. The first process of a PID namespace can't be reaped before all of it has ended.
func reapOrphans(t *testing.T) (reaped []int) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG|unix.WALL, nil)
		if err == unix.ECHILD {
			return reaped
		}
		if pid > 0 {
			reaped = append(reaped, pid)
		}
	}
	t.Fatal("orphans of the daemon live on")
	return nil
}

// TestOrdinaryUser runs the tests of sandboxes as a user without privilege: user namespaces take the place of root.
func TestOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("all tests here run as an ordinary user")
	}
	dir, err := os.MkdirTemp("/tmp", "sandboxd-test") // the checkout may be closed to that user
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "runner.test")
	data, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(program, data, 0o755), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(program, "-test.run=^(TestSandbox|TestOpenBinary)", "-test.v")
	command.Dir = dir
	command.Env = []string{"PATH=/usr/bin:/bin", "TMPDIR=/tmp"}
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 47000, Gid: 47000}}
	out, err := command.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestSandboxRoot") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestSandboxCgroup: launcher and workers are in the sandbox's group, from their first instruction or, where the kernel lets nobody cross the root
// of a cgroup namespace, before anything is started; what an exec sees of its place says nothing of the host; and the group is gone with the sandbox.
func TestSandboxCgroup(t *testing.T) {
	host := testHost(t).Cgroup
	if host.Base == "" || !host.Kill {
		t.Skip("no usable version 2 hierarchy: " + host.Why)
	}
	for _, test := range []struct {
		delegate      bool
		below, inside string
	}{{false, "", "/../exec-"}, {true, "/sandbox", "/exec-"}} {
		if host.NSDelegate && !test.delegate {
			continue
		}
		config := testConfig(t)
		group, err := host.Make(fmt.Sprint("sandboxd-test-", os.Getpid()), config.Plan.Outside.UID)
		if err != nil {
			t.Fatal(err)
		}
		config.Cgroup, config.Host.Cgroup.NSDelegate = group, test.delegate
		s := startSandbox(t, config)
		w, err := s.worker(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		want := group.Path() + test.below
		for _, pid := range []int{s.PID(), w.pid} {
			data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
			if err != nil || !strings.Contains(string(data), "0::"+want+"/workers\n") {
				t.Errorf("process %d is in %q, %v, want %s/workers", pid, data, err, want)
			}
		}
		s.dropWorker(w)
		plan := testPlan(t, s)
		plan.Kill, plan.Cgroup = enforcer.KillCgroup, map[string]string{}
		c := prepared(t, s, plan, testInvocation("cat /proc/self/cgroup"))
		if expect := c.Expect().Cgroup; !strings.HasPrefix(expect, want+"/exec-") {
			t.Errorf("the exec is to be in %s", expect)
		}
		if err := errors.Join(c.Release(), c.Started(context.Background())); err != nil {
			t.Fatal(err)
		}
		if exit := c.Wait(context.Background()); !strings.Contains(string(exit.Stdout.Data), "0::"+test.inside) || strings.Contains(string(exit.Stdout.Data), "sandboxd") {
			t.Errorf("an exec sees %q, want 0::%s", exit.Stdout.Data, test.inside)
		}
		path := filepath.Join(host.Mount, group.Path())
		if _, err := os.Stat(path); err != nil {
			t.Fatal(err)
		}
		closeSandbox(t, s)
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the group is left: %v", err)
		}
	}
}

// TestSandboxVerifyWhileStarting: a worker that is being started is no drift.
func TestSandboxVerifyWhileStarting(t *testing.T) {
	s := startSandbox(t, testConfig(t))
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if w, err := s.worker(context.Background()); err == nil {
				s.dropWorker(w)
			}
		}
	}()
	for range 50 {
		if verdict, err := s.Verify(); err != nil || !verdict.Held() {
			t.Errorf("%v %v", err, verdict.Failed())
		}
	}
	close(stop)
	<-done
}
