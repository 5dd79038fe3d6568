package faults

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// leakExecs is how many execs the daemon is looked at after: SANDBOXD_LEAK_EXECS=20000 for a long look.
func leakExecs(t *testing.T) int64 {
	t.Helper()
	text := os.Getenv("SANDBOXD_LEAK_EXECS")
	if text == "" {
		return 1500
	}
	count, err := strconv.ParseInt(text, 10, 32)
	if err != nil || count < 200 {
		t.Fatalf("SANDBOXD_LEAK_EXECS=%s: want a number of at least 200", text)
	}
	return count
}

// possessions is all that a daemon has of the machine.
type possessions struct {
	descriptors, goroutines, threads, processes, zombies, mounts, groups, namespaces int
	// memory is what isn't shared with a file, in KiB.
	memory int
}

// count waits until the daemon is at rest, with its pool full (two sandboxes, each with a worker), and counts.
func (d *daemon) count(t *testing.T) possessions {
	t.Helper()
	var p possessions
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) { // sandboxes end, and begin, in the background
		p = possessions{
			processes: len(d.left()), namespaces: d.namespaces(t), zombies: d.zombies(t), mounts: lines(t, fmt.Sprintf("/proc/%d/mountinfo", d.Process.Pid)),
			groups: d.groups(t), descriptors: d.descriptors(t), threads: d.memory(t, "Threads"), memory: d.memory(t, "RssAnon"),
			goroutines: int(d.metric(t, "go_goroutines")),
		}
		if d.metric(t, "sandboxd_sandboxes_ready") == 2 && p.processes == 4 && p.zombies == 0 && settled(p) {
			return p
		}
		if time.Now().After(deadline) {
			t.Errorf("not at rest: %+v\n%v", p, d.left())
			return p
		}
	}
}

// settled says that nobody is still being closed: there is a group for each of the two sandboxes, and one for its launcher, and the daemon's own.
func settled(p possessions) bool { return p.groups == 0 || p.groups == 5 }

func lines(t *testing.T, path string) int {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(data), "\n")
}

// zombies are children of the daemon that it hasn't reaped.
func (d *daemon) zombies(t *testing.T) (count int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range stats {
		data, _ := os.ReadFile(path)
		_, after, _ := strings.Cut(string(data), ") ")
		if fields := strings.Fields(after); len(fields) > 1 && fields[0] == "Z" && fields[1] == strconv.Itoa(d.Process.Pid) {
			count++
		}
	}
	return count
}

// groups are the cgroups of this daemon.
func (d *daemon) groups(t *testing.T) (count int) {
	t.Helper()
	for _, pattern := range []string{"/sys/fs/cgroup/sandboxd-%d-*", "/sys/fs/cgroup/*/sandboxd-%d-*"} {
		own, err := filepath.Glob(fmt.Sprintf(pattern, d.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		for _, group := range own {
			_ = filepath.WalkDir(group, func(_ string, entry fs.DirEntry, err error) error {
				if err == nil && entry.IsDir() {
					count++
				}
				return nil // what goes away meanwhile isn't there
			})
		}
	}
	return count
}

// namespaces are those that processes and descriptors of this daemon keep, besides its own.
func (d *daemon) namespaces(t *testing.T) int {
	t.Helper()
	found := map[string]bool{}
	for _, process := range d.left() {
		links, _ := filepath.Glob(strings.Fields(process)[0] + "/ns/*")
		for _, link := range links {
			if target, err := os.Readlink(link); err == nil {
				found[target] = true
			}
		}
	}
	for _, entry := range d.entries(t) {
		target, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", d.Process.Pid, entry.Name()))
		for _, kind := range []string{"mnt:", "net:", "pid:", "ipc:", "uts:", "user:"} {
			if strings.HasPrefix(target, kind) {
				found[target] = true
			}
		}
	}
	return len(found)
}

// all kinds of ends that an exec has.
func (d *daemon) kinds(box string) []string {
	return []string{
		`{"command":{"argv":["true"]}}`,
		`{"command":{"argv":["sh","-c","exit 3"]}}`,
		`{"command":{"argv":["sh","-c","kill -9 $$"]}}`,
		`{"command":{"argv":["no-such-program"]}}`,
		`{"command":{"argv":["true"]},"securityContext":{"privileged":true}}`,
		`{"command":{"argv":["sh","-c","setsid sleep 60 & sleep 60 & exit 0"]}}`,
		`{"command":{"argv":["sh","-c","setsid sleep 60 & sleep 60 # ` + d.marker + `"]},"limits":{"timeoutSeconds":0.05}}`,
		`{"command":{"argv":["sh","-c","head -c 100000 /dev/zero"],"stdin":"unread"},"limits":{"outputBytes":1000}}`,
		`{"command":{"argv":["cat"],"stdin":"read"},"stream":true}`,
		`{"command":{"argv":["sh","-c","sleep 0.01 & sleep 0.01"]},"sandbox":"` + box + `"}`,
		`{"command":{"argv":["true"]},"sandbox":"` + box + `"}`,
	}
}

// TestNothingLeaks: after many execs of all kinds the daemon has what it had after the first ones, and its memory stays where it was.
func TestNothingLeaks(t *testing.T) {
	needRoot(t)
	t.Parallel()
	d := start(t, binaries(t, ""), stateDir(t))
	box := d.makeSandbox(t)
	run := func(count int64) {
		var asked atomic.Int64
		var callers sync.WaitGroup
		kinds := d.kinds(box)
		for range 4 {
			callers.Go(func() {
				for n := asked.Add(1); n <= count; n = asked.Add(1) {
					got := d.post(t.Context(), "/v1/exec", kinds[int(n)%len(kinds)])
					if got.status != 200 && got.status != 403 {
						t.Errorf("%s: %+v", kinds[int(n)%len(kinds)], got)
					}
				}
			})
		}
		callers.Wait()
	}
	run(200)
	d.deleteSandbox(t, box)
	first := d.count(t)
	box = d.makeSandbox(t)
	count := leakExecs(t)
	began := time.Now()
	run(count)
	t.Logf("%d execs in %v", count, time.Since(began))
	d.deleteSandbox(t, box)
	last := d.count(t)
	t.Logf("after 200:  %+v\nafter %d: %+v", first, count, last)
	for name, values := range map[string][3]int{ // before, after, and what may come and go: connections that end, threads that the runtime keeps
		"descriptors": {first.descriptors, last.descriptors, 2},
		"goroutines":  {first.goroutines, last.goroutines, 4},
		"threads":     {first.threads, last.threads, 8},
		"processes":   {first.processes, last.processes, 0},
		"zombies":     {first.zombies, last.zombies, 0},
		"mounts":      {first.mounts, last.mounts, 0},
		"groups":      {first.groups, last.groups, 0},
		"namespaces":  {first.namespaces, last.namespaces, 0},
		"memory":      {first.memory, last.memory, 16 << 10},
	} {
		if before, after, slack := values[0], values[1], values[2]; after > before+slack {
			t.Errorf("%s: %d before, %d after %d execs", name, before, after, count)
		}
	}
	d.stop(t)
	for _, group := range deadGroups(t, time.Now()) {
		if strings.Contains(group, fmt.Sprintf("sandboxd-%d-", d.Process.Pid)) {
			t.Errorf("left behind: %s", group)
		}
	}
}
