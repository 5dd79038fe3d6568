package landlock

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The test program restricts itself and tries things when it has this name: there is no way out of a domain.
const restrictedName = "restricted"

func TestMain(m *testing.M) {
	if os.Args[0] == restrictedName {
		restricted(os.Args[1])
	}
	if os.Args[0] == moverName {
		mover(os.Args[1], os.Args[2])
	}
	os.Exit(m.Run())
}

// restricted may read dir and write dir/write, and says what else it can.
func restricted(dir string) {
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	// Outside of the domain: connecting to it is what the scope refuses.
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		panic(err)
	}
	address := &unix.SockaddrUnix{Name: "@landlock-test-" + filepath.Base(dir)}
	if err := errors.Join(unix.Bind(socket, address), unix.Listen(socket, 1)); err != nil {
		panic(err)
	}
	fd, err := For(ABI(), []PathRule{{dir, Read}, {dir + "/write", Write}, {"/dev/null", Device}}, nil).Create()
	if err != nil {
		panic(err)
	}
	if err := RestrictSelf(fd); err != nil {
		panic(err)
	}
	try := func(name string, err error) { fmt.Printf("%s: %v\n", name, err) }
	open := func(path string, flags int) error {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NONBLOCK, 0o600)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}
	connect := func(family int, to unix.Sockaddr) error {
		fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Connect(fd, to)
	}
	try("read", open(dir+"/file", unix.O_RDONLY))
	try("write", open(dir+"/file", unix.O_WRONLY))
	try("truncate", unix.Truncate(dir+"/file", 0))
	try("create", open(dir+"/new", unix.O_CREAT|unix.O_WRONLY))
	try("write granted", open(dir+"/write/new", unix.O_CREAT|unix.O_WRONLY))
	try("truncate granted", unix.Truncate(dir+"/write/new", 0))
	try("FIFO", open(dir+"/fifo", unix.O_WRONLY))
	try("elsewhere", open("/etc/passwd", unix.O_RDONLY))
	try("null", open("/dev/null", unix.O_WRONLY))
	try("abstract", connect(unix.AF_UNIX, address))
	try("tcp", connect(unix.AF_INET, &unix.SockaddrInet4{Port: 1, Addr: [4]byte{127, 0, 0, 1}}))
	try("signal", unix.Kill(unix.Getppid(), 0))
	os.Exit(0)
}

func TestRestrictSelf(t *testing.T) {
	abi := ABI()
	if abi == 0 {
		t.Skip("this kernel has no Landlock")
	}
	dir := t.TempDir()
	if err := errors.Join(os.WriteFile(dir+"/file", []byte("kept"), 0o666), os.Mkdir(dir+"/write", 0o777), unix.Mkfifo(dir+"/fifo", 0o222)); err != nil {
		t.Fatal(err)
	}
	command := exec.Command("/proc/self/exe", dir)
	command.Args[0] = restrictedName
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	denied, refused := unix.EACCES.Error(), unix.EPERM.Error()
	want := map[string]string{"read": "<nil>", "write": denied, "create": denied, "write granted": "<nil>", "truncate granted": "<nil>", "FIFO": denied,
		"elsewhere": denied, "null": "<nil>"}
	if abi >= 3 {
		want["truncate"] = denied
	}
	if abi >= 4 {
		want["tcp"] = denied
	}
	if abi >= 6 {
		want["abstract"], want["signal"] = refused, refused
	}
	got := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, answer, _ := strings.Cut(strings.TrimSpace(line), ": ")
		got[name] = answer
	}
	for name, answer := range want {
		if got[name] != answer {
			t.Errorf("%s: %q, want %q", name, got[name], answer)
		}
	}
	if data, err := os.ReadFile(dir + "/file"); abi >= 3 && (err != nil || string(data) != "kept") {
		t.Errorf("the file has %q, %v", data, err)
	}
}

func TestCreateRefuses(t *testing.T) {
	if _, err := For(0, nil, nil).Create(); !errors.Is(err, ErrNothing) {
		t.Errorf("a ruleset that handles nothing: %v", err)
	}
	if ABI() == 0 {
		t.Skip("this kernel has no Landlock")
	}
	missing := filepath.Join(t.TempDir(), "none")
	_, err := For(ABI(), []PathRule{{"/usr", Read}, {missing, Read}}, nil).Create()
	if !errors.Is(err, unix.ENOENT) || !strings.Contains(err.Error(), missing) {
		t.Errorf("a rule for what isn't there: %v", err)
	}
	if _, err := For(1, []PathRule{{"/dev/null", unix.LANDLOCK_ACCESS_FS_MAKE_DIR}}, nil).Create(); err == nil {
		t.Error("a rule that grants nothing to its file was taken")
	}
	unknown := Ruleset{ABI: 99, HandledFS: 1 << 62}
	if _, err := unknown.Create(); !errors.Is(err, unix.EINVAL) {
		t.Errorf("a right that no kernel has: %v", err)
	}
}
