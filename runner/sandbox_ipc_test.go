package runner

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// makeSysv leaves a System V object of each kind behind, and countSysv counts those that there are.
const (
	makeSysv  = "ipcmk -M 4096 && ipcmk -Q && ipcmk -S 3"
	countSysv = "cat /proc/sysvipc/shm /proc/sysvipc/msg /proc/sysvipc/sem | grep -vc key"
)

// TestSandboxWipesSystemV: what an exec leaves in the kernel beside files is there while an exec of the sandbox runs, and gone for who comes after the last.
func TestSandboxWipesSystemV(t *testing.T) {
	if _, err := os.Stat("/usr/bin/ipcmk"); err != nil {
		t.Skip("no ipcmk (util-linux)")
	}
	s := startSandbox(t, testConfig(t))
	count := func() string {
		t.Helper()
		return strings.TrimSpace(string(run(t, s, testInvocation(countSysv), IO{}).Stdout.Data))
	}
	left := run(t, s, testInvocation("{ "+makeSysv+"; } >/dev/null; "+countSysv), IO{})
	if got := strings.TrimSpace(string(left.Stdout.Data)); got != "3" {
		t.Fatalf("%q objects were made, want 3: %s", got, left.Stderr.Data)
	}
	if got := count(); got != "0" {
		t.Errorf("the next exec finds %s", got)
	}
	long := prepared(t, s, testPlan(t, s), testInvocation("read line; exit 0"))
	if err := errors.Join(long.Release(), long.Started(context.Background())); err != nil {
		t.Fatal(err)
	}
	run(t, s, testInvocation(makeSysv), IO{})
	if got := count(); got != "3" {
		t.Errorf("beside a running exec there are %s, want 3: they may be its", got)
	}
	long.Kill()
	if exit := long.Wait(context.Background()); !exit.TreeEmpty {
		t.Fatalf("%+v", exit)
	}
	if got := count(); got != "0" {
		t.Errorf("after the last exec there are %s", got)
	}
}

// TestEntriesWaitForTheWipe: nobody comes in while what earlier execs left is being removed, since what he makes could be taken for theirs.
func TestEntriesWaitForTheWipe(t *testing.T) {
	var e execs
	if wipe, _ := e.enter(); wipe {
		t.Error("there is nothing to wipe for the first")
	}
	if wipe, _ := e.enter(); wipe {
		t.Error("somebody runs")
	}
	e.leave()
	e.leave()
	wipe, born := e.enter()
	if !wipe {
		t.Error("nothing is wiped after the last")
	}
	if e.entry.TryLock() {
		t.Error("others may come in while what was left is being removed")
	}
	born()
	born()
	if wipe, _ := e.enter(); wipe {
		t.Error("somebody runs")
	}
}

func FuzzParseSysv(f *testing.F) {
	heading := "       key      msqid perms      cbytes       qnum lspid lrpid   uid   gid  cuid  cgid      stime      rtime      ctime\n"
	f.Add([]byte(heading))
	f.Add([]byte(heading + " 305419896          0   666            0          0     0     0 250001 250001 250001 250001          0          0 1700000000\n"))
	f.Add([]byte("\n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := parseSysv(data, 9)
		if err != nil && list != nil {
			t.Errorf("%v and %v", list, err)
		}
	})
}

func TestParseSysv(t *testing.T) {
	for _, kind := range sysv {
		if list, err := readSysv(kind.list, kind.column); err != nil && !errors.Is(err, unix.ENOENT) {
			t.Errorf("%s: %v %v", kind.list, list, err)
		}
	}
	for _, bad := range []string{"h\n1 2 3\n", "h\n1 x 2 3 4 5 6 7 8 9 10\n", "h\n1 2 3 4 5 6 7 8 9 x 1\n"} {
		if list, err := parseSysv([]byte(bad), 9); err == nil {
			t.Errorf("%q: %v", bad, list)
		}
	}
}
