package runner

import (
	"context"
	"encoding/json/v2"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer/landlock"
)

// askedTo is what a test's hand in the sandbox is asked to do, as whom.
type askedTo struct {
	UID  int      `json:"uid"`
	GID  int      `json:"gid"`
	Acts []string `json:"acts"`
}

// answers are the results of acts, by name: "ok", an errno's name, or a text.
type answers map[string]string

// act does acts in a sandbox as its child identity, without any capability, but without the child's Landlock and seccomp: what is refused
// here is refused by the root and the namespaces alone.
func act(t testing.TB, s *Sandbox, names ...string) answers {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	w, err := s.worker(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer s.dropWorker(w)
	return askWorker(t, s, w, names...)
}

func askWorker(t testing.TB, s *Sandbox, w *worker, names ...string) answers {
	t.Helper()
	child := s.Plan().Child
	if _, err := w.conn.Write(encode(askedTo{UID: child.UID, GID: child.GID, Acts: names})); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 64<<10)
	w.conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	n, err := w.conn.Read(buffer)
	if err != nil {
		t.Fatalf("read the answers: %v", err)
	}
	got := answers{}
	if err := json.Unmarshal(buffer[:n], &got); err != nil {
		t.Fatal(err)
	}
	return got
}

// perform is the hand itself. It stays until it is killed.
func perform(asked askedTo) int {
	if err := becomeChild(asked); err != nil {
		return 1
	}
	got := answers{}
	for _, name := range asked.Acts {
		got[name] = actOf(name)()
	}
	if _, err := syscall.Write(workerSocket, encode(got)); err != nil {
		return 1
	}
	for {
		if n, err := syscall.Read(workerSocket, make([]byte, 1)); n <= 0 && err != syscall.EINTR {
			return 0
		}
	}
}

// actOf is an act of the tables, or "open PATH", "create PATH", "write PATH".
func actOf(name string) func() string {
	if do, ok := acts[name]; ok {
		return do
	}
	if do, ok := networkActs[name]; ok {
		return do
	}
	verb, path, _ := strings.Cut(name, " ")
	switch verb {
	case "open":
		return opens(path, unix.O_RDONLY)
	case "create":
		return opens(path, unix.O_CREAT|unix.O_WRONLY)
	case "write":
		return opens(path, unix.O_WRONLY)
	}
	return func() string { return "unknown act" }
}

// becomeChild takes the child's ids and empties all sets, on this thread, which does the acts and starts programs.
func becomeChild(asked askedTo) error {
	runtime.LockOSThread()
	if os.Getuid() != asked.UID {
		gid, uid := uintptr(asked.GID), uintptr(asked.UID)
		for _, call := range [][4]uintptr{{unix.SYS_SETGROUPS}, {unix.SYS_SETRESGID, gid, gid, gid}, {unix.SYS_SETRESUID, uid, uid, uid}} {
			if _, _, errno := unix.RawSyscall(call[0], call[1], call[2], call[3]); errno != 0 {
				return errno
			}
		}
	}
	return capset(0)
}

// outcomeOf is "ok" or the errno's name.
func outcomeOf(err error) string {
	if err == nil {
		return "ok"
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return unix.ErrnoName(errno)
	}
	return err.Error()
}

func opens(path string, flags int) func() string {
	return func() string {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o600)
		if err == nil {
			unix.Close(fd)
		}
		return outcomeOf(err)
	}
}

func reads(path string) func() string {
	return func() string {
		data, err := os.ReadFile(path)
		if err != nil {
			return outcomeOf(err)
		}
		return fmt.Sprint(len(data), " bytes")
	}
}

func lists(path string, keep func(string) bool) func() string {
	return func() string {
		entries, err := os.ReadDir(path)
		var names []string
		for _, entry := range entries {
			if keep(entry.Name()) {
				names = append(names, entry.Name())
			}
		}
		if err != nil {
			return outcomeOf(err)
		}
		return strings.Join(names, " ")
	}
}

func connects(family int, address unix.Sockaddr) func() string {
	return func() string {
		fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return outcomeOf(err)
		}
		defer unix.Close(fd)
		return outcomeOf(unix.Connect(fd, address))
	}
}

