package catalogue

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// B5: a process that waits for a dead file system is in D state, and no signal ends it. The answer comes all the same, in a bound; it says that
// the tree isn't proven empty; the sandbox and its ids are never used again, and are counted. When the file system's end frees the process, it dies.
func TestHungFileSystem(t *testing.T) {
	t.Parallel() // it takes as long as the daemon's bounds
	onlyRoot(t, "only root mounts a file system that others may use")
	mount := hungFileSystem(t)
	f := &fixture{bin: binaries(t), daemons: map[string]*daemon{}}
	f.show = shown(t, f.bin)
	f.probe = filepath.Join(f.show, "probe")
	f.daemons[""] = startDaemon(t, f.bin, "--show", f.show, "--show", mount.dir)
	d := f.daemons[""]
	t.Cleanup(mount.end) // before the daemon's end, which is graceful
	f.tier = string(d.status(t).Host.Tier)
	var running sync.WaitGroup
	for _, r := range []row{
		{id: "B5", what: "a leader in D state", body: `"limits":{"timeoutSeconds":4}`, run: []string{"PROBE", "read", mount.dir + "/leader"}, outcome: "timeout"},
		{id: "B5", what: "a child in D state, whose leader ends", run: []string{"sh", "-c", "PROBE read " + mount.dir + "/child & PROBE read " + mount.dir + "/after-the-child; echo over"}, outcome: "ok"},
	} {
		running.Go(func() {
			a := f.ask(t, r)
			a.read(t)
			if string(a.reply.Outcome) != r.outcome || a.status != 200 || a.reply.TreeEmpty || a.took > soon {
				t.Errorf("%s: %d %s after %s", r.what, a.status, a.body, a.took)
			}
			records := d.recorded(t, a.reply.ID)
			if last := records[len(records)-1]; last.Ending == nil || last.Ending.TreeEmpty || last.Ending.Outcome != r.outcome {
				t.Errorf("%s: the record says %+v", r.what, last.Ending)
			}
			count.hold()
		})
	}
	running.Wait()
	if mount.reads.Load() != 2 {
		t.Errorf("%d reads reached the file system: nobody was in D state", mount.reads.Load())
	}
	if stuck := inDState(t, "probe"); stuck != 2 {
		t.Errorf("%d are in D state: the kernel can kill them, and this test shows nothing", stuck)
	}
	if quarantined := d.status(t).Sandboxes.Quarantined; quarantined != 2 {
		t.Errorf("%d sandboxes in quarantine", quarantined)
	}
	if _, data, err := d.do(t.Context(), "GET", "/metrics", ""); err != nil || !strings.Contains(string(data), "\nsandboxd_sandboxes_quarantined 2\n") {
		t.Errorf("the metric doesn't count them: %v", err)
	}
	a := f.ask(t, row{id: "B5", what: "the next one", run: []string{"PROBE", "status"}, stderr: plain})
	a.judge(t)
	mount.end()
	for deadline := time.Now().Add(20 * time.Second); inDState(t, "probe") > 0; time.Sleep(20 * time.Millisecond) { // polls the kernel's state
		if time.Now().After(deadline) {
			t.Fatal("the file system is gone and they are still there")
		}
	}
}

// hung is a file system whose files can be opened and never read; but afterTheChild, which is empty once somebody reads the child's.
type hung struct {
	dir   string
	fd    int
	reads atomic.Int32
	once  sync.Once
}

// The files' numbers. The root's is 1 for every file system of this kind.
const (
	leaderFile = 2 + iota
	childFile
	afterTheChild
)

// The words of fuse.h that a mount needs before it may hang.
const (
	fuseLookup, fuseForget, fuseGetattr, fuseOpen, fuseRead = 1, 2, 3, 14, 15
	fuseInit, fuseInterrupt, fuseBatchForget                = 26, 36, 42
	fuseReaddir                                             = 28
	fuseAttrSize                                            = 88
)

