package runner

import (
	"bytes"
	"context"
	"encoding/json/v2"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/enforcer/landlock"
	"github.com/sandboxd/sandboxd/enforcer/mount"
	"github.com/sandboxd/sandboxd/enforcer/seccomp"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/test/kerneltest"
)

// probePlan is the test plan with the built-in filter and the rules of a real plan.
func probePlan(t testing.TB, s *Sandbox) enforcer.Plan {
	t.Helper()
	yes, no := true, false
	d := policy.Decision{Allow: true}
	d.Effective.SecurityContext = policy.SecurityContext{ReadOnlyRootFilesystem: &yes, AllowPrivilegeEscalation: &no}.Defaulted()
	d.Effective.Limits = policy.Limits{}.Defaulted()
	plan, err := enforcer.Build(d, s.config.Host, s.Plan(), enforcer.Profiles{})
	if err != nil {
		t.Fatal(err)
	}
	return kill(s, plan)
}

// tried has acts tried under a plan, all in one process, and gives their answers.
func tried(t testing.TB, s *Sandbox, plan enforcer.Plan, names []string) (map[string]string, Exit) {
	t.Helper()
	answers, exit := tryActs(t, s, plan, names)
	got := map[string]string{}
	for _, answer := range answers {
		got[answer.Act] = answer.Answer()
	}
	return got, exit
}

