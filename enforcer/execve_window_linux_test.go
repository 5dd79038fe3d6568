package enforcer

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/test/kerneltest"
)

// TestObserveStartedInTheMiddleOfExecve holds an execve of a setuid program where its descriptors are being closed and its new ids aren't in force: a file of a
// file system that doesn't answer holds up its own close. The second look waits for the ids; without the wait it would see the old ones.
//
// There are kernels, 6.1 among them, that close before they take the lock which the look waits for. There the look comes when it does in an exec, where the
// runner knows more than that the gate was closed: once the new program's memory is in place, which the lock is taken for.
func TestObserveStartedInTheMiddleOfExecve(t *testing.T) {
	kerneltest.Require(t, kerneltest.Root)
	host := probeHost(t)
	program := setuidCopy(t)
	slow := slowToClose(t)
	defer slow.answer() // before anybody waits for the child
	_, credential := ordinary()
	child := startThrowAway(t, "open="+slow.path+" exec="+program, &syscall.SysProcAttr{Credential: credential})
	select {
	case <-slow.closing:
	case <-time.After(10 * time.Second):
		t.Fatal("nobody closes the file")
	}
	if status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", child.Process.Pid)); err != nil || !strings.Contains(string(status), fmt.Sprintf("\nUid:\t%d\t%[1]d\t", credential.Uid)) {
		t.Fatalf("it has its new ids already (%v):\n%s", err, status)
	}
	type look struct {
		state State
		err   error
	}
	looked := make(chan look, 1)
	go func() {
		for deadline := time.Now().Add(10 * time.Second); !hasNewMemory(child.Process.Pid, credential.Uid, 0) && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond) // polls the kernel
		}
		state, err := ObserveStarted(child.Process.Pid, host)
		looked <- look{state, err}
	}()
	var got look
	for began, waits := time.Now(), false; ; { // who doesn't wait there has looked at the ids by then, and may wait elsewhere
		select {
		case got = <-looked:
		case <-time.After(2 * time.Millisecond): // polls the kernel
			if !waits && (inSystemCall(t, unix.SYS_PIDFD_GETFD) || time.Since(began) > time.Second) {
				waits = true
				slow.answer()
			}
			continue
		}
		break
	}
	if got.err != nil {
		t.Fatal(got.err)
	}
	if uids := got.state.Threads[0].UIDs; uids[1] != 0 {
		t.Errorf("uids %v of a program with root's setuid bit: it looked before they were in force", uids)
	}
}

// hasNewMemory says whether a process that executes something has left the memory of its old program, one of ours. Until the new one is loaded it has next to
// none, and then it has the ids that it executes for.
func hasNewMemory(pid int, real uint32, effective int) bool {
	const ours = 64 << 10 // in KiB; the runtime reserves far more at its start
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return false
	}
	if strings.Contains(string(status), fmt.Sprintf("\nUid:\t%d\t%d\t", real, effective)) {
		return true
	}
	_, size, _ := strings.Cut(string(status), "\nVmSize:")
	size, _, _ = strings.Cut(strings.TrimSpace(size), " kB")
	kib, err := strconv.Atoi(size)
	return err == nil && kib < ours
}

// setuidCopy is this program with root's setuid bit.
func setuidCopy(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "setuid")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
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
	return path
}

// inSystemCall says whether a thread of this process is in a system call.
func inSystemCall(t *testing.T, number int) bool {
	t.Helper()
	calls, err := filepath.Glob("/proc/self/task/*/syscall")
	if err != nil {
		t.Fatal(err)
	}
	for _, call := range calls {
		text, _ := os.ReadFile(call)
		if first, _, _ := strings.Cut(string(text), " "); first == strconv.Itoa(number) {
			return true
		}
	}
	return false
}

// slowFile is a file whose close waits until it is answered.
type slowFile struct {
	path    string
	closing chan struct{}
	release chan struct{}
	once    sync.Once
}

func (s *slowFile) answer() { s.once.Do(func() { close(s.release) }) }

// The words of fuse.h that one file needs.
const (
	fuseGetattr, fuseOpen, fuseFlush, fuseInit, fuseForget = 3, 14, 25, 26, 2
	fuseIn, fuseOut                                        = 40, 16
)

// slowToClose mounts a file system that is one file.
func slowToClose(t *testing.T) *slowFile {
	t.Helper()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skip("this kernel has no FUSE: ", err)
	}
	dir, err := os.MkdirTemp("", "slow")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &slowFile{path: filepath.Join(dir, "file"), closing: make(chan struct{}), release: make(chan struct{})}
	for _, err := range []error{os.Chmod(dir, 0o755), os.WriteFile(s.path, nil, 0o644),
		unix.Mount("slow", s.path, "fuse", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("fd=%d,rootmode=100644,user_id=0,group_id=0,allow_other", fd))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	served := make(chan struct{})
	go func() { defer close(served); s.serve(fd) }()
	t.Cleanup(func() {
		s.answer()
		if err := unix.Unmount(s.path, unix.MNT_FORCE|unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
		<-served
		unix.Close(fd)
	})
	return s
}

// serve answers the kernel until the mount is gone.
func (s *slowFile) serve(fd int) {
	order, buffer := binary.NativeEndian, make([]byte, 1<<16)
	for first := true; ; {
		n, err := unix.Read(fd, buffer)
		if err == unix.EINTR || err == unix.ENOENT {
			continue
		}
		if err != nil || n < fuseIn {
			return
		}
		errno, body := int32(0), []byte(nil)
		switch order.Uint32(buffer[4:]) {
		case fuseForget:
			continue
		case fuseInit:
			body = order.AppendUint32(order.AppendUint32(nil, 7), 19) // a minor version with the short answer
			body = append(body, make([]byte, 16)...)
			order.PutUint32(body[20:], 1<<12)
		case fuseGetattr:
			body = make([]byte, 16+88)
			order.PutUint64(body[16:], 1)           // the inode
			order.PutUint32(body[16+60:], 0o100644) // and its mode
			order.PutUint32(body[16+64:], 1)
		case fuseOpen:
			body = make([]byte, 16)
		case fuseFlush:
			if first {
				first = false
				close(s.closing)
				<-s.release
			}
		default:
			errno = -int32(unix.ENOSYS)
		}
		out := order.AppendUint32(nil, uint32(fuseOut+len(body)))
		out = order.AppendUint32(out, uint32(errno))
		out = append(append(out, buffer[8:16]...), body...) // the request's number
		_, _ = unix.Write(fd, out)                          // who asked may be gone
	}
}
