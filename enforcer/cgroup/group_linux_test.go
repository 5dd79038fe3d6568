package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/enforcer/procfs"
	"github.com/sandboxd/sandboxd/test/kerneltest"
	"golang.org/x/sys/unix"
)

func probeHost(t testing.TB) Host {
	t.Helper()
	self, err := procfs.Open(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	rows, err := self.Mounts()
	if err != nil {
		t.Fatal(err)
	}
	var mounts []Mount
	for _, row := range rows {
		mounts = append(mounts, Mount{Type: row.Type, Root: row.Root, Target: row.Target, Options: row.SuperOptions})
	}
	own, err := self.Cgroup()
	if err != nil {
		t.Skip(err)
	}
	start, err := self.StartTime()
	if err != nil {
		t.Fatal(err)
	}
	namespace, err := self.Namespace("pid")
	if err != nil {
		t.Fatal(err)
	}
	return ProbeHost(mounts, own, Name(os.Getpid(), start, namespace))
}

// makeGroup makes this test's own group in Base.
func makeGroup(t testing.TB) (Host, *Group) {
	t.Helper()
	host := probeHost(t)
	if host.Base == "" {
		t.Skip(host.Why)
	}
	group, err := host.Make(host.Daemon, -1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := group.destroyWithin(10 * time.Second); err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.EBADF) {
			t.Error(err)
		}
	})
	return host, group
}

// leaf makes a group below for processes: one with controllers enabled for its children can't have any itself.
func leaf(t testing.TB, group *Group) *Group {
	t.Helper()
	sub, err := group.Sub("exec", -1, true)
	if err != nil {
		t.Fatal(err)
	}
	return sub
}

func start(t testing.TB, group *Group, script string) *exec.Cmd {
	t.Helper()
	command := exec.Command("/bin/sh", "-c", script)
	command.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: group.FD()}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { command.Process.Kill(); command.Wait() })
	return command
}

