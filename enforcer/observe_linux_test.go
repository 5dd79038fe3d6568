package enforcer

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/enforcer/procfs"
	"github.com/sandboxd/sandboxd/test/kerneltest"
	"golang.org/x/sys/unix"
)

func limit(s State, name string) procfs.Limit {
	i := slices.IndexFunc(s.Limits, func(l procfs.Limit) bool { return l.Name == name })
	return s.Limits[i]
}

func TestObserveSaysWhatTheChildDid(t *testing.T) {
	host := probeHost(t)
	id, credential := ordinary()
	child := startThrowAway(t, "nnp umask limit chdir", &syscall.SysProcAttr{Credential: credential, Setsid: true})
	state, err := Observe(child.Process.Pid, host)
	if err != nil {
		t.Fatal(err)
	}
	for _, st := range state.Threads {
		if st.UIDs != [4]int{id, id, id, id} || st.TGID != child.Process.Pid || st.PPID != os.Getpid() {
			t.Errorf("ids %v, process %d, parent %d", st.UIDs, st.TGID, st.PPID)
		}
		if credential != nil && !slices.Equal(st.Groups, []int{61260}) {
			t.Errorf("groups %v", st.Groups)
		}
		if st.PID == st.TGID && st.NoNewPrivs != 1 || st.Umask != 0o027 || st.Seccomp != 0 {
			t.Errorf("no_new_privs %d, umask %o, seccomp %d", st.NoNewPrivs, st.Umask, st.Seccomp)
		}
		if credential != nil && (st.Permitted != 0 || st.Effective != 0 || st.Bounding == 0) {
			t.Errorf("capabilities %x %x %x", st.Permitted, st.Effective, st.Bounding)
		}
	}
	if len(state.Threads) < 2 {
		t.Errorf("%d threads of a Go program", len(state.Threads))
	}
	if got := limit(state, "nofile"); got.Soft != 77 || got.Hard != 88 {
		t.Errorf("nofile %+v", got)
	}
	if got := limit(state, "core"); got.Soft != 0 || got.Hard != 0 {
		t.Errorf("core %+v", got)
	}
	if state.Cwd != "/dev" || state.Root != "/" {
		t.Errorf("cwd %q, root %q", state.Cwd, state.Root)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if state.Exe != exe {
		t.Errorf("exe %q, want %q", state.Exe, exe)
	}
	if !maps.Equal(state.Namespaces, host.Namespaces) {
		t.Errorf("namespaces %v, want %v", state.Namespaces, host.Namespaces)
	}
	if state.FDs[0] == "" || state.FDs[0][:6] != "pipe:[" {
		t.Errorf("descriptors %v", state.FDs)
	}
	if state.EnvironOwner != id {
		t.Errorf("environ belongs to %d", state.EnvironOwner)
	}
	self, err := Locate(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if self.RootID != state.RootID || self.ExeID != state.ExeID {
		t.Errorf("root %s, exe %s; mine are %s, %s", state.RootID, state.ExeID, self.RootID, self.ExeID)
	}
}

func TestObserveSeesTheGrantedDescriptors(t *testing.T) {
	host := probeHost(t)
	child := startThrowAway(t, "exec=/bin/cat", nil)
	want := pipeText(t, child.stdin)
	self, err := Locate(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	// What it echoes says that it is past its loader, which opens libraries.
	if _, err := child.stdin.WriteString("echo\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := child.stdout.ReadString('\n'); err != nil || line != "echo\n" {
		t.Fatalf("%q, %v", line, err)
	}
	state, err := ObserveStarted(child.Process.Pid, host)
	if err != nil {
		t.Fatal(err)
	}
	if state.ExeID == self.ExeID || len(state.Threads) != 1 {
		t.Errorf("%s with %d threads", state.Exe, len(state.Threads))
	}
	if state.FDs[0] != want || state.FDs[1] == "" || state.FDs[2] == "" {
		t.Errorf("descriptors %v, want 0 (%s), 1 and 2", state.FDs, want)
	}
	for fd, text := range state.FDs {
		// Whoever started the tests may have left descriptors open to all; they are known by their text. Nothing else may be there.
		if mine, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd)); fd > 2 && (err != nil || mine != text) {
			t.Errorf("descriptor %d is %s", fd, text)
		}
	}
}

func TestObserveSeesWhetherItIsDumpable(t *testing.T) {
	kerneltest.Require(t, kerneltest.Root)
	host := probeHost(t)
	id, credential := ordinary()
	child := startThrowAway(t, "undumpable", &syscall.SysProcAttr{Credential: credential})
	state, err := Observe(child.Process.Pid, host)
	if err != nil {
		t.Fatal(err)
	}
	if state.EnvironOwner == id {
		t.Errorf("environ of a process that isn't dumpable belongs to %d", state.EnvironOwner)
	}
}

// An ordinary user sees all of a child in a user namespace that the user made, although the child isn't dumpable: it is the namespace's owner.
func TestObserveInAUserNamespace(t *testing.T) {
	kerneltest.Require(t, kerneltest.UserNamespaces)
	host := probeHost(t)
	child := startThrowAway(t, "undumpable", &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWNET | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: InsideID, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: InsideID, HostID: os.Getegid(), Size: 1}},
		Setsid:      true,
	})
	state, err := Observe(child.Process.Pid, host)
	if err != nil {
		t.Fatal(err)
	}
	id := os.Geteuid()
	leader := state.Threads[0]
	if leader.UIDs != [4]int{id, id, id, id} {
		t.Errorf("uids %v: the daemon's view has %d", leader.UIDs, id)
	}
	if len(leader.NSPID) != 2 || leader.NSPID[0] != child.Process.Pid || leader.NSPID[1] != 1 || !slices.Equal(leader.NSPID, leader.NSSID) {
		t.Errorf("pids %v, sessions %v", leader.NSPID, leader.NSSID)
	}
	for _, name := range append([]string{"user"}, sandboxNamespaces...) {
		if state.Namespaces[name] == host.Namespaces[name] {
			t.Errorf("namespace %s is the daemon's", name)
		}
	}
	if id != 0 && state.EnvironOwner == id {
		t.Errorf("environ of a process that isn't dumpable belongs to %d", state.EnvironOwner)
	}
}

