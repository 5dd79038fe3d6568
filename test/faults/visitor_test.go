package faults

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// visitor is this test's binary as another process, maybe of another user or in another PID namespace.
const visitor = "visit"

// visitorProgram is a copy that every user may execute.
var visitorProgram = sync.OnceValues(func() (string, error) {
	data, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return "", err
	}
	path := filepath.Join(scratch, "visitor")
	return path, os.WriteFile(path, data, 0o755)
})

// visit has a process of that user do something, and gives what it says.
func visit(t *testing.T, uid int, arguments ...string) string {
	t.Helper()
	return visitAs(t, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}, arguments...)
}

func visitAs(t *testing.T, attributes *syscall.SysProcAttr, arguments ...string) string {
	t.Helper()
	program, err := visitorProgram()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(program, append([]string{visitor}, arguments...)...)
	command.SysProcAttr = attributes
	out, err := command.Output()
	if err != nil {
		t.Fatalf("visitor %v: %v %s", arguments, err, out)
	}
	return string(out)
}

// visited is the visitor's side.
func visited(arguments []string) {
	var err error
	switch arguments[0] {
	case "limit": // PID N: so many processes and threads for its user
		err = limitProcesses(arguments[1], arguments[2])
	case "inside": // PROGRAM ARGUMENTS: in the PID namespace that we are the first process of
		if err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err == nil {
			err = unix.Mount("proc", "/proc", "proc", 0, "")
		}
		if err == nil {
			err = unix.Exec(arguments[1], arguments[1:], os.Environ())
		}
	case "ask": // SOCKET REQUEST: the answer
		var conn net.Conn
		if conn, err = net.Dial("unix", arguments[1]); err != nil {
			fmt.Print("dial: ", err)
			err = nil
			break
		}
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		_, wrong := io.WriteString(conn, strings.ReplaceAll(arguments[2], `\n`, "\r\n"))
		data, _ := io.ReadAll(conn)
		fmt.Print(string(data))
		if len(data) == 0 {
			fmt.Print("closed: ", wrong)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func limitProcesses(process, most string) error {
	pid, err := strconv.Atoi(process)
	if err != nil {
		return err
	}
	var limit unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NPROC, nil, &limit); err != nil {
		return err
	}
	if limit.Cur, err = strconv.ParseUint(most, 10, 32); err != nil {
		return err
	}
	return unix.Prlimit(pid, unix.RLIMIT_NPROC, &limit, nil)
}

// owner is the uid of a process.
func owner(t *testing.T, pid int) uint32 {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if rest, found := strings.CutPrefix(line, "Uid:"); found {
			uid, err := strconv.ParseUint(strings.Fields(rest)[0], 10, 32)
			if err != nil {
				t.Fatal(err)
			}
			return uint32(uid)
		}
	}
	t.Fatalf("no uid of %d", pid)
	return 0
}