func bound(t testing.TB, limit time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

func TestProbeLeavesNothing(t *testing.T) {
	host := probeHost(t)
	t.Logf("%+v", host)
	if host.Base == "" {
		t.Skip(host.Why)
	}
	left, err := filepath.Glob(filepath.Join(host.Base, fmt.Sprintf("sandboxd-probe-%d-*", os.Getpid())))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if kerneltest.Kernel("5.14") && !host.Kill {
		t.Error("no cgroup.kill on a kernel that has it")
	}
}

// A manager that puts the daemon into a group of its own below the delegated one marks the latter.
func TestDelegatedGroupIsACandidate(t *testing.T) {
	host, group := makeGroup(t)
	above, err := group.Sub("unit", -1, false)
	if err != nil {
		t.Fatal(err)
	}
	below, err := above.Sub("daemon", -1, true)
	if err != nil {
		t.Fatal(err)
	}
	mount := Mount{Type: "cgroup2", Root: "/", Target: strings.TrimSuffix(host.Base, host.Path)}
	if host.Path == "/" {
		mount.Target = host.Base
	}
	if slices.Contains(candidates(mount, below.Path()), above.Path()) {
		t.Error("a group that nobody delegated is a candidate")
	}
	if err := unix.Setxattr(above.Dir(), "user.delegate", []byte("1"), 0); err != nil {
		t.Skip("no extended attributes: ", err)
	}
	if !slices.Contains(candidates(mount, below.Path()), above.Path()) {
		t.Error("a delegated group isn't a candidate")
	}
}

func TestKillEmptiesTheTree(t *testing.T) {
	_, group := makeGroup(t)
	exe := leaf(t, group)
	// A tree that a signal to a process, a group or a session doesn't reach.
	command := start(t, exe, `trap "" TERM; setsid sleep 1000 & (setsid sh -c 'sleep 1000 & sleep 1000') & sleep 1000`)
	membership, err := os.ReadFile("/proc/" + strconv.Itoa(command.Process.Pid) + "/cgroup")
	if err != nil || !strings.Contains(string(membership), "0::"+exe.Path()+"\n") {
		t.Errorf("%s isn't in %s: %v", membership, exe.Path(), err)
	}
	if some, err := exe.Populated(); err != nil || !some {
		t.Errorf("populated %v, %v", some, err)
	}
	if err := exe.WaitEmpty(bound(t, 20*time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a group with processes: %v", err)
	}
	if err := exe.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := exe.WaitEmpty(bound(t, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	if err := exe.Remove(); err != nil {
		t.Error(err)
	}
	if _, err := exe.Populated(); err == nil {
		t.Error("a removed group still answers")
	}
}

func TestWaitEmptyWithoutDeadline(t *testing.T) {
	_, group := makeGroup(t)
	command := start(t, leaf(t, group), "exec sleep 1000")
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- group.WaitEmpty(ctx) }()
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	go func() { result <- group.WaitEmpty(context.Background()) }()
	command.Process.Kill()
	command.Wait()
	if err := <-result; err != nil {
		t.Error(err)
	}
}

func TestOwnerMayCloneIntoTheGroup(t *testing.T) {
	kerneltest.Require(t, kerneltest.Root)
	_, sandbox := makeGroup(t)
	const worker, other = 61234, 61235
	procs := func(group *Group) (uint32, uint32) {
		var procs, kill unix.Stat_t
		if err := unix.Fstatat(group.FD(), "cgroup.procs", &procs, 0); err != nil {
			t.Fatal(err)
		}
		if err := unix.Fstatat(group.FD(), "cgroup.kill", &kill, 0); err != nil {
			t.Fatal(err)
		}
		return procs.Uid, kill.Uid
	}
	owned, err := sandbox.Sub("owned", worker, false)
	if err != nil {
		t.Fatal(err)
	}
	exe, err := owned.Sub("exec", worker, true)
	if err != nil {
		t.Fatal(err)
	}
	workers, err := owned.Sub("workers", -1, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range []*Group{owned, exe} {
		if procs, rest := procs(group); procs != worker || rest != 0 {
			t.Errorf("%s: cgroup.procs belongs to %d, cgroup.kill to %d", group.Path(), procs, rest)
		}
	}
	move := func(uid uint32) error {
		start(t, workers, "exec sleep 1000")
		mover := exec.Command("/bin/sh", "-c", `echo $$ > "$1"`, "sh", filepath.Join(exe.Dir(), "cgroup.procs"))
		mover.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: workers.FD(), Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		return mover.Run()
	}
	if err := move(worker); err != nil {
		t.Errorf("the owner: %v", err)
	}
	if err := move(other); err == nil {
		t.Error("another uid moved itself into the group")
	}
}

func TestFreeze(t *testing.T) {
	host, group := makeGroup(t)
	if !host.Freeze {
		t.Skip("no cgroup.freeze")
	}
	start(t, leaf(t, group), "exec sleep 1000")
	for _, frozen := range []bool{true, false} {
		if err := group.Freeze(frozen); err != nil {
			t.Fatal(err)
		}
		want := map[bool]string{true: "1", false: "0"}[frozen]
		for deadline := time.Now().Add(5 * time.Second); ; {
			events, err := group.read("cgroup.events")
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := field(events, "frozen"); got == want {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("frozen isn't %s: %s", want, events)
			}
		}
	}
}

// A group without controllers may wait for another exec, until it was killed or frozen: what is born into it then isn't as in a new one.
func TestReusable(t *testing.T) {
	host, group := makeGroup(t)
	for name, spend := range map[string]func(*Group) error{
		"killed": (*Group).Kill,
		"frozen": func(g *Group) error { return errors.Join(g.Freeze(true), g.Freeze(false)) },
	} {
		if name == "frozen" && !host.Freeze {
			continue
		}
		g := leaf(t, group)
		if got, want := g.Reusable(), len(host.Controllers) == 0; got != want {
			t.Errorf("new, with controllers %q: %v", host.Controllers, got)
		}
		if err := spend(g); err != nil {
			t.Fatal(err)
		}
		if g.Reusable() {
			t.Errorf("%s, and yet as good as a new one", name)
		}
		if err := g.Remove(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSubRefusesNames(t *testing.T) {
	_, group := makeGroup(t)
	for _, name := range []string{"", ".", "..", "a/b", "/", "a\nb"} {
		if sub, err := group.Sub(name, -1, true); err == nil {
			sub.Remove()
			t.Errorf("%q was made", name)
		}
	}
	if _, err := group.Read([]string{"../cgroup.procs"}); err == nil {
		t.Error("a file outside of the group was read")
	}
	if err := group.Set(map[string]string{"no.such": "1"}); !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EACCES) {
		t.Errorf("a file that isn't there: %v", err)
	}
}

func TestCleanStale(t *testing.T) {
	host, group := makeGroup(t)
	_, startTime, namespace, _ := parseName(host.Daemon)
	make := func(pid int, ns uint64) *Group {
		made, err := host.Make(Name(pid, startTime+1, ns), -1)
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	// Numbers above every pid, and those of this process, since other tests run beside it.
	number := 10_000_000 + 3*os.Getpid()
	dead, alive, foreign := make(number, namespace), make(number+1, namespace), make(number+2, namespace+1)
	defer alive.Remove()
	defer foreign.Remove()
	exe := leaf(t, dead)
	left := start(t, exe, "setsid sleep 1000")
	err := host.CleanStale(func(pid int, _ uint64) bool { return pid != number && pid != number+2 })
	if err != nil {
		t.Fatal(err)
	}
	if state, err := left.Process.Wait(); err != nil || state.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("what the dead daemon left: %v, %v", state, err)
	}
	if _, err := os.Stat(dead.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the dead daemon's group: %v", err)
	}
	for _, kept := range []*Group{group, alive, foreign} {
		if _, err := os.Stat(kept.Dir()); err != nil {
			t.Errorf("%s: %v", kept.Path(), err)
		}
	}
}

// Needs a host whose version 2 hierarchy has the controllers (a virtual machine where the test host is hybrid).
func TestLimitsHold(t *testing.T) {
	host, group := makeGroup(t)
	if len(host.Controllers) < 4 {
		t.Skip(host.Why)
	}
	exe := leaf(t, group)
	want := map[string]string{"memory.max": "33554432", "memory.swap.max": "0", "memory.oom.group": "1", "pids.max": "20", "cpu.max": "50000 100000"}
	if _, err := os.Stat(filepath.Join(exe.Dir(), "memory.swap.max")); err != nil {
		delete(want, "memory.swap.max")
	}
	if err := exe.Set(want); err != nil {
		t.Fatal(err)
	}
	got, err := exe.Read([]string{"memory.max", "memory.oom.group", "pids.max", "cpu.max"})
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range got {
		if value != want[name] {
			t.Errorf("%s is %q, want %q", name, value, want[name])
		}
	}
	command := start(t, exe, `a=x; while :; do a="$a$a"; done`)
	if err := command.Wait(); err == nil {
		t.Error("it ate all memory")
	}
	if kills, err := exe.OOMKills(); err != nil || kills < 1 || kerneltest.Kernel("5.17") && kills != 1 {
		t.Errorf("OOM kills %d of one process, %v", kills, err)
	}
}

func TestOOMKills(t *testing.T) {
	for data, want := range map[string]int64{
		"low 0\nhigh 0\nmax 9\noom 0\noom_kill 0\noom_group_kill 0\n": 0,
		"max 9\noom 1\noom_kill 3\n":                                  3, // before 5.17
		"max 9\noom 1\noom_kill 3\noom_group_kill 1\n":                2,
		"max 9\noom 1\noom_kill 1\noom_group_kill 1\n":                1,
	} {
		if got, err := oomKills([]byte(data)); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", data, got, err, want)
		}
	}
	for _, data := range []string{"", "oom 1\n", "oom_kill x\n", "oom_kill 1\noom_group_kill x\n"} {
		if got, err := oomKills([]byte(data)); err == nil {
			t.Errorf("%q: %d", data, got)
		}
	}
}

func BenchmarkGroup(b *testing.B) {
	_, group := makeGroup(b)
	for b.Loop() {
		exe, err := group.Sub("exec", 61234, true)
		if err != nil {
			b.Fatal(err)
		}
		if err := exe.WaitEmpty(b.Context()); err != nil {
			b.Fatal(err)
		}
		if err := exe.Remove(); err != nil {
			b.Fatal(err)
		}
	}
}
