package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/test/kerneltest"
)

// withProgram is a shell line that can execute this test program, as $P, from descriptor 3.
func withProgram(t testing.TB, line string) (enforcer.Invocation, []*os.File) {
	t.Helper()
	binary, err := OpenBinary("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { binary.Close() })
	inv := testInvocation(line)
	inv.Env = append(inv.Env, "P=/proc/self/fd/3")
	inv.Extra = 1
	return inv, []*os.File{binary}
}

// trees are what is left behind, or stays: each says "ready" when it is complete.
var trees = []struct{ name, line string }{
	{"sleep", "echo ready; exec sleep 1000"},
	{"background", "sleep 1000 & echo ready; wait"},
	{"own session", "setsid sh -c 'echo ready; sleep 1000' & wait"},
	{"double fork", "(setsid sh -c '(sleep 1000 & sleep 1000 & echo ready) & sleep 1000' &) ; sleep 1000"},
	{"deaf to SIGTERM", "trap '' TERM HUP INT; sh -c 'trap \"\" TERM; sleep 1000; sleep 1000' & echo ready; while :; do sleep 1000; done"},
	{"stopped", "sh -c 'echo ready; kill -STOP $$' & sh -c 'kill -STOP $$' & wait"},
	{"stopped leader", "sleep 1000 & echo ready; kill -STOP $$"},
	{"sibling by CLONE_PARENT", "$P hostile sibling; echo ready; sleep 1000"},
	{"blocked in vfork", "$P hostile vfork & sleep 0.1; echo ready; wait"},
	{"many", "i=0; while [ $i -lt 100 ]; do i=$((i+1)); if [ $((i%2)) = 0 ]; then setsid sleep 1000 & else sleep 1000 & fi; done; echo ready; wait"},
	{"busy", "for i in 1 2 3 4; do sh -c 'while :; do :; done' & done; echo ready; wait"},
}

// ways are how a tree is killed.
func ways(t *testing.T, test func(t *testing.T, s *Sandbox, plan enforcer.Plan)) {
	t.Run("shepherd", func(t *testing.T) {
		kerneltest.Require(t, kerneltest.Landlock(6))
		s := startSandbox(t, testConfig(t))
		test(t, s, testPlan(t, s))
	})
	t.Run("cgroup", func(t *testing.T) {
		machine, err := enforcer.ProbeHost(enforcer.HostConfig{})
		if err != nil {
			t.Fatal(err)
		}
		host := machine.Cgroup
		if host.Base == "" || !host.Kill {
			t.Skip("no cgroup to kill by: ", host.Why)
		}
		config := testConfig(t)
		group, err := host.Make(fmt.Sprintf("gate-test-%d", os.Getpid()), config.Plan.Worker.UID)
		if err != nil {
			t.Fatal(err)
		}
		config.Cgroup = group
		s := startSandbox(t, config)
		plan := testPlan(t, s)
		plan.Kill, plan.Cgroup = enforcer.KillCgroup, map[string]string{}
		test(t, s, plan)
	})
}

// runningTree starts a tree and waits until it is complete.
func runningTree(t *testing.T, s *Sandbox, plan enforcer.Plan, line string) *Child {
	t.Helper()
	inv, extra := withProgram(t, line)
	ready := make(chan struct{}, 1)
	c, err := s.Prepare(context.Background(), plan, inv, IO{OutputBytes: 1 << 16, Extra: extra, Tee: func(_ string, chunk []byte) {
		if strings.Contains(string(chunk), "ready") {
			ready <- struct{}{}
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Release(), c.Started(context.Background())); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ready:
	case <-time.After(10 * time.Second):
		t.Error("the tree isn't ready")
	}
	return c
}

func TestTreeKilled(t *testing.T) {
	ways(t, func(t *testing.T, s *Sandbox, plan enforcer.Plan) {
		for _, tree := range trees {
			t.Run(tree.name, func(t *testing.T) {
				c := runningTree(t, s, plan, tree.line)
				ctx, cancel := context.WithCancel(context.Background())
				cancel() // as the wall clock does
				start := time.Now()
				exit := c.Wait(ctx)
				wantKilled(t, exit, plan)
				if took := time.Since(start); took > 5*time.Second {
					t.Errorf("it took %s", took)
				}
				if left := sandboxProcesses(t, s); len(left) != 0 {
					t.Errorf("left: %v", left)
				}
			})
		}
		if got := run(t, s, testInvocation("echo again"), IO{}); string(got.Stdout.Data) != "again\n" {
			t.Errorf("%+v", got)
		}
	})
}

func wantKilled(t *testing.T, exit Exit, plan enforcer.Plan) {
	t.Helper()
	if !exit.Known || !exit.Killed || exit.Status.Signal() != syscall.SIGKILL || !exit.TreeEmpty || exit.TreeEvidence != policy.EvidenceKernel {
		t.Errorf("%+v", exit)
	}
	if exit.Stdout.Incomplete || exit.Stderr.Incomplete {
		t.Error("a stream was kept open")
	}
}

// sandboxProcesses are the processes of the sandbox besides launcher and workers.
func sandboxProcesses(t *testing.T, s *Sandbox) (left []string) {
	t.Helper()
	want, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", s.PID()))
	if err != nil {
		t.Fatal(err)
	}
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		if got, err := os.Readlink("/proc/" + entry.Name() + "/ns/pid"); err != nil || got != want {
			continue
		}
		line, _ := os.ReadFile("/proc/" + entry.Name() + "/cmdline")
		if !strings.HasPrefix(string(line), Name+"\x00") {
			left = append(left, entry.Name()+" "+strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return left
}

// A leader that ends by itself takes its tree with it, at once.
func TestTreeAfterLeader(t *testing.T) {
	ways(t, func(t *testing.T, s *Sandbox, plan enforcer.Plan) {
		for _, line := range []string{"sleep 1000 & setsid sleep 1000 & echo ready; exit 3", "(setsid sh -c 'trap \"\" TERM; sleep 1000' &); echo ready; exit 3"} {
			c := runningTree(t, s, plan, line)
			start := time.Now()
			exit := c.Wait(context.Background())
			if took := time.Since(start); took > time.Second {
				t.Errorf("a background child held the answer for %s", took)
			}
			if exit.Status.ExitStatus() != 3 || exit.Killed || !exit.TreeEmpty || exit.Reaped == 0 || string(exit.Stdout.Data) != "ready\n" || exit.Stdout.Incomplete {
				t.Errorf("%+v", exit)
			}
			if left := sandboxProcesses(t, s); len(left) != 0 {
				t.Errorf("left: %v", left)
			}
		}
	})
}

func TestForkBomb(t *testing.T) {
	ways(t, func(t *testing.T, s *Sandbox, plan enforcer.Plan) {
		plan.RLimits = append(plan.RLimits, enforcer.RLimit{Name: "nproc", Resource: unix.RLIMIT_NPROC, Value: 200})
		c := runningTree(t, s, plan, "sh -c 'b() { b | b & b; }; b' 2>/dev/null & echo ready; exec sleep 1000")
		time.Sleep(100 * time.Millisecond) // grow
		start := time.Now()
		c.Kill()
		c.Kill()
		wantKilled(t, c.Wait(context.Background()), plan)
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("it took %s", took)
		}
		if left := sandboxProcesses(t, s); len(left) != 0 {
			t.Errorf("left: %v", left)
		}
	})
}

// Orphans are reaped while the leader lives: they would fill its limit of processes.
func TestOrphansReaped(t *testing.T) {
	s := startSandbox(t, testConfig(t))
	c := runningTree(t, s, testPlan(t, s), "i=0; while [ $i -lt 20 ]; do i=$((i+1)); (sh -c : &); done; sleep 0.3; echo ready; sleep 1000")
	zombies := 0
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", c.worker.pid, c.worker.pid))
	if err != nil {
		t.Fatal(err)
	}
	zombies = len(strings.Fields(string(children))) - 1
	if zombies > 2 {
		t.Errorf("%d zombies", zombies)
	}
	c.Kill()
	if exit := c.Wait(context.Background()); exit.Reaped < 20 || !exit.TreeEmpty {
		t.Errorf("%+v", exit)
	}
}

// Two trees of one uid, in one sandbox, and outside of any: the end of one leaves the other alone, and a process of that uid that is in no domain.
func TestTreesSideBySide(t *testing.T) {
	s := startSandbox(t, testConfig(t))
	plan := testPlan(t, s)
	first := runningTree(t, s, plan, trees[1].line)
	second := runningTree(t, s, plan, trees[2].line)
	first.Kill()
	wantKilled(t, first.Wait(context.Background()), plan)
	if ended(second.pidfd) || len(sandboxProcesses(t, s)) < 2 {
		t.Errorf("the other tree has suffered: %v", sandboxProcesses(t, s))
	}
	second.Kill()
	wantKilled(t, second.Wait(context.Background()), plan)
}

func TestTreesSideBySideOutside(t *testing.T) {
	bystander := startBystander(t)
	a, b := outsideWorker(t), outsideWorker(t)
	for range 10 {
		ka, kb := &kept{}, &kept{}
		other, err := outside(t, b, kb, outsidePlan(), "sleep 1000 & exec sleep 1000")
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(other.Release(), other.Started(context.Background())); err != nil {
			t.Fatal(err)
		}
		c, err := outside(t, a, ka, outsidePlan(), "for i in 1 2 3 4 5; do setsid sleep 1000 & done; exit 4")
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(c.Release(), c.Started(context.Background())); err != nil {
			t.Fatal(err)
		}
		exit := c.Wait(context.Background())
		if exit.Status.ExitStatus() != 4 || exit.Reaped != 5 || !exit.TreeEmpty || exit.TreeEvidence != policy.EvidenceKernel || !ka.clean {
			t.Errorf("%+v, %+v", exit, ka)
		}
		if ended(other.pidfd) {
			t.Error("the other's leader was killed")
		}
		other.Kill()
		if exit := other.Wait(context.Background()); !exit.TreeEmpty || !exit.Killed {
			t.Errorf("%+v", exit)
		}
	}
	if err := bystander.Signal(syscall.Signal(0)); err != nil {
		t.Error("the bystander was killed: ", err)
	}
}

// startBystander is a process of the outside workers' uid, in no domain.
func startBystander(t *testing.T) *os.Process {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root for another uid")
	}
	p, err := os.StartProcess("/bin/sleep", []string{"sleep", "1000"}, &os.ProcAttr{Sys: &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: outsideUID, Gid: outsideUID}, Pdeathsig: syscall.SIGKILL}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		p.Wait()
	})
	return p
}

// The daemon's end is the tree's, without a sandbox around it too.
func TestDaemonGone(t *testing.T) {
	w := outsideWorker(t)
	c, err := outside(t, w, &kept{}, outsidePlan(), "setsid sleep 1000 & exec sleep 1000")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Release(), c.Started(context.Background())); err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond)
	w.conn.Close()
	waitEnded(t, c)
	<-w.gone
	for range 100 {
		if len(processesOf(t, outsideUID, 0)) == 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if left := processesOf(t, outsideUID, 0); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	closeFD(c.pidfd)
	c.pidfd = -1
}
