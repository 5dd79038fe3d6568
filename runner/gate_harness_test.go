package runner

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/test/kerneltest"
)

// faultVariable has a worker that was started by a test walk a table with one call that fails: "N" for before step N.
const faultVariable = "GATE_TEST_FAULT"

// collectVariable has a worker collect its garbage after so many execs.
const collectVariable = "GATE_TEST_COLLECT"

// The test program is also the hostile program and the faulty worker of its tests. It must be so before TestMain, which knows of launchers only.
func init() {
	if len(os.Args) > 2 && os.Args[1] == "hostile" {
		os.Exit(hostile(os.Args[2:]))
	}
	if every := os.Getenv(collectVariable); every != "" {
		collectEvery, _ = strconv.Atoi(every)
	}
	if fault := os.Getenv(faultVariable); fault != "" {
		at, _ := strconv.Atoi(fault)
		alter = func(steps []Step) []Step { return faulty(steps, at) }
	}
}

// faulty is a table with one call more, which fails.
func faulty(steps []Step, at int) []Step {
	bad := Step{Name: "fault", Nr: unix.SYS_CLOSE, Args: [6]uint64{9999}, Gate: steps[at].Gate}
	return slices.Insert(slices.Clone(steps), at, bad)
}

// outsideUID is who workers outside of a sandbox run as: nobody with a process on the machine.
const outsideUID = 61007

// outsideWorker starts a worker outside of any sandbox, unprivileged, with the machine around it.
func outsideWorker(t testing.TB, env ...string) *worker {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to start a worker under another uid")
	}
	kerneltest.Require(t, kerneltest.Landlock(6)) // outside of a sandbox there is no cgroup: the worker's own scope is all that kills by
	binary, err := OpenBinary("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer binary.Close()
	ours, theirs, err := socketpair()
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	cmd := exec.Command("/proc/self/fd/4")
	cmd.Args, cmd.Env, cmd.Dir = []string{Name, "worker"}, env, "/"
	cmd.ExtraFiles = make([]*os.File, workerSocket-2)
	cmd.ExtraFiles[4-3], cmd.ExtraFiles[workerSocket-3] = binary, theirs
	pidfd := -1
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: outsideUID, Gid: outsideUID}, PidFD: &pidfd, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w := &worker{conn: ours, pidfd: os.NewFile(uintptr(pidfd), "pidfd"), pid: cmd.Process.Pid, gone: make(chan struct{})}
	go func() {
		cmd.Wait()
		close(w.gone)
	}()
	t.Cleanup(func() {
		w.conn.Close()
		select {
		case <-w.gone:
		case <-time.After(5 * time.Second):
			t.Error("the worker didn't end with its socket")
			killProcess(int(w.pidfd.Fd()))
			<-w.gone
		}
		w.pidfd.Close()
	})
	return w
}

// outsidePlan needs no privilege.
func outsidePlan() enforcer.Plan { return enforcer.Plan{Umask: 0o22, Kill: enforcer.KillShepherd} }

// kept is what became of a worker.
type kept struct{ put, clean bool }

func (k *kept) back(_ *worker, clean bool) { k.put, k.clean = true, clean }

// outside prepares an exec in a worker outside.
func outside(t testing.TB, w *worker, k *kept, plan enforcer.Plan, line string) (*Child, error) {
	t.Helper()
	inv := testInvocation(line)
	inv.Cwd = "/"
	return prepare(context.Background(), place{}, w, k.back, plan, inv, IO{OutputBytes: 1 << 20})
}

// descriptorsOf counts the open files of a process.
func descriptorsOf(t testing.TB, pid int) int {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// statusLine is a line of /proc/PID/status.
func statusLine(t testing.TB, pid int, name string) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		if value, found := strings.CutPrefix(string(line), name+":"); found {
			return strings.TrimSpace(value)
		}
	}
	t.Fatalf("no %s in %s", name, text)
	return ""
}

// processesOf counts the processes of a uid that aren't zombies, besides the given one.
func processesOf(t testing.TB, uid, besides int) (pids []int) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == besides {
			continue
		}
		text, err := os.ReadFile("/proc/" + entry.Name() + "/status")
		if err == nil && bytes.Contains(text, fmt.Appendf(nil, "\nUid:\t%d\t", uid)) {
			pids = append(pids, pid)
		}
	}
	return pids
}