func hungFileSystem(t *testing.T) *hung {
	t.Helper()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO) {
		count.note(count.skipped, "FUSE")
		t.Skip("SKIP: this kernel has no FUSE")
	}
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/var/tmp", "sandboxd-hung")
	if err != nil {
		t.Fatal(err)
	}
	h := &hung{dir: dir, fd: fd}
	t.Cleanup(func() { h.end(); os.Remove(dir) })
	options := fmt.Sprintf("fd=%d,rootmode=40755,user_id=0,group_id=0,allow_other", fd)
	if err := unix.Mount("hung", dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		t.Fatal(err)
	}
	go h.serve()
	return h
}

// end takes the mount away by force; the kernel then answers every request itself, that of serve too.
func (h *hung) end() {
	h.once.Do(func() { _ = unix.Unmount(h.dir, unix.MNT_FORCE|unix.MNT_DETACH) })
}

// serve answers what is asked until the mount is gone; reads it takes and keeps.
func (h *hung) serve() {
	defer unix.Close(h.fd)
	request := make([]byte, 1<<17)
	order := binary.NativeEndian
	var child bool
	var after uint64 // the read that waits for the child's
	for {
		n, err := unix.Read(h.fd, request)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil || n < 40 {
			return
		}
		unique, node := order.Uint64(request[8:]), order.Uint64(request[16:])
		var answer []byte
		errno := int32(0)
		switch order.Uint32(request[4:]) {
		case fuseForget, fuseBatchForget, fuseInterrupt:
			continue
		case fuseRead:
			switch node {
			case afterTheChild:
				after = unique
			case childFile:
				child = true
				h.reads.Add(1)
			default:
				h.reads.Add(1)
			}
			if child && after != 0 {
				h.answer(after, 0, nil)
				after = 0
			}
			continue
		case fuseInit:
			answer = make([]byte, 64)
			order.PutUint32(answer[0:], 7)
			order.PutUint32(answer[4:], 31)
			order.PutUint32(answer[20:], 1<<16) // max_write
		case fuseReaddir: // no entry: the daemon looks for sockets in what it shows
		case fuseGetattr:
			answer = append(make([]byte, 16), attributes(node)...)
		case fuseLookup:
			file := uint64(leaderFile)
			switch name, _, _ := strings.Cut(string(request[40:n]), "\x00"); name {
			case "child":
				file = childFile
			case "after-the-child":
				file = afterTheChild
			}
			answer = append(make([]byte, 40), attributes(file)...)
			order.PutUint64(answer[0:], file)
		case fuseOpen:
			answer = make([]byte, 16)
			order.PutUint32(answer[8:], 1) // FOPEN_DIRECT_IO
		default:
			errno = -int32(unix.ENOSYS)
		}
		h.answer(unique, errno, answer)
	}
}

// answer writes an answer; one that nobody waits for any more is refused by the kernel, which is all the same.
func (h *hung) answer(unique uint64, errno int32, data []byte) {
	message := make([]byte, 16, 16+len(data))
	binary.NativeEndian.PutUint32(message[0:], uint32(16+len(data)))
	binary.NativeEndian.PutUint32(message[4:], uint32(errno))
	binary.NativeEndian.PutUint64(message[8:], unique)
	_, _ = unix.Write(h.fd, append(message, data...))
}

// attributes are a struct fuse_attr: the root is a directory, anything else a file of a page.
func attributes(node uint64) []byte {
	attr := make([]byte, fuseAttrSize)
	mode := uint32(unix.S_IFREG | 0o644)
	if node == 1 {
		mode = unix.S_IFDIR | 0o755
	}
	binary.NativeEndian.PutUint64(attr[0:], node)
	binary.NativeEndian.PutUint64(attr[8:], 4096)
	binary.NativeEndian.PutUint32(attr[60:], mode)
	binary.NativeEndian.PutUint32(attr[64:], 1)
	return attr
}
