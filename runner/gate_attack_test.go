package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sandboxd/sandboxd/enforcer/seccomp"
)

// attackFrom has a process of the outside workers' uid, in no domain, attack another, and gives what the kernel answered to each act.
func attackFrom(t *testing.T, uid uint32, pid int) map[string]string {
	t.Helper()
	binary, err := OpenBinary("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer binary.Close()
	cmd := exec.Command("/proc/self/fd/3", "hostile", "attack", fmt.Sprint(pid))
	cmd.Dir, cmd.ExtraFiles = "/", []*os.File{binary}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	answers := map[string]string{}
	for line := range strings.Lines(string(out)) {
		act, answer, _ := strings.Cut(strings.TrimSpace(line), " ")
		answers[act] = answer
	}
	if len(answers) != 11 {
		t.Errorf("acts: %s", out)
	}
	return answers
}

// Who has the worker's uid, which on an ordinary user's machine is also the child's, gets at neither: both aren't dumpable.
func TestSameUIDAttacker(t *testing.T) {
	both(t, func(t *testing.T) {
		w, k := outsideWorker(t), &kept{}
		c, err := outside(t, w, k, outsidePlan(), "exec sleep 1000")
		if err != nil {
			t.Fatal(err)
		}
		for name, pid := range map[string]int{"gated child": c.PID(), "worker": w.pid} {
			for act, answer := range attackFrom(t, outsideUID, pid) {
				if !slices.Contains([]string{"EPERM", "EACCES"}, answer) {
					t.Errorf("%s: %s answered %s", name, act, answer)
				}
			}
		}
		if err := errors.Join(c.Release(), c.Started(context.Background())); err != nil {
			t.Fatal(err)
		}
		for act, answer := range attackFrom(t, outsideUID, w.pid) {
			if !slices.Contains([]string{"EPERM", "EACCES"}, answer) {
				t.Errorf("worker with a running child: %s answered %s", act, answer)
			}
		}
		c.Kill()
		c.Wait(context.Background())
	})
}

// The tree may not do to its own worker what that may do to it: it is in a domain within the worker's.
func TestTreeAttacksItsWorker(t *testing.T) {
	s := startSandbox(t, testConfig(t))
	inv, extra := withProgram(t, "kill -0 $PPID 2>/dev/null && echo signalled; kill -9 $PPID 2>/dev/null; kill -9 -1 2>/dev/null; exec $P hostile attack $PPID")
	got := run(t, s, inv, IO{Extra: extra})
	if lines := strings.Count(string(got.Stdout.Data), "\n"); lines != 11 || got.Status != 0 {
		t.Fatalf("%q %q %+v", got.Stdout.Data, got.Stderr.Data, got.Status)
	}
	for line := range strings.Lines(string(got.Stdout.Data)) {
		if act, answer, _ := strings.Cut(strings.TrimSpace(line), " "); !slices.Contains([]string{"EPERM", "EACCES", "ENOENT"}, answer) {
			t.Errorf("%s answered %s", act, answer)
		}
	}
}

// Limits are guarded by the uid alone, which all execs of a sandbox have, and for an ordinary user its worker and launcher too: a limit of no
// processor time would kill them. Only the filter stands against it.
func TestTreeSetsTheLimitsOfOthers(t *testing.T) {
	s := startSandbox(t, testConfig(t))
	ctx := context.Background()
	profile, err := seccomp.RuntimeDefault(runtime.GOARCH, s.config.Host.Kernel)
	if err != nil {
		t.Fatal(err)
	}
	plan := testPlan(t, s)
	if plan.Seccomp, err = seccomp.NewFilter("RuntimeDefault", profile, runtime.GOARCH); err != nil {
		t.Fatal(err)
	}
	victim, err := s.Prepare(ctx, plan, testInvocation("exec sleep 1000"), IO{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(victim.Release(), victim.Started(ctx)); err != nil {
		t.Fatal(err)
	}
	inv, extra := withProgram(t, "exec $P hostile limits")
	attacker, err := s.Prepare(ctx, plan, inv, IO{Extra: extra, OutputBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(attacker.Release(), attacker.Started(ctx)); err != nil {
		t.Fatal(err)
	}
	if got := attacker.Wait(ctx); len(got.Stdout.Data)+len(got.Stderr.Data) > 0 || got.Status != 0 {
		t.Errorf("not refused: %q %q %v", got.Stdout.Data, got.Stderr.Data, got.Status)
	}
	if limit := cpuLimit(t, victim.PID()); limit != "unlimited" {
		t.Errorf("the other exec's processor time is limited to %s", limit)
	}
	victim.Kill()
	victim.Wait(ctx)
}

// cpuLimit is the soft limit on a process's processor time.
func cpuLimit(t *testing.T, pid int) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "Max cpu time")
	return strings.Fields(rest)[0]
}