func TestObserveCgroupValues(t *testing.T) {
	kerneltest.Require(t, kerneltest.Root)
	host := probeHost(t)
	if host.Cgroup.Base == "" {
		t.Skip(host.Cgroup.Why)
	}
	daemon, err := host.Cgroup.Make(host.Cgroup.Daemon, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer daemon.Remove()
	group, err := daemon.Sub("exec", -1, true)
	if err != nil {
		t.Fatal(err)
	}
	defer group.Remove()
	want := map[string]string{}
	if slices.Contains(host.Cgroup.Controllers, "pids") {
		want["pids.max"] = "17"
	}
	if err := group.Set(want); err != nil {
		t.Fatal(err)
	}
	child := startThrowAway(t, "wait", &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: group.FD()})
	state, err := Observe(child.Process.Pid, host)
	if err != nil {
		t.Fatal(err)
	}
	if state.Cgroup != group.Path() {
		t.Errorf("cgroup %q, want %q", state.Cgroup, group.Path())
	}
	for name, value := range want {
		if state.CgroupValues[name] != value {
			t.Errorf("%s is %q, want %q", name, state.CgroupValues[name], value)
		}
	}
	child.Process.Kill()
	child.Wait()
	if err := group.WaitEmpty(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestObserveOfTheDead(t *testing.T) {
	host := probeHost(t)
	command := exec.Command("/bin/cat")
	stdin, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	pid := command.Process.Pid
	stdin.Close()
	// WNOWAIT leaves the zombie there.
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	for _, observe := range []func(int, Host) (State, error){Observe, ObserveStarted} {
		if _, err := observe(pid, host); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("a zombie: %v", err)
		}
	}
	if err := command.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, observe := range []func(int, Host) (State, error){Observe, ObserveStarted} {
		if _, err := observe(pid, host); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("a process that was waited for: %v", err)
		}
	}
	if _, err := Locate(pid); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("Locate: %v", err)
	}
	if _, err := Namespaces(pid); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("Namespaces: %v", err)
	}
}

