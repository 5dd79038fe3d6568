package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/enforcer/landlock"
	"github.com/sandboxd/sandboxd/enforcer/seccomp"
	"github.com/sandboxd/sandboxd/policy"
)

// testPlan confines a child of the test sandbox by everything that this host has but seccomp, whose compiler has tests of its own.
func testPlan(t testing.TB, s *Sandbox) enforcer.Plan {
	t.Helper()
	abi := landlock.ABI()
	plan := enforcer.Plan{
		Identity: s.Plan().Child, Umask: 0o22,
		RLimits:  []enforcer.RLimit{{Name: "nofile", Resource: syscall.RLIMIT_NOFILE, Value: 256}, {Name: "core", Resource: syscall.RLIMIT_CORE, Value: 1}},
		Landlock: landlock.For(abi, []landlock.PathRule{{Path: "/", Access: landlock.Read}, {Path: "/work", Access: landlock.Write}, {Path: "/dev/null", Access: landlock.Device}}, nil),
	}
	plan.LastCapability = 40
	if s.config.Host.UID == 0 {
		plan.SetIDs, plan.SetGroups, plan.DropBounding, plan.Securebits = true, true, true, 0xef
	}
	return kill(s, plan)
}

// testInvocation runs a shell line.
func testInvocation(line string) enforcer.Invocation {
	return enforcer.Invocation{Argv: []string{"sh", "-c", line}, Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin"}, Cwd: "/work"}
}

// run is one exec from beginning to end.
func run(t testing.TB, s *Sandbox, inv enforcer.Invocation, with IO) Exit {
	t.Helper()
	if with.OutputBytes == 0 {
		with.OutputBytes = 1 << 20
	}
	c, err := s.Prepare(context.Background(), testPlan(t, s), inv, with)
	if err != nil {
		t.Fatal("Prepare: ", err)
	}
	if err := c.Release(); err != nil {
		t.Fatal("Release: ", err)
	}
	if err := c.Started(context.Background()); err != nil {
		t.Error("Started: ", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return c.Wait(ctx)
}

// prepared is an exec at its gate.
func prepared(t testing.TB, s *Sandbox, plan enforcer.Plan, inv enforcer.Invocation) *Child {
	t.Helper()
	c, err := s.Prepare(context.Background(), plan, inv, IO{OutputBytes: 1 << 20})
	if err != nil {
		t.Fatal("Prepare: ", err)
	}
	return c
}

// both runs a test with either way of making a child.
func both(t *testing.T, test func(t *testing.T)) {
	for _, fork := range []bool{false, true} {
		t.Run(map[bool]string{false: "vfork", true: "fork"}[fork], func(t *testing.T) {
			plainFork = fork
			defer func() { plainFork = false }()
			test(t)
		})
	}
}

func TestExec(t *testing.T) {
	both(t, func(t *testing.T) {
		s := startSandbox(t, testConfig(t))
		for range 3 {
			got := run(t, s, testInvocation("cat; echo err >&2; exit 7"), IO{Stdin: []byte("in\n")})
			if !got.Known || got.Status.ExitStatus() != 7 || string(got.Stdout.Data) != "in\n" || string(got.Stderr.Data) != "err\n" || !got.TreeEmpty {
				t.Errorf("%+v", got)
			}
			if got.TreeEvidence != policy.EvidenceKernel || got.Killed || got.Duration <= 0 || got.Rusage.Maxrss == 0 {
				t.Errorf("%+v", got)
			}
		}
	})
}

// Without SO_PASSPIDFD, before 6.5, the sender's number is the kernel's too.
func TestExecWithoutPassPidfd(t *testing.T) {
	passPidfd = false
	defer func() { passPidfd = true }()
	s := startSandbox(t, testConfig(t))
	for range 3 {
		if got := run(t, s, testInvocation("echo hi"), IO{}); string(got.Stdout.Data) != "hi\n" || !got.TreeEmpty {
			t.Errorf("%+v", got)
		}
	}
}

func TestAtTheGate(t *testing.T) {
	s := startSandbox(t, testConfig(t))
	c := prepared(t, s, testPlan(t, s), testInvocation("exec sleep 5"))
	expect := c.Expect()
	if expect.PID != c.PID() || expect.StepsWalked != expect.StepsPlanned || expect.StepsPlanned < 30 {
		t.Errorf("%+v", expect)
	}
	root := s.config.Host.UID == 0
	for fd, want := range expect.FDs {
		if got, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", c.PID(), fd)); root && got != want {
			t.Errorf("descriptor %d is %s, want %s", fd, got, want)
		}
	}
	// What isn't dumpable belongs to root in /proc.
	if root && descriptorsOf(t, c.PID()) != len(expect.FDs) {
		t.Errorf("%d descriptors, want %d", descriptorsOf(t, c.PID()), len(expect.FDs))
	}
	if got, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", c.PID())); got != expect.Cwd {
		t.Errorf("cwd is %s, want %s", got, expect.Cwd)
	}
	for name, want := range map[string]string{
		"PPid": fmt.Sprint(expect.WorkerPID), "CapEff": "0000000000000000", "CapPrm": "0000000000000000", "CapInh": "0000000000000000",
		"CapAmb": "0000000000000000", "NoNewPrivs": "1", "SigIgn": "0000000000000000", "Threads": "1", "Umask": "0022",
	} {
		if got := statusLine(t, c.PID(), name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if root {
		uid := fmt.Sprint(s.Plan().Child.UID)
		for name, want := range map[string]string{"Uid": strings.Repeat(uid+"\t", 3) + uid, "Groups": "", "CapBnd": "0000000000000000"} {
			if got := statusLine(t, c.PID(), name); got != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
	}
	if err := c.Release(); err != nil {
		t.Fatal(err)
	}
	if err := c.Started(context.Background()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"SigBlk": "0000000000000000", "SigIgn": "0000000000000000", "SigCgt": "0000000000000000", "Name": ""} {
		if got := statusLine(t, c.PID(), name); want != "" && got != want && name != "SigCgt" {
			t.Errorf("after execve %s: %s, want %s", name, got, want)
		}
	}
	c.Kill()
	if exit := c.Wait(context.Background()); !exit.Killed || !exit.Status.Signaled() || !exit.TreeEmpty {
		t.Errorf("%+v", exit)
	}
	if err := c.Release(); err == nil {
		t.Error("a second release was taken")
	}
}

// What happens at a gate that isn't opened with one byte. Nothing of the target runs, and the sandbox works on.
func TestGateStaysShut(t *testing.T) {
	both(t, func(t *testing.T) {
		s := startSandbox(t, testConfig(t))
		for name, test := range map[string]func(*testing.T, *Child){
			"abort":  func(t *testing.T, c *Child) { c.Abort() },
			"closed": func(t *testing.T, c *Child) { c.gate.file.Close(); wantExit(t, c, exitGate) },
			"two bytes": func(t *testing.T, c *Child) {
				c.gate.file.Write([]byte{1, 1})
				s, err := c.gate.receive()
				if err != nil || s.kind != kindStep || c.unexpected(s).(*StepError).Step != "gate" {
					t.Errorf("%+v, %v: want a report of step gate", s, err)
				}
				wantExit(t, c, exitGate)
			},
			"killed": func(t *testing.T, c *Child) {
				killProcess(c.pidfd)
				waitEnded(t, c)
				if err := c.Release(); !errors.Is(err, os.ErrProcessDone) {
					t.Errorf("Release of a dead child: %v", err)
				}
				if exit := c.Wait(context.Background()); !exit.Known || exit.Status.Signal() != syscall.SIGKILL || !exit.TreeEmpty {
					t.Errorf("%+v", exit)
				}
			},
			"stopped and killed": func(t *testing.T, c *Child) {
				syscall.Kill(c.PID(), syscall.SIGSTOP)
				c.Kill()
				if exit := c.Wait(context.Background()); !exit.Known || exit.Status.Signal() != syscall.SIGKILL || !exit.TreeEmpty || !exit.Killed {
					t.Errorf("%+v", exit)
				}
			},
			"stopped and released": func(t *testing.T, c *Child) {
				syscall.Kill(c.PID(), syscall.SIGSTOP)
				if err := c.Release(); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
				defer cancel()
				if err := c.Started(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Started: %v", err)
				}
				c.Abort()
			},
		} {
			t.Run(name, func(t *testing.T) {
				c := prepared(t, s, testPlan(t, s), testInvocation("echo ran > /work/ran"))
				test(t, c)
				got := run(t, s, testInvocation("cat /work/ran"), IO{})
				if got.Status.ExitStatus() != 1 || len(got.Stdout.Data) != 0 || !got.TreeEmpty {
					t.Errorf("the target ran, or the sandbox doesn't work: %+v", got)
				}
			})
		}
	})
}

func wantExit(t *testing.T, c *Child, status int) {
	t.Helper()
	if exit := c.Wait(context.Background()); !exit.Known || exit.Status.ExitStatus() != status || !exit.TreeEmpty {
		t.Errorf("%+v, want exit status %d", exit, status)
	}
}

// waitEnded waits until the kernel says that the child has ended.
func waitEnded(t *testing.T, c *Child) {
	t.Helper()
	if !endsSoon(c.pidfd) {
		t.Fatal("the child lives")
	}
}

// endsSoon says whether a pidfd's process ends within five seconds. The runtime's own signals interrupt a poll.
func endsSoon(pidfd int) bool {
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); {
		polls := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
		if n, err := unix.Poll(polls, 5000); n == 1 || err != nil && !errors.Is(err, unix.EINTR) {
			return n == 1
		}
	}
	return false
}

// Where worker and child are of one uid the worker's end is the child's: the kernel sends PDEATHSIG.
func TestWorkerKilledOutside(t *testing.T) {
	both(t, func(t *testing.T) {
		w, k := outsideWorker(t), &kept{}
		c, err := outside(t, w, k, outsidePlan(), "echo ran")
		if err != nil {
			t.Fatal(err)
		}
		killProcess(int(w.pidfd.Fd()))
		waitEnded(t, c)
		if exit := c.Wait(context.Background()); exit.Known || exit.TreeEmpty || k.clean {
			t.Errorf("%+v, %+v: nobody was there to know", exit, k)
		}
	})
}

// Where they aren't, the kernel asks whether the worker may signal the child, and it may not. Then the daemon refuses the release, and kills.
func TestWorkerKilled(t *testing.T) {
	both(t, func(t *testing.T) {
		s := startSandbox(t, testConfig(t))
		for _, released := range []bool{false, true} {
			c := prepared(t, s, testPlan(t, s), testInvocation("exec sleep 60"))
			if released {
				if err := errors.Join(c.Release(), c.Started(context.Background())); err != nil {
					t.Fatal(err)
				}
			}
			killProcess(int(c.worker.pidfd.Fd()))
			if !endsSoon(int(c.worker.pidfd.Fd())) {
				t.Fatal("the worker lives")
			}
			if !released && c.Release() == nil {
				t.Error("a child without a worker was released")
			}
			watch, err := unix.PidfdOpen(c.PID(), 0)
			if err == nil {
				defer unix.Close(watch)
			}
			exit := c.Wait(context.Background())
			// Without the worker only a group can say that nobody is left.
			if exit.Known || exit.TreeEmpty != (s.config.Cgroup != nil) {
				t.Errorf("released %t: %+v: nobody was there to know", released, exit)
			}
			if err == nil && !endsSoon(watch) {
				t.Errorf("released %t: the child lives", released)
			}
			if got := run(t, s, testInvocation("echo again"), IO{}); string(got.Stdout.Data) != "again\n" {
				t.Errorf("%+v", got)
			}
		}
	})
}

func TestExecFails(t *testing.T) {
	both(t, func(t *testing.T) {
		s := startSandbox(t, testConfig(t))
		setup := "echo '#!/no/interpreter' > bad; echo 'no magic' > text; echo x > plain; chmod 755 bad text; mkdir -m 700 dir; printf '\\177ELF' > elf; chmod 755 elf"
		if got := run(t, s, testInvocation(setup), IO{}); got.Status != 0 {
			t.Fatalf("%+v", got)
		}
		for _, test := range []struct {
			argv0 string
			want  syscall.Errno
		}{
			{"no-such-program", syscall.ENOENT}, {"/no/such/program", syscall.ENOENT}, {"./bad", syscall.ENOENT}, {"./text", syscall.ENOEXEC},
			{"./plain", syscall.EACCES}, {"./dir", syscall.EACCES}, {"/work", syscall.EACCES}, {"./elf", syscall.ENOEXEC}, {"./plain/x", syscall.ENOTDIR},
			{"/" + strings.Repeat("x", 5000), syscall.ENAMETOOLONG},
		} {
			inv := testInvocation("")
			inv.Argv[0] = test.argv0
			err := started(t, s, testPlan(t, s), inv)
			var step *StepError
			if !errors.As(err, &step) || step.Step != "execve" || step.Errno != test.want || step.Control {
				t.Errorf("%.40s: %v, want execve: %v", test.argv0, err, test.want)
			}
		}
		inv := testInvocation("true")
		inv.Cwd = "/nowhere"
		var step *StepError
		if err := started(t, s, testPlan(t, s), inv); !errors.As(err, &step) || step.Step != "chdir" || step.Errno != syscall.ENOENT {
			t.Errorf("%v, want chdir: ENOENT", err)
		}
	})
}

// started goes up to execve, and ends the exec.
func started(t *testing.T, s *Sandbox, plan enforcer.Plan, inv enforcer.Invocation) error {
	t.Helper()
	c, err := s.Prepare(context.Background(), plan, inv, IO{OutputBytes: 1 << 10})
	if err != nil {
		return err
	}
	defer func() {
		if exit := c.Wait(context.Background()); !exit.TreeEmpty || !exit.Known {
			t.Errorf("%+v", exit)
		}
	}()
	if err := c.Release(); err != nil {
		return err
	}
	return c.Started(context.Background())
}

func TestPlanThatCannotBeWalked(t *testing.T) {
	s := startSandbox(t, testConfig(t))
	plan := testPlan(t, s)
	kill := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_EXECVEAT},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_KILL_PROCESS},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := func(filters []unix.SockFilter) (p seccomp.Program) {
		for _, f := range filters {
			p = append(p, seccomp.Instruction{Code: f.Code, JT: f.Jt, JF: f.Jf, K: f.K})
		}
		return p
	}
	for _, test := range []struct {
		name string
		want string
		edit func(*enforcer.Plan)
	}{
		{"hard limit above ours", "step rlimit.nofile: EPERM", func(p *enforcer.Plan) { p.RLimits[0].Value = 1 << 40 }},
		{"filter without an end", "step plan: ", func(p *enforcer.Plan) { p.Seccomp.Program = program(kill[:1]) }},
		{"filter that refuses less than its probe", "step probe.seccomp.getpid: ", func(p *enforcer.Plan) {
			p.Seccomp = seccomp.Filter{Program: program(kill[3:]), Probes: []seccomp.Probe{{Name: "getpid", Nr: unix.SYS_GETPID, Errno: int(unix.EPERM)}}}
		}},
		{"filter that kills on write", "child died before its gate: signal bad system call", func(p *enforcer.Plan) {
			filter := slices.Clone(kill)
			filter[1].K = unix.SYS_WRITE
			p.Seccomp.Program = program(filter)
		}},
		{"filter that kills on execve", "child died before execve: signal bad system call", func(p *enforcer.Plan) { p.Seccomp.Program = program(kill) }},
		{"no process", "step execve: EAGAIN", func(p *enforcer.Plan) {
			p.RLimits = append(slices.Clone(p.RLimits), enforcer.RLimit{Name: "nproc", Resource: unix.RLIMIT_NPROC})
		}},
		{"a path that isn't there", "step landlock.create: ", func(p *enforcer.Plan) {
			p.Landlock.Paths = append(slices.Clone(p.Landlock.Paths), landlock.PathRule{Path: "/nowhere", Access: landlock.Read})
		}},
	} {
		p := plan
		p.RLimits = slices.Clone(plan.RLimits)
		test.edit(&p)
		err := started(t, s, p, testInvocation("true"))
		if err == nil && test.name == "no process" {
			continue // the uid has no process besides this one in its user namespace, and is let through
		}
		if !strings.Contains(fmt.Sprint(err), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
		if got := run(t, s, testInvocation("echo again"), IO{}); string(got.Stdout.Data) != "again\n" {
			t.Fatalf("%s: afterwards %+v", test.name, got)
		}
	}
}

// A message that is larger than a packet goes another way.
func TestLargeInvocation(t *testing.T) {
	both(t, func(t *testing.T) {
		s := startSandbox(t, testConfig(t))
		inv := testInvocation("echo $# ${#B}; shift 5; echo ${#1}; case $1 in *[!g]*) echo other;; esac")
		for i := range 10 {
			inv.Argv = append(inv.Argv, strings.Repeat(string(rune('a'+i)), 100_000))
		}
		inv.Env = append(inv.Env, "B="+strings.Repeat("b", 120_000))
		for range 2 {
			if got := run(t, s, inv, IO{}); string(got.Stdout.Data) != "9 120000\n100000\n" {
				t.Errorf("%s %s", got.Stdout.Data, got.Stderr.Data)
			}
		}
	})
}

func TestExtraDescriptors(t *testing.T) {
	s := startSandbox(t, testConfig(t))
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	inv := testInvocation("echo hello >&3; ls /proc/self/fd")
	inv.Extra = 2
	got := run(t, s, inv, IO{Extra: []*os.File{write, null}})
	write.Close()
	// The last one is the directory that ls itself has open.
	if said, _ := io.ReadAll(read); string(said) != "hello\n" || string(got.Stdout.Data) != "0\n1\n2\n3\n4\n5\n" {
		t.Errorf("%q, %q, %q", said, got.Stdout.Data, got.Stderr.Data)
	}
}

// A script is executed by its path, another program by its descriptor; both by PATH too.
func TestTarget(t *testing.T) {
	s := startSandbox(t, testConfig(t))
	setup := `printf '#!/bin/sh\necho script $0 $1\n' > script; chmod 700 script; cp /bin/echo echo2; chmod 700 echo2; mkdir -m 700 own; cp echo2 own; ln -s own link`
	if got := run(t, s, testInvocation(setup), IO{}); got.Status != 0 {
		t.Fatalf("%+v", got)
	}
	for _, test := range []struct {
		argv0, cwd, want string
		target           string
	}{
		{"./script", "/work", "script ./script x\n", ""},
		{"/work/script", "/", "script /work/script x\n", ""},
		{"script", "/", "script /work/script x\n", ""},
		{"./echo2", "/work", "x\n", "/work/echo2"},
		{"echo2", "/", "x\n", "/work/echo2"},
		{"own/echo2", "/work", "x\n", "/work/own/echo2"},
		{"./echo2", "/work/link", "x\n", "/work/own/echo2"},
	} {
		inv := enforcer.Invocation{Argv: []string{test.argv0, "x"}, Env: []string{"PATH=relative::/nowhere:/work:/bin"}, Cwd: test.cwd}
		c := prepared(t, s, testPlan(t, s), inv)
		if got := c.Expect().Target; got != test.target {
			t.Errorf("%s in %s: target %q, want %q", test.argv0, test.cwd, got, test.target)
		}
		if err := errors.Join(c.Release(), c.Started(context.Background())); err != nil {
			t.Error(err)
		}
		if got := c.Wait(context.Background()); string(got.Stdout.Data) != test.want {
			t.Errorf("%s in %s: %q, want %q (%s)", test.argv0, test.cwd, got.Stdout.Data, test.want, got.Stderr.Data)
		}
	}
}

func TestContextEndsPrepare(t *testing.T) {
	s := startSandbox(t, testConfig(t))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if c, err := s.Prepare(ctx, testPlan(t, s), testInvocation("true"), IO{}); err == nil {
		c.Abort()
		t.Error("no error although the context has ended")
	}
	if got := run(t, s, testInvocation("echo again"), IO{}); string(got.Stdout.Data) != "again\n" {
		t.Errorf("%+v", got)
	}
}