func number(name string) bool { _, err := strconv.Atoi(name); return err == nil }
func every(string) bool       { return true }

var acts = map[string]func() string{
	"create in /usr":      opens("/usr/x", unix.O_CREAT|unix.O_WRONLY),
	"create in /":         opens("/x", unix.O_CREAT|unix.O_WRONLY),
	"create in /dev":      opens("/dev/x", unix.O_CREAT|unix.O_WRONLY),
	"create in /etc":      opens("/etc/x", unix.O_CREAT|unix.O_WRONLY),
	"write /etc/passwd":   opens("/etc/passwd", unix.O_WRONLY),
	"open /root":          opens("/root", unix.O_RDONLY),
	"open /home":          opens("/home", unix.O_RDONLY),
	"open /etc/shadow":    opens("/etc/shadow", unix.O_RDONLY),
	"open /sys":           opens("/sys", unix.O_RDONLY),
	"open /run":           opens("/run", unix.O_RDONLY),
	"open /dev/kmsg":      opens("/dev/kmsg", unix.O_RDONLY),
	"write core_pattern":  opens("/proc/sys/kernel/core_pattern", unix.O_WRONLY),
	"write sysrq-trigger": opens("/proc/sysrq-trigger", unix.O_WRONLY),
	"write launcher":      opens("/proc/1/exe", unix.O_WRONLY),
	"write own program":   opens("/proc/self/exe", unix.O_WRONLY),
	"read own program":    opens("/proc/self/exe", unix.O_RDONLY),
	"read launcher":       opens("/proc/1/environ", unix.O_RDONLY),
	"leave by launcher":   opens("/proc/1/root/etc", unix.O_RDONLY),
	"open the FIFO":       opens(landlock.ProbeFIFO, unix.O_WRONLY|unix.O_NONBLOCK),
	"write /dev/null":     opens("/dev/null", unix.O_WRONLY),
	"read /proc/keys":     reads("/proc/keys"),
	"read kcore":          reads("/proc/kcore"),
	"read timer_list":     reads("/proc/timer_list"),
	"read interrupts":     reads("/proc/interrupts"),
	"read hostname":       func() string { data, err := os.ReadFile("/etc/hostname"); return string(data) + outcomeOf(err) },
	"list /":              lists("/", every),
	"list /dev":           lists("/dev", every),
	"list acpi":           lists("/proc/acpi", every),
	"list processes":      lists("/proc", number),
	"make a device":       func() string { return outcomeOf(unix.Mknod("/tmp/null", unix.S_IFCHR|0o666, 0x103)) },
	"mount":               func() string { return outcomeOf(unix.Mount("none", "/tmp", "tmpfs", 0, "")) },
	"remount /": func() string {
		return outcomeOf(unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND, ""))
	},
	"remount by setattr": func() string {
		return outcomeOf(unix.MountSetattr(unix.AT_FDCWD, "/usr", 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}))
	},
	"unmount a mask":    func() string { return outcomeOf(unix.Unmount("/proc/keys", unix.MNT_DETACH)) },
	"chroot":            func() string { return outcomeOf(unix.Chroot("/tmp")) },
	"pivot":             func() string { return outcomeOf(unix.PivotRoot("/tmp", "/tmp")) },
	"new mount ns":      func() string { return outcomeOf(unix.Unshare(unix.CLONE_NEWNS)) },
	"set hostname":      func() string { return outcomeOf(unix.Sethostname([]byte("evil"))) },
	"trace launcher":    func() string { return outcomeOf(unix.PtraceSeize(1)) },
	"look at launcher":  func() string { return outcomeOf(unix.Kill(1, 0)) },
	"connect to probe":  connects(unix.AF_UNIX, &unix.SockaddrUnix{Name: "@" + landlock.ProbeSocket}),
	"connect out":       connects(unix.AF_INET, &unix.SockaddrInet4{Port: 53, Addr: [4]byte{192, 0, 2, 1}}),
	"connect out by v6": connects(unix.AF_INET6, &unix.SockaddrInet6{Port: 53, Addr: [16]byte{0x20, 0x01, 0x0d, 0xb8, 15: 1}}),
	"connect to itself": connects(unix.AF_INET, &unix.SockaddrInet4{Port: 9, Addr: [4]byte{127, 0, 0, 1}}),
	"set uid 0": func() string {
		_, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, 0, 0, 0)
		if errno != 0 {
			return outcomeOf(errno)
		}
		return "ok"
	},
	"fill /tmp":          func() string { return outcomeOf(os.WriteFile("/tmp/big", make([]byte, 4<<20), 0o600)) },
	"write /work":        func() string { return outcomeOf(os.WriteFile("/work/x", []byte("x"), 0o600)) },
	"run from /work":     runCopy("/work/run"),
	"run from /dev/shm":  runCopy("/dev/shm/run"),
	"run in the sandbox": func() string { return outcomeOf(spawn("/bin/sh", "-c", "exit 0")) },
	"signal launcher":    signalLauncher,
	"leave a daemon":     leaveDaemon,
}

