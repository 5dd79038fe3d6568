package execd

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sandboxd/sandboxd/policy"
)

func TestMain(m *testing.M) {
	if path := os.Getenv("EXECD_TEST_DIAL"); path != "" {
		dialOnce(path)
	}
	if dir := os.Getenv("EXECD_TEST_DAEMON"); dir != "" {
		doomedDaemon(dir)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		removeRunner()
		os.Exit(code)
	}))
}

// dialOnce is another process, maybe of another user, that connects and says how that ended.
func dialOnce(path string) {
	conn, err := net.Dial("unix", path)
	if err != nil {
		os.Stdout.WriteString("dial: " + err.Error())
		os.Exit(0)
	}
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	data, err := io.ReadAll(conn)
	if errors.Is(err, syscall.ECONNRESET) {
		err = nil
	}
	os.Stdout.WriteString("read " + string(data))
	if err != nil {
		os.Stdout.WriteString(" " + err.Error())
	}
	os.Exit(0)
}

func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "s") // t.TempDir's names may be longer than a socket's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "run", "s")
}

func mode(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

func TestListenForOurselves(t *testing.T) {
	path := socketPath(t)
	l, err := Listen(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if mode(t, path) != 0o600 || mode(t, filepath.Dir(path)) != 0o700 {
		t.Errorf("modes %o in %o, want 600 in 700", mode(t, path), mode(t, filepath.Dir(path)))
	}
	if again, err := Listen(path, nil); err == nil || !strings.Contains(err.Error(), "a daemon is listening") {
		t.Errorf("on a live socket: %v, %v", again, err)
	}
	accepted := make(chan policy.Caller, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			close(accepted)
			return
		}
		caller, _ := callerOf(withCaller(context.Background(), conn))
		conn.Close()
		accepted <- caller
	}()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	want := policy.Caller{UID: os.Geteuid(), GID: os.Getegid(), PID: os.Getpid(), Via: "socket"}
	if got := <-accepted; got != want {
		t.Errorf("caller %+v, want %+v", got, want)
	}
	l.Close()
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is still there after Close: %v", err)
	}
}

func TestListenReplacesOurDeadSocketOnly(t *testing.T) {
	path := socketPath(t)
	dead := func() {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		l.Close()
	}
	dead()
	l, err := Listen(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	for name, put := range map[string]func(){
		"a file":         func() { os.WriteFile(path, nil, 0o600) },
		"a symlink":      func() { os.Symlink("/tmp/elsewhere", path) },
		"a directory":    func() { os.Mkdir(path, 0o700) },
		"another's":      func() { dead(); os.Lchown(path, 12345, 12345) },
		"a link to live": func() { dead(); os.Rename(path, path+"2"); os.Symlink(path+"2", path) },
	} {
		if name == "another's" && os.Geteuid() != 0 {
			continue // only root can make one
		}
		os.RemoveAll(path)
		put()
		if l, err := Listen(path, nil); err == nil {
			l.Close()
			t.Errorf("%s at the path was replaced", name)
		}
	}
}

func TestListenRefusesDirectories(t *testing.T) {
	for name, prepare := range map[string]func(dir string){
		"writable by others": func(dir string) { os.Mkdir(dir, 0o700); os.Chmod(dir, 0o777) },
		"readable by others": func(dir string) { os.Mkdir(dir, 0o700); os.Chmod(dir, 0o755) },
		"sticky":             func(dir string) { os.Mkdir(dir, 0o700); os.Chmod(dir, 0o777|os.ModeSticky) },
		"a symlink":          func(dir string) { os.Mkdir(dir+"2", 0o700); os.Symlink(dir+"2", dir) },
		"a file":             func(dir string) { os.WriteFile(dir, nil, 0o600) },
		"another's":          func(dir string) { os.Mkdir(dir, 0o700); os.Chown(dir, 12345, 12345) },
	} {
		if name == "another's" && os.Geteuid() != 0 {
			continue // only root can make one
		}
		path := socketPath(t)
		prepare(filepath.Dir(path))
		if l, err := Listen(path, nil); err == nil {
			l.Close()
			t.Errorf("a directory that is %s was taken", name)
		}
	}
	for _, path := range []string{"relative/s", "/tmp/" + strings.Repeat("x", 110)} {
		if l, err := Listen(path, nil); err == nil {
			l.Close()
			t.Errorf("%s was taken", path)
		}
	}
}

// TestStrangersAreClosed connects as other users: one who is allowed, one who isn't.
func TestStrangersAreClosed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be other users")
	}
	const friend, stranger = 23456, 34567
	path := socketPath(t)
	if err := os.Chmod(filepath.Dir(filepath.Dir(path)), 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := Listen(path, []int{0, friend})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	refused := make(chan policy.Caller, 1)
	l.(*Listener).onRefused(func(c policy.Caller, _ string) { refused <- c })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Write([]byte("hello"))
			conn.Close()
		}
	}()
	program := filepath.Join(filepath.Dir(filepath.Dir(path)), "dial")
	data, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, data, 0o755); err != nil {
		t.Fatal(err)
	}
	for uid, want := range map[uint32]string{friend: "read hello", stranger: "read "} {
		process := exec.Command(program)
		process.Env = []string{"EXECD_TEST_DIAL=" + path}
		process.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		out, err := process.Output()
		if err != nil || string(out) != want {
			t.Errorf("uid %d: %q, %v; want %q", uid, out, err, want)
		}
	}
	if got := <-refused; got.UID != stranger {
		t.Errorf("told of uid %d, want %d", got.UID, stranger)
	}
}

// TestCloseLeavesAnothersSocket: a daemon that ends late must not take the path from the one that came after it.
func TestCloseLeavesAnothersSocket(t *testing.T) {
	path := socketPath(t)
	first, err := Listen(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	second, err := Listen(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	first.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the second socket is gone: %v", err)
	}
}