// A process is looked at in the middle of its end, when the kernel has taken some parts of it and isn't through: it has ended, or it is whole. An
// error that says neither would be taken for a control that can't be read.
func TestObserveOfTheDying(t *testing.T) {
	host := probeHost(t)
	done := 0
	for range 150 {
		command := exec.Command("/bin/cat")
		stdin, err := command.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		stdin.Close()
		for {
			_, err := ObserveStarted(command.Process.Pid, host)
			if errors.Is(err, os.ErrProcessDone) {
				done++
				break
			}
			if err != nil {
				t.Error(err)
				break
			}
		}
		if err := command.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	if done == 0 {
		t.Error("none was seen to end")
	}
}

// What can't be read because of permissions is an error, never an empty answer.
func TestObserveWithoutTheRightIsAnError(t *testing.T) {
	kerneltest.Require(t, kerneltest.Root)
	host := probeHost(t)
	_, credential := ordinary()
	victim := startThrowAway(t, "wait", nil) // root's, dumpable
	stranger := exec.Command("/bin/sh", "-c", "readlink /proc/"+strconv.Itoa(victim.Process.Pid)+"/root || ls /proc/"+strconv.Itoa(victim.Process.Pid)+"/fd")
	stranger.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
	if out, err := stranger.Output(); err == nil || len(out) > 0 {
		t.Fatalf("another uid reads %q: this test shows nothing", out)
	}
	if err := asUser(int(credential.Uid), func() error { _, err := Observe(victim.Process.Pid, host); return err }); err == nil || errors.Is(err, os.ErrProcessDone) {
		t.Errorf("%v", err)
	}
}

// asUser calls f on a thread whose effective uid is another, without capabilities therefore. That thread then ends with its goroutine.
func asUser(uid int, f func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			// Go parks the main thread instead of ending it, and /proc/self is what that thread is: take another one.
			defer runtime.UnlockOSThread()
			result <- asUser(uid, f)
			return
		}
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); errno != 0 {
			result <- errno
			return
		}
		result <- f()
	}()
	return <-result
}

// A setuid bit shows in the second look however early it comes: the kernel closes descriptors, and shows the new program, before it gives the new
// ids. Without no_new_privs here, which is what keeps that from happening to a child.
func TestObserveStartedWaitsForTheNewIDs(t *testing.T) {
	kerneltest.Require(t, kerneltest.Root)
	host := probeHost(t)
	dir, err := os.MkdirTemp("", "setuid")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "program")
	for _, err := range []error{os.Chmod(dir, 0o755), os.WriteFile(path, program, 0o755), unix.Chmod(path, 0o4755)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil || fs.Flags&unix.ST_NOSUID != 0 {
		t.Skip("setuid bits don't act here")
	}
	_, credential := ordinary()
	self, err := Locate(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		child := startThrowAway(t, "exec="+path, &syscall.SysProcAttr{Credential: credential})
		for deadline := time.Now().Add(5 * time.Second); ; {
			location, err := Locate(child.Process.Pid)
			if err != nil {
				t.Fatal(err)
			}
			if location.ExeID != self.ExeID {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("it never executes")
			}
		}
		state, err := ObserveStarted(child.Process.Pid, host)
		if err != nil {
			t.Fatal(err)
		}
		if got := state.Threads[0].UIDs; got[1] != 0 {
			t.Fatalf("uids %v of a program with root's setuid bit", got)
		}
		child.Process.Kill()
		child.Wait()
	}
}

// BenchmarkObserve looks at a process that was never looked at before in each round, which is what an exec costs; the spawn isn't counted.
func BenchmarkObserve(b *testing.B) {
	host := probeHost(b)
	for b.Loop() {
		b.StopTimer()
		command := exec.Command("/bin/cat")
		stdin, err := command.StdinPipe()
		if err != nil {
			b.Fatal(err)
		}
		command.Stdout = nil
		if err := command.Start(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if _, err := Observe(command.Process.Pid, host); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		stdin.Close()
		command.Wait()
		b.StartTimer()
	}
}

// BenchmarkObserveAgain looks at the same process.
func BenchmarkObserveAgain(b *testing.B) {
	host := probeHost(b)
	child := startThrowAway(b, "exec=/bin/cat", nil)
	time.Sleep(50 * time.Millisecond) // for cat to be one thread
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Observe(child.Process.Pid, host); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkObserveUndumpable is a child as an ordinary user's daemon sees it at the gate: its descriptors are copied one by one.
func BenchmarkObserveUndumpable(b *testing.B) {
	kerneltest.Require(b, kerneltest.UserNamespaces)
	host := probeHost(b)
	child := startThrowAway(b, "undumpable", &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: InsideID, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: InsideID, HostID: os.Getegid(), Size: 1}},
	})
	for b.Loop() {
		if _, err := Observe(child.Process.Pid, host); err != nil {
			b.Fatal(err)
		}
	}
}