// runCopy puts a program somewhere and runs it.
func runCopy(path string) func() string {
	return func() string {
		if err := os.WriteFile(path, []byte("#!/bin/sh\nexit 0\n"), 0o700); err != nil {
			return outcomeOf(err)
		}
		return outcomeOf(spawn(path))
	}
}

func spawn(argv ...string) error {
	process, err := os.StartProcess(argv[0], argv, &os.ProcAttr{})
	if err != nil {
		return err
	}
	state, err := process.Wait()
	if err == nil && !state.Success() {
		return errors.New(state.String())
	}
	return err
}

// signalLauncher sends PID 1 every signal that there is, plain and queued with a value.
func signalLauncher() string {
	results := map[string]int{}
	for signal := 1; signal <= 64; signal++ {
		results[outcomeOf(unix.Kill(1, syscall.Signal(signal)))]++
		info := struct { // siginfo_t, as sigqueue(3) fills it in
			signo, errno, code int32
			_                  [116]byte
		}{signo: int32(signal), code: -1}
		_, _, errno := unix.RawSyscall(unix.SYS_RT_SIGQUEUEINFO, 1, uintptr(signal), uintptr(unsafe.Pointer(&info)))
		if errno != 0 {
			results[unix.ErrnoName(errno)]++
		} else {
			results["ok"]++
		}
	}
	return fmt.Sprint(results)
}

// leaveDaemon leaves a process in a session of its own that keeps our socket: its end shows at the other end of the socket.
func leaveDaemon() string {
	_, err := os.StartProcess("/bin/sh", []string{"sh", "-c", "trap '' TERM HUP INT; (sleep 1000 & sleep 1000)"}, &os.ProcAttr{
		Files: []*os.File{nil, nil, nil, os.NewFile(workerSocket, "socket")}, Sys: &syscall.SysProcAttr{Setsid: true}})
	return outcomeOf(err)
}

