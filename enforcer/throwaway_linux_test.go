package enforcer

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// The throw-away child is this test program run again: it sets state of its own by public calls and says so, then waits. That what Observe says
// of it is what it set is a comparison of two sources.
const throwAwayEnv = "ENFORCER_TEST_CHILD"

// init keeps the child's main goroutine on the process's first thread. From another thread, execve ends the first one and takes over its number:
// for that moment the process reads as one that is ending.
func init() {
	if os.Getenv(throwAwayEnv) != "" {
		runtime.LockOSThread()
	}
}

func TestMain(m *testing.M) {
	if what := os.Getenv(throwAwayEnv); what != "" {
		throwAwayChild(what)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// throwAwayChild does each of the words of what, then executes the program of "exec=PATH", or blocks on its input.
func throwAwayChild(what string) {
	do := func(err error) {
		if err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
	}
	for word := range strings.FieldsSeq(what) {
		if path, ok := strings.CutPrefix(word, "exec="); ok {
			unix.CloseOnExec(3)
			fmt.Println("ready")
			do(unix.Exec(path, []string{path}, []string{throwAwayEnv + "=wait"}))
		}
		if path, ok := strings.CutPrefix(word, "open="); ok { // until the next execve
			_, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
			do(err)
		}
		switch word {
		case "nnp":
			do(unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) // of this thread alone
		case "undumpable":
			do(unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
		case "umask":
			unix.Umask(0o027)
		case "limit":
			do(unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 77, Max: 88}))
			do(unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 0, Max: 0}))
		case "chdir":
			do(unix.Chdir("/dev"))
		}
	}
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
}

type throwAway struct {
	*exec.Cmd
	stdout *bufio.Reader
	stdin  *os.File
}

// startThrowAway starts one and waits until it is as it should be.
func startThrowAway(t testing.TB, what string, attr *syscall.SysProcAttr) throwAway {
	t.Helper()
	// By descriptor, since an ordinary user can't walk into the directory in which tests are built.
	exe, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	command := exec.Command("/proc/self/fd/3")
	command.ExtraFiles = []*os.File{exe}
	command.Env = []string{throwAwayEnv + "=" + what, "GOTRACEBACK=none"}
	command.SysProcAttr = attr
	command.Stderr = os.Stderr
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	command.Stdin = read
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	read.Close()
	child := throwAway{Cmd: command, stdout: bufio.NewReader(stdout), stdin: write}
	t.Cleanup(func() { write.Close(); command.Process.Kill(); command.Wait() })
	line, err := child.stdout.ReadString('\n')
	if err != nil || line != "ready\n" {
		t.Fatalf("throw-away child: %q, %v", line, err)
	}
	return child
}

// ordinary are an ordinary user's ids for a child, where the test is root.
func ordinary() (id int, credential *syscall.Credential) {
	if os.Geteuid() != 0 {
		return os.Geteuid(), nil
	}
	return 61250, &syscall.Credential{Uid: 61250, Gid: 61250, Groups: []uint32{61260}}
}

func pipeText(t testing.TB, f *os.File) string {
	t.Helper()
	text, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(f.Fd())))
	if err != nil {
		t.Fatal(err)
	}
	return text
}
