package faults

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestBrokenDisk: with the disk under the log failing in each way, no exec is released, the daemon says that it isn't ready and why, and once
// the disk is well it goes on by itself with a log that verifies.
func TestBrokenDisk(t *testing.T) {
	needRoot(t)
	t.Parallel()
	bin := binaries(t, "fault")
	state := stateDir(t)
	disk := filepath.Join(filepath.Dir(state), "disk")
	d := start(t, bin, state, "SANDBOXD_FAULT_DISK="+disk)
	for _, fault := range []string{"write EIO", "write ENOSPC", "sync EIO", "sync ENOSPC", "write EROFS"} {
		if err := os.WriteFile(disk, []byte(fault), 0o600); err != nil {
			t.Fatal(err)
		}
		d.refusesAll(t, fault)
		if err := os.Remove(disk); err != nil {
			t.Fatal(err)
		}
		d.mends(t, fault)
	}
	d.stop(t)
	// A daemon that can't open its log doesn't start, and one after it does.
	if err := os.WriteFile(disk, []byte("open EIO"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := prepare(t, bin, state, "SANDBOXD_FAULT_DISK="+disk)
	if err := broken.Run(); err == nil || !strings.Contains(broken.log.String(), "input/output error") {
		t.Errorf("on a log that can't be opened: %v\n%s", err, broken.log)
	}
	broken.nothingLeft(t)
	start(t, bin, state).stop(t)
}

// refusesAll asks for execs until one meets the fault, and then for one more: none of them has run.
func (d *daemon) refusesAll(t *testing.T, fault string) {
	t.Helper()
	first := d.exec(t, `"argv":["echo","ran"]`, "")
	if first.err != nil || first.Outcome != "infra" || first.Stdout != "" {
		t.Errorf("%s: %+v, want infra and nothing that ran\n%s", fault, first, d.log)
	}
	second := d.exec(t, `"argv":["echo","ran"]`, "")
	if second.status != 503 || second.Code != "NOT_READY" || !strings.Contains(second.Message, "audit log") {
		t.Errorf("%s: the next one: %+v, want 503 NOT_READY\n%s", fault, second, d.log)
	}
	if second.took > time.Second {
		t.Errorf("%s: it took %v to say no", fault, second.took)
	}
	if status, body := d.get(t, "/readyz"); status != 503 || !strings.Contains(body, "audit log") {
		t.Errorf("%s: readyz %d %s", fault, status, body)
	}
	if d.metric(t, "sandboxd_audit_broken") != 1 {
		t.Errorf("%s: no metric says so", fault)
	}
	if status, _ := d.get(t, "/healthz"); status != 200 {
		t.Errorf("%s: healthz %d; a restart doesn't mend a disk", fault, status)
	}
}

// mends waits until the daemon works again.
func (d *daemon) mends(t *testing.T, fault string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) { // it tries by itself
		if status, _ := d.get(t, "/readyz"); status == 200 {
			if got := d.exec(t, `"argv":["echo","ran"]`, ""); got.Outcome != "ok" || got.Stdout != "ran\n" {
				t.Errorf("after %s: %+v\n%s", fault, got, d.log)
			}
			d.verify(t)
			return
		}
	}
	t.Errorf("after %s the daemon doesn't go on\n%s", fault, d.log)
}

// TestFullDisk has the kernel's own ENOSPC: the state is on a file system of 256 KiB that fills up under the log's own growth.
func TestFullDisk(t *testing.T) {
	needRoot(t)
	t.Parallel()
	// This thread, and so the daemon that it starts, gets a mount namespace of its own. It ends with the test.
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	state := stateDir(t)
	if err := os.MkdirAll(state, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", state, "tmpfs", 0, "size=256k,mode=0700"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(state, unix.MNT_DETACH) }) // so that the directory can go
	bin := binaries(t, "")
	d := start(t, bin, state)
	filler := filepath.Join(state, "filler")
	leave(t, filler, 16<<10)
	refused := reply{}
	for range 100 {
		if refused = d.exec(t, `"argv":["echo","ran"]`, ""); refused.Outcome != "ok" {
			break
		}
	}
	// The record that didn't fit was that of a release, or of the end of the one before: then the daemon was no longer ready for this one.
	if refused.Stdout != "" || refused.Outcome != "infra" && refused.Code != "NOT_READY" {
		t.Errorf("on a full disk: %+v\n%s", refused, d.log)
	}
	if status, body := d.get(t, "/readyz"); status != 503 || !strings.Contains(body, "no space left") {
		t.Errorf("readyz %d %s", status, body)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	d.mends(t, "ENOSPC")
	d.stop(t)
}

// leave fills a file system up to so many bytes.
func leave(t *testing.T, path string, bytes int) {
	t.Helper()
	var space unix.Statfs_t
	if err := unix.Statfs(filepath.Dir(path), &space); err != nil {
		t.Fatal(err)
	}
	fill := int(space.Bavail)*int(space.Bsize) - bytes
	if fill <= 0 {
		t.Fatalf("%d bytes free, want more than %d", int(space.Bavail)*int(space.Bsize), bytes)
	}
	if err := os.WriteFile(path, make([]byte, fill), 0o600); err != nil {
		t.Fatal(fmt.Errorf("fill: %w", err))
	}
}

// TestFileSizeLimit: a daemon under RLIMIT_FSIZE, which is EFBIG and a signal with it, refuses like on a full disk and doesn't die of it.
func TestFileSizeLimit(t *testing.T) {
	needRoot(t)
	t.Parallel()
	d := start(t, binaries(t, ""), stateDir(t))
	files, err := filepath.Glob(filepath.Join(d.state, "audit", "audit-*.jsonl"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	info, err := os.Stat(files[0])
	if err != nil {
		t.Fatal(err)
	}
	var before unix.Rlimit
	limit := unix.Rlimit{Cur: uint64(info.Size()) + 100, Max: unix.RLIM_INFINITY}
	if err := unix.Prlimit(d.Process.Pid, unix.RLIMIT_FSIZE, &limit, &before); err != nil {
		t.Fatal(err)
	}
	d.refusesAll(t, "EFBIG")
	if err := unix.Prlimit(d.Process.Pid, unix.RLIMIT_FSIZE, &before, nil); err != nil {
		t.Fatal(err)
	}
	d.mends(t, "EFBIG")
	d.stop(t)
}

// TestHungDisk: a disk that doesn't answer holds up nobody for longer than its bound, is told by readiness, releases nothing, and can't keep a daemon
// from stopping. What the log has verifies, and the next daemon starts.
func TestHungDisk(t *testing.T) {
	needRoot(t)
	t.Parallel()
	bin := binaries(t, "fault")
	state := stateDir(t)
	disk := filepath.Join(filepath.Dir(state), "disk")
	hang := func() {
		if err := os.WriteFile(disk, []byte("sync hang"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d := start(t, bin, state, "SANDBOXD_FAULT_DISK="+disk)
	hang()
	first := make(chan reply, 1)
	go func() { first <- d.post(t.Context(), "/v1/exec", `{"command":{"argv":["echo","ran"]}}`) }()
	d.awaitTrouble(t, "doesn't answer")
	if got := d.exec(t, `"argv":["echo","ran"]`, ""); got.status != 503 || got.Code != "NOT_READY" || got.took > time.Second {
		t.Errorf("while it hangs: %+v, want 503 at once", got)
	}
	if got := <-first; got.Outcome != "infra" || got.Stdout != "" || got.took > 15*time.Second {
		t.Errorf("the one that met it: %+v, want infra within its bound", got)
	}
	if err := os.Remove(disk); err != nil {
		t.Fatal(err)
	}
	d.mends(t, "hang")
	hang()
	go d.post(t.Context(), "/v1/exec", `{"command":{"argv":["echo","ran"]}}`)
	d.awaitTrouble(t, "doesn't answer")
	if err := d.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-d.ended:
	case <-time.After(time.Minute):
		t.Fatalf("a hung disk keeps the daemon from stopping\n%s", d.log)
	}
	d.nothingLeft(t)
	d.verify(t)
	if err := os.Remove(disk); err != nil {
		t.Fatal(err)
	}
	start(t, bin, state).stop(t)
}

// awaitTrouble waits until readiness says why not.
func (d *daemon) awaitTrouble(t *testing.T, why string) {
	t.Helper()
	for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) { // polls what the test is about
		response, err := d.client.Get("http://sandboxd/readyz")
		if err != nil {
			continue // it doesn't listen yet
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if response.StatusCode == 503 && strings.Contains(string(body), why) {
			return
		}
	}
	t.Errorf("readiness doesn't say %q\n%s", why, d.log)
}