// TestSandboxRoot tries what the root and the namespaces must refuse to a child by themselves.
func TestSandboxRoot(t *testing.T) {
	s := startSandbox(t, testConfig(t))
	ordinary := os.Geteuid() != 0
	one := func(names ...string) string { return strings.Join(names, "|") }
	want := map[string]string{
		"create in /usr": "EROFS", "create in /": "EROFS", "create in /dev": "EROFS", "create in /etc": "EROFS",
		"write /etc/passwd": one("EROFS", "EACCES"), "open /root": "ENOENT", "open /home": "ENOENT", "open /etc/shadow": "ENOENT", "open /sys": "ENOENT",
		"open /run": "ENOENT", "open /dev/kmsg": "ENOENT", "write core_pattern": one("EACCES", "EROFS"),
		"write sysrq-trigger": one("EACCES", "EROFS", "ENOENT"), "write launcher": one("EACCES", "ENOENT", "EPERM"),
		"write own program": one("EACCES", "ETXTBSY", "EPERM"), "read own program": "EACCES",
		"read launcher": one("EACCES", "ENOENT", "EPERM"), "leave by launcher": one("EACCES", "ENOENT", "EPERM"),
		"open the FIFO": "ENXIO", "write /dev/null": "ok",
		"read /proc/keys": "0 bytes", "read kcore": one("0 bytes", "ENOENT"), "read timer_list": one("0 bytes", "ENOENT"),
		"read interrupts": one("0 bytes", "ENOENT"), "read hostname": "box\nok",
		"list /dev": "fd full null random shm stderr stdin stdout urandom zero", "list acpi": one("", "ENOENT"),
		"make a device": "EPERM", "mount": "EPERM", "remount /": "EPERM", "remount by setattr": "EPERM", "unmount a mask": "EPERM", "chroot": "EPERM",
		"pivot": "EPERM", "new mount ns": "EPERM", "set hostname": "EPERM", "trace launcher": one("EPERM", "ESRCH"), "look at launcher": "EPERM",
		"connect to probe": "ok", "connect out": "ENETUNREACH", "connect out by v6": one("ENETUNREACH", "EADDRNOTAVAIL", "EAFNOSUPPORT"),
		"connect to itself": "ECONNREFUSED", "set uid 0": one("EPERM", "EINVAL"),
		"fill /tmp": "ENOSPC", "write /work": "ok", "run from /work": "ok", "run from /dev/shm": "EACCES", "run in the sandbox": "ok",
	}
	if ordinary {
		want["look at launcher"] = "ok" // the child's Landlock domain is what refuses it there
	}
	if s.Network() != nil { // everything arrives at the fence, which nobody has opened
		want["connect out"], want["connect out by v6"] = "ECONNREFUSED", one("ECONNREFUSED", "EAFNOSUPPORT")
	}
	names := make([]string, 0, len(want))
	for name := range want {
		names = append(names, name)
	}
	got := act(t, s, append(names, "list /", "list processes")...)
	for name, allowed := range want {
		ok := false
		for _, one := range strings.Split(allowed, "|") {
			ok = ok || got[name] == one
		}
		if !ok {
			t.Errorf("%s: %q, want %s", name, got[name], allowed)
		}
	}
	if processes := strings.Fields(got["list processes"]); len(processes) > 1 {
		t.Errorf("a child sees processes %v", processes)
	}
	checkTop(t, s, got["list /"])
	if verdict, err := s.Verify(); err != nil || !verdict.Held() {
		t.Errorf("after all that: %v %v", err, verdict.Failed())
	}
}

// checkTop compares the top of the root with what the plan puts there.
func checkTop(t *testing.T, s *Sandbox, listed string) {
	want := map[string]bool{}
	top := func(path string) {
		first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
		want[first] = true
	}
	root := s.Plan().Root
	for _, m := range root.Mounts[1:] {
		top(m.Target)
	}
	for _, link := range root.Symlinks {
		top(link.Path)
	}
	for _, fifo := range root.FIFOs {
		top(fifo)
	}
	for _, file := range root.Files {
		top(file.Path)
	}
	got := strings.Fields(listed)
	for _, name := range got {
		if !want[name] {
			t.Errorf("/%s isn't in the plan", name)
		}
	}
	if len(got) != len(want) {
		t.Errorf("/ has %v, want %v", got, want)
	}
}

// TestSandboxDeafLauncher: nothing that a process inside can send ends PID 1. As an ordinary user they have the same uid, so every signal comes.
func TestSandboxDeafLauncher(t *testing.T) {
	s := startSandbox(t, testConfig(t))
	got := act(t, s, "signal launcher")["signal launcher"]
	want := "map[EPERM:128]"
	if os.Geteuid() != 0 {
		want = "map[ok:128]"
	}
	if got != want {
		t.Errorf("signals: %s, want %s", got, want)
	}
	if got := act(t, s, "run in the sandbox")["run in the sandbox"]; got != "ok" {
		t.Errorf("after that: %s", got)
	}
	if verdict, err := s.Verify(); err != nil || !verdict.Held() {
		t.Errorf("after that: %v %v", err, verdict.Failed())
	}
}
