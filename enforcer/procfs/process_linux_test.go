package procfs

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

func openSelf(t testing.TB) *Process {
	t.Helper()
	self, err := Open(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(self.Close)
	return self
}

// What is read is what system calls say.
func TestProcessAgreesWithSystemCalls(t *testing.T) {
	self := openSelf(t)
	threads, err := self.Threads()
	if err != nil {
		t.Fatal(err)
	}
	leader := threads[slices.IndexFunc(threads, func(s Status) bool { return s.PID == os.Getpid() })]
	groups, err := os.Getgroups()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(groups)
	if leader.UIDs[0] != os.Getuid() || leader.UIDs[1] != os.Geteuid() || leader.GIDs[0] != os.Getgid() || !slices.Equal(leader.Groups, groups) && len(groups)+len(leader.Groups) > 0 {
		t.Errorf("ids %v %v %v; groups %v", leader.UIDs, leader.GIDs, leader.Groups, groups)
	}
	if leader.PPID != os.Getppid() || leader.TGID != os.Getpid() {
		t.Errorf("parent %d", leader.PPID)
	}
	limits, err := self.Limits()
	if err != nil {
		t.Fatal(err)
	}
	for i, resource := range Resources {
		var limit unix.Rlimit
		if err := unix.Getrlimit(resource.Number, &limit); err != nil {
			t.Fatal(err)
		}
		if limits[i].Name != resource.Name || limits[i].Soft != int64(limit.Cur) || limits[i].Hard != int64(limit.Max) {
			t.Errorf("%s: %+v, the kernel says %+v", resource.Name, limits[i], limit)
		}
	}
	cwd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := self.Link("cwd"); err != nil || got != cwd {
		t.Errorf("cwd %q, %v", got, err)
	}
	var stat unix.Stat_t
	if err := unix.Stat("/", &stat); err != nil {
		t.Fatal(err)
	}
	want := strconv.Itoa(int(unix.Major(stat.Dev))) + ":" + strconv.Itoa(int(unix.Minor(stat.Dev))) + ":" + strconv.FormatUint(stat.Ino, 10)
	if got, err := self.Identity("root"); err != nil || got != want {
		t.Errorf("root %q, want %q, %v", got, want, err)
	}
	if err := unix.Stat("/proc/self/ns/mnt", &stat); err != nil {
		t.Fatal(err)
	}
	if got, err := self.Namespace("mnt"); err != nil || got != stat.Ino {
		t.Errorf("mnt %d, want %d, %v", got, stat.Ino, err)
	}
	if _, err := self.Namespace("none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a kind of namespace that there isn't: %v", err)
	}
}

func TestFDsAreThoseThatAreOpen(t *testing.T) {
	self := openSelf(t)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	fds, err := self.FDs()
	if err != nil {
		t.Fatal(err)
	}
	text := fds[int(read.Fd())]
	if len(text) < 6 || text[:6] != "pipe:[" || text != fds[int(write.Fd())] {
		t.Errorf("the two ends of a pipe are %q and %q", text, fds[int(write.Fd())])
	}
	number := int(read.Fd())
	read.Close()
	if fds, err = self.FDs(); err != nil || fds[number] == text {
		t.Errorf("a closed descriptor is still %q, %v", fds[number], err)
	}
}

func TestThreadsAreAll(t *testing.T) {
	self := openSelf(t)
	const count = 20
	ready, done := make(chan int, count), make(chan struct{})
	var group sync.WaitGroup
	for range count {
		group.Go(func() { lockedThread(ready, done) })
	}
	var tids []int
	for range count {
		tids = append(tids, <-ready)
	}
	threads, err := self.Threads()
	close(done)
	group.Wait()
	if err != nil {
		t.Fatal(err)
	}
	for _, tid := range tids {
		if !slices.ContainsFunc(threads, func(s Status) bool { return s.PID == tid && s.TGID == os.Getpid() }) {
			t.Errorf("thread %d is missing", tid)
		}
	}
}

// An open Process is of one process for good: what comes after it under that number isn't taken for it.
func TestProcessOfTheDead(t *testing.T) {
	command := exec.Command("/bin/cat")
	stdin, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	process, err := Open(command.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer process.Close()
	if process.Ended() {
		t.Error("a process that waits for input has ended")
	}
	stdin.Close()
	if err := command.Wait(); err != nil {
		t.Fatal(err)
	}
	if !process.Ended() {
		t.Error("a process that was waited for hasn't ended")
	}
	_, threads := process.Threads()
	_, limits := process.Limits()
	_, mounts := process.Mounts()
	_, group := process.Cgroup()
	_, start := process.StartTime()
	_, fds := process.FDs()
	_, link := process.Link("exe")
	_, owner := process.Owner("environ")
	_, identity := process.Identity("root")
	_, namespace := process.Namespace("mnt")
	for name, err := range map[string]error{"threads": threads, "limits": limits, "mounts": mounts, "cgroup": group, "start": start, "fds": fds, "link": link,
		"owner": owner, "identity": identity, "namespace": namespace} {
		if err == nil {
			t.Errorf("%s of a process that is gone", name)
		}
	}
	if _, err := Open(command.Process.Pid); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("%v", err)
	}
	for _, pid := range []int{0, -1} {
		if _, err := Open(pid); err == nil {
			t.Errorf("process %d was opened", pid)
		}
	}
}

func TestReadAllGrows(t *testing.T) {
	file := filepath.Join(t.TempDir(), "large")
	want := bytes.Repeat([]byte("0123456789abcde\n"), 10_000)
	if err := os.WriteFile(file, want, 0o600); err != nil {
		t.Fatal(err)
	}
	fd, err := open(unix.AT_FDCWD, file, unix.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	got, err := readAll(fd, &buf)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d of %d bytes, %v", len(got), len(want), err)
	}
}

func TestReadlinkTooLong(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink("0123456789", link); err != nil {
		t.Fatal(err)
	}
	if text, err := readlink(unix.AT_FDCWD, link, make([]byte, 11)); err != nil || text != "0123456789" {
		t.Errorf("%q, %v", text, err)
	}
	// A text that fills the buffer may have been cut.
	if text, err := readlink(unix.AT_FDCWD, link, make([]byte, 10)); !errors.Is(err, unix.ENAMETOOLONG) {
		t.Errorf("%q, %v", text, err)
	}
}

func BenchmarkThreads(b *testing.B) {
	self := openSelf(b)
	for b.Loop() {
		if _, err := self.Threads(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMounts(b *testing.B) {
	self := openSelf(b)
	for b.Loop() {
		if _, err := self.Mounts(); err != nil {
			b.Fatal(err)
		}
	}
}

func lockedThread(ready chan<- int, done <-chan struct{}) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ready <- unix.Gettid()
	<-done
}
