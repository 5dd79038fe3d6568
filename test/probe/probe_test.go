package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestMain lets the test binary be the probe.
func TestMain(m *testing.M) {
	if os.Getenv("PROBE_AS_PROGRAM") == "1" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func probe(t *testing.T, args ...string) (line, int) {
	t.Helper()
	command := exec.Command(os.Args[0], args...)
	command.Env = append(os.Environ(), "PROBE_AS_PROGRAM=1")
	var stdout bytes.Buffer
	command.Stdout = &stdout
	_ = command.Run() // the status is read below; a start that fails leaves no line
	var answer line
	if stdout.Len() > 0 {
		if err := json.Unmarshal(stdout.Bytes(), &answer); err != nil {
			t.Fatalf("%v printed %q: %v", args, stdout.Bytes(), err)
		}
	}
	return answer, command.ProcessState.ExitCode()
}

// A probe that couldn't succeed anywhere would make every sandbox look tight: what nobody refuses must be reported as not refused.
func TestUnconfinedActsSucceed(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	for _, args := range [][]string{
		{"write", file}, {"truncate", file}, {"open", file}, {"symlink", filepath.Join(dir, "link")}, {"mkdir", filepath.Join(dir, "d")},
		{"list", dir}, {"memfd"}, {"socket", "unix"}, {"kill", "0"}, {"file", file, "1"}, {"read", file}, {"unlink", file}, {"print", "0"}, {"exit", "0"},
		{"syscall", "getpid"}, {"syscall", "39"}, {"socket", "1", "1", "0"}, {"socketpair", "unix"}, {"copy-execute", dir}, {"spawn", "/bin/true"},
		{"sleep", "0.01"},
	} {
		if answer, status := probe(t, args...); answer.Act != args[0] && args[0] != "exit" || answer.Refused || status != 0 {
			t.Errorf("%v: refused by %s%s, status %d; nothing here forbids it", args, answer.Errno, answer.Signal, status)
		}
	}
}

func TestRefusalsCarryTheErrno(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "no", "file")
	for _, test := range []struct {
		args  []string
		errno string
	}{
		{[]string{"open", missing}, "ENOENT"},
		{[]string{"kill", "2147483647"}, "ESRCH"},
		{[]string{"syscall", "kill", "0x7fffffff", "0"}, "ESRCH"},
		{[]string{"socket", "63", "1", "0"}, "EAFNOSUPPORT"},
		{[]string{"read", "/dev/null"}, "ENODATA"},
		{[]string{"become", "/no/such/program"}, "ENOENT"},
		{[]string{"seccomp-none"}, "ENOSYS"},
		{[]string{"connect-unix", "@no-such-abstract-socket"}, "ECONNREFUSED"},
	} {
		if answer, status := probe(t, test.args...); !answer.Refused || answer.Errno != test.errno || status != 0 {
			t.Errorf("%v = %+v, status %d; want %s and 0", test.args, answer, status, test.errno)
		}
	}
}

func TestUntriedIsNotRefused(t *testing.T) {
	for _, args := range [][]string{{}, {"no-such-act"}, {"open"}, {"kill", "x"}, {"socket", "no-such-family"}, {"syscall", "no-such-call"}, {"fork-tree", "1", "--depht", "2"}, {"each"}} {
		if answer, status := probe(t, args...); answer.Act != "" || status != 2 {
			t.Errorf("%v = %+v, status %d; want no line and 2", args, answer, status)
		}
	}
}

// Each act of a list has a line of its own, and one that can't be tried ends the list.
func TestEach(t *testing.T) {
	command := exec.Command(os.Args[0], "each", "kill", "2147483647", "--", "socket", "unix", "--", "no-such-act", "--", "socket", "unix")
	command.Env = append(os.Environ(), "PROBE_AS_PROGRAM=1")
	out, _ := command.Output() // the status is what matters
	want := `{"act":"kill","args":["2147483647"],"refused":true,"errno":"ESRCH","number":3}` + "\n" + `{"act":"socket","args":["unix"],"refused":false}` + "\n"
	if string(out) != want || command.ProcessState.ExitCode() != 2 {
		t.Errorf("%s, status %d; want %s and 2", out, command.ProcessState.ExitCode(), want)
	}
}

func TestForkBombNeedsBothLayers(t *testing.T) {
	for status, want := range map[string]bool{
		"\nNoNewPrivs:\t1\nSeccomp:\t2\n": true,
		"\nNoNewPrivs:\t0\nSeccomp:\t2\n": false,
		"\nNoNewPrivs:\t1\nSeccomp:\t0\n": false,
		"":                                false,
	} {
		if got := confined(status); got != want {
			t.Errorf("confined(%q) = %v", status, got)
		}
	}
}