// tryActs is tried, with all that was answered.
func tryActs(t testing.TB, s *Sandbox, plan enforcer.Plan, names []string) ([]ProbeAnswer, Exit) {
	t.Helper()
	inv := enforcer.Invocation{Argv: append([]string{Name, ProbeMode}, names...), Cwd: "/", Own: true}
	c, err := s.Prepare(context.Background(), plan, inv, IO{OutputBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Release(); err != nil {
		t.Fatal(err)
	}
	if err := c.Started(context.Background()); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	exit := c.Wait(ctx)
	var got []ProbeAnswer
	for line := range bytes.Lines(exit.Stdout.Data) {
		var answer ProbeAnswer
		if err := json.Unmarshal(line, &answer); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		got = append(got, answer)
	}
	if len(exit.Stderr.Data) > 0 {
		t.Errorf("stderr: %s", exit.Stderr.Data)
	}
	return got, exit
}

// namesOf are the acts that leave who tries them alive.
func namesOf(acts []enforcer.Act) []string {
	var names []string
	for _, act := range acts {
		if !act.Alone {
			names = append(names, act.Name)
		}
	}
	return names
}

// Every act that a plan of this host forbids is refused as the plan says, each with its errno.
func TestProbesHold(t *testing.T) {
	both(t, func(t *testing.T) {
		s := startSandbox(t, testConfig(t))
		plan := probePlan(t, s)
		acts := enforcer.Acts(plan, runtime.GOARCH)
		got, exit := tried(t, s, plan, namesOf(acts))
		if !exit.Known || exit.Status.ExitStatus() != 0 {
			t.Errorf("%+v", exit)
		}
		for _, act := range acts {
			if !act.Alone {
				continue
			}
			_, exit := tried(t, s, plan, []string{act.Name})
			if got[act.Name] = fmt.Sprint(exit.Status); exit.Status.Signaled() && exit.Status.Signal() == syscall.SIGSYS {
				got[act.Name] = "SIGSYS"
			}
		}
		held := 0
		for _, row := range enforcer.CheckActs(acts, got) {
			if !row.Held {
				t.Errorf("%s: %s, want %s", row.Control, row.Got, row.Want)
				continue
			}
			held++
		}
		t.Logf("%d acts", held)
		if held < 90 {
			t.Errorf("%d acts are few", held)
		}
	})
}

// A plan that reads only refuses to make files where others of the sandbox may, and has no act that takes one; under the plan that lets them be made those
// acts aren't refused, so that they tell of this.
func TestProbesHoldReadingOnly(t *testing.T) {
	kerneltest.Require(t, kerneltest.Landlock(1))
	s := startSandbox(t, testConfig(t))
	writing := probePlan(t, s)
	plan, err := writing.ReadingOnly(s.config.Host)
	if err != nil {
		t.Fatal(err)
	}
	acts := enforcer.Acts(plan, runtime.GOARCH)
	got, exit := tried(t, s, plan, namesOf(acts))
	if !exit.Known || exit.Status.ExitStatus() != 0 {
		t.Errorf("%+v", exit)
	}
	for _, row := range enforcer.CheckActs(slices.DeleteFunc(slices.Clone(acts), func(a enforcer.Act) bool { return a.Alone }), got) {
		if !row.Held {
			t.Errorf("%s: %s, want %s", row.Control, row.Got, row.Want)
		}
	}
	own := []string{"landlock.create in /dev/shm", "landlock.create in /tmp", "landlock.create in /work", "landlock.nameless file in /work",
		"seccomp.fchmod", "seccomp.fchmodat", "seccomp.fchown", "seccomp.fchownat", "seccomp.utimensat", "seccomp.fsetxattr", "seccomp.fremovexattr"}
	names := namesOf(acts)
	for _, name := range own {
		if !slices.Contains(names, name) {
			t.Errorf("%s isn't tried", name)
		}
	}
	if slices.Contains(names, "root.map executable from /dev/shm") {
		t.Error("a file is mapped that can't be made")
	}
	got, _ = tried(t, s, writing, own)
	for _, name := range own {
		if by, _, _ := strings.Cut(name, "."); by == "landlock" && got[name] != "let through" || got[name] == "EROFS" || got[name] == "" {
			t.Errorf("%s: %s also where files may be made", name, got[name])
		}
	}
}

// A worker's own layer of Landlock refuses no move that the plan lets be made.
func TestMoves(t *testing.T) {
	s := startSandbox(t, testConfig(t))
	if s.config.Host.LandlockABI > 0 {
		kerneltest.Require(t, kerneltest.Landlock(2)) // what grants a move
	}
	// mv(1) copies what it may not rename; the number of the inode says which it was.
	const script = "cd $0 && mkdir a b a/d && echo >a/x && ln a/x b/y && was=$(stat -c %i a/x a/d) && mv a/x b/x && mv a/d b/d && test \"$was\" = \"$(stat -c %i b/x b/d)\""
	for _, dir := range []string{"/work", "/tmp"} {
		inv := enforcer.Invocation{Argv: []string{"sh", "-c", script, dir}, Env: []string{"PATH=/usr/bin:/bin"}, Cwd: "/"}
		c, err := s.Prepare(context.Background(), probePlan(t, s), inv, IO{OutputBytes: 1 << 10})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Release(); err != nil {
			t.Fatal(err)
		}
		if exit := c.Wait(context.Background()); !exit.Known || exit.Status.ExitStatus() != 0 {
			t.Errorf("%s: %v %s", dir, exit.Status, exit.Stderr.Data)
		}
	}
}

// weak are the acts that this kernel refuses with the same words where nothing of ours is in force: they say what a program meets, and prove
// less.
var weak = []string{
	"seccomp.unknown call", "seccomp.socket sctp", "seccomp.socket raw", "seccomp.socket raw6", "seccomp.fanotify_init", "seccomp.pivot_root", "seccomp.fsopen",
	"seccomp.fsmount", "seccomp.fspick", "seccomp.move_mount", "seccomp.open_by_handle_at", "seccomp.swapoff", "seccomp.acct", "seccomp.reboot",
	"seccomp.kexec_load", "seccomp.kexec_file_load", "seccomp.swapon", "seccomp.perf_event_open", "seccomp.init_module", "seccomp.finit_module", "seccomp.delete_module", "seccomp.syslog",
	"seccomp.sethostname", "seccomp.setdomainname", "seccomp.vhangup",
}

// weakHere are those and what this machine's own settings refuse with the same words.
func weakHere(t *testing.T) []string {
	t.Helper()
	data, err := os.ReadFile("/proc/sys/kernel/unprivileged_bpf_disabled")
	if err == nil && string(data) != "0\n" {
		return append(slices.Clone(weak), "seccomp.bpf")
	}
	return weak
}

// Without filter and domain each act is answered otherwise: what a probe says is said of the control that it names.
func TestProbesTell(t *testing.T) {
	s := startSandbox(t, testConfig(t))
	plan := probePlan(t, s)
	acts := slices.DeleteFunc(enforcer.Acts(plan, runtime.GOARCH), func(a enforcer.Act) bool {
		return !strings.HasPrefix(a.Name, "seccomp.") && !strings.HasPrefix(a.Name, "landlock.") || a.Alone
	})
	bare := plan
	bare.Seccomp, bare.Landlock, bare.Readback = seccomp.Filter{}, landlock.Ruleset{}, false
	// What one act lets through, another may need: each has the files to itself.
	got := map[string]string{}
	for _, act := range acts {
		if !strings.HasPrefix(act.Name, "landlock.") {
			continue
		}
		one := startSandbox(t, testConfig(t))
		answer, _ := tried(t, one, bare, []string{act.Name})
		got[act.Name] = answer[act.Name]
		closeSandbox(t, one)
	}
	calls := slices.DeleteFunc(namesOf(acts), func(name string) bool { return !strings.HasPrefix(name, "seccomp.") })
	answers, _ := tried(t, s, bare, calls)
	for name, answer := range answers {
		got[name] = answer
	}
	allowed := weakHere(t)
	for _, row := range enforcer.CheckActs(acts, got) {
		switch expected := slices.Contains(allowed, row.Control); {
		case row.Got == "not tried":
			t.Errorf("%s wasn't tried", row.Control)
		case row.Held && !expected:
			t.Errorf("%s: %s also where nothing is in force", row.Control, row.Got)
		case !row.Held:
			t.Logf("%s: %s, and %s under the plan", row.Control, row.Got, row.Want)
		}
	}
}

// The place of the probes is in the root, and no rule of Landlock grants anything there but reading.
func TestProbePlace(t *testing.T) {
	s := startSandbox(t, testConfig(t))
	if !slices.ContainsFunc(s.Plan().Root.Mounts, func(m mount.Mount) bool { return m.Target == landlock.ProbeDir }) {
		t.Skip("this kernel has no Landlock")
	}
	for _, rule := range probePlan(t, s).Landlock.Paths {
		if rule.Path == landlock.ProbeDir {
			t.Errorf("%+v", rule)
		}
	}
}
