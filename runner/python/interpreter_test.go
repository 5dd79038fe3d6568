package python

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/policy"
)

// interpreter is a CPython of this machine.
type interpreter struct {
	path  string
	minor int // of 3
	// ahead has it started before there is a job.
	ahead bool
	// compiled is what a run of it gets of the driver besides the text.
	compiled Compiled
}

// interpreters finds every CPython from 3.9 on: the one on the path and those of a version manager in the home directory.
func interpreters(t *testing.T) []interpreter {
	t.Helper()
	candidates := []string{}
	if path, err := exec.LookPath("python3"); err == nil {
		candidates = append(candidates, path)
	}
	if home, err := os.UserHomeDir(); err == nil {
		managed, err := filepath.Glob(filepath.Join(home, ".pyenv/versions/*/bin/python3"))
		if err != nil {
			t.Fatal(err)
		}
		candidates = append(candidates, managed...)
	}
	seen := map[string]bool{}
	found := []interpreter{}
	for _, path := range append(candidates, "/usr/bin/python3") {
		var python interpreter
		out, err := exec.Command(path, "-I", "-S", "-c", "import sys; print(sys.executable, sys.version_info[1], sys.implementation.name)").Output()
		fields := strings.Fields(string(out))
		if err != nil || len(fields) != 3 || fields[2] != "cpython" {
			continue
		}
		python.path = fields[0]
		for _, digit := range fields[1] {
			python.minor = python.minor*10 + int(digit-'0')
		}
		if real, err := filepath.EvalSymlinks(python.path); err == nil && !seen[real] && python.minor >= 9 {
			seen[real] = true
			found = append(found, python)
		}
	}
	if len(found) == 0 {
		t.Skip("no CPython 3.9 or newer on this machine")
	}
	return found
}

// eachInterpreter runs a subtest for each, which end after the test's own function. They have the driver compiled; that the text is as good is shown by
// what compiles it.
func eachInterpreter(t *testing.T, test func(t *testing.T, python interpreter)) {
	all := interpreters(t)
	ahead := all[0]
	ahead.ahead = true
	for _, python := range append(all, ahead) {
		if !python.ahead {
			python.compiled = compiledBy(t, python)
		}
		t.Run(fmt.Sprintf("3.%d, ahead %t", python.minor, python.ahead), func(t *testing.T) {
			t.Parallel()
			test(t, python)
		})
	}
}

// compiledBy has an interpreter compile the driver.
func compiledBy(t *testing.T, python interpreter) Compiled {
	t.Helper()
	got := runProgram(t, python, CompileProgram())
	compiled, err := ReadCompiled(got.result.Value)
	if err != nil {
		t.Fatalf("3.%d: %v; %s", python.minor, err, got.stderr)
	}
	return compiled
}

// ending is how a program ended.
type ending struct {
	result         Result
	exit           int // 128+n for a signal
	stdout, stderr string
}

// runProgram runs p with the interpreter, unconfined: what is tested is the driver.
func runProgram(t *testing.T, python interpreter, p policy.Program) ending {
	t.Helper()
	return runProgramFor(t, python, p, time.Minute)
}

func runProgramFor(t *testing.T, python interpreter, p policy.Program, limit time.Duration) ending {
	t.Helper()
	p.Language = policy.LanguagePython
	if p.Inputs == nil {
		p.Inputs = []byte("{}")
	}
	argv, extra, result, err := Invocation(p, limit, python.compiled, 3)
	if err != nil {
		t.Fatal(err)
	}
	var waiter *Waiter
	if python.ahead {
		for _, file := range append(extra, result) {
			file.Close()
		}
		if waiter, err = Ahead(nil, []string{t.TempDir()}, 3); err != nil {
			t.Fatal(err)
		}
		argv, extra, result = waiter.Argv, waiter.Extra, waiter.Result
		defer waiter.Close()
	}
	defer result.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, python.path, argv[1:]...)
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LANG=C.UTF-8", "HOME=" + cmd.Dir}
	cmd.ExtraFiles = extra
	cmd.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, file := range extra {
		file.Close()
	}
	if waiter != nil {
		if err := waiter.Ready(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		go func() { _ = waiter.Hand(p, bytes.NewReader(p.Inputs), limit) }() // which its end ends
	}
	value := make(chan Result, 1)
	go func() { value <- ReadResult(result, 64<<20) }()
	// The error is that of a status other than 0, which is looked at below, or of a pipe that a child of the program holds.
	_ = cmd.Wait()
	if ctx.Err() != nil {
		t.Fatalf("the program didn't end; stderr: %s", &stderr)
	}
	// What a forked child of the program may still hold open isn't waited for.
	if err := result.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	exit := cmd.ProcessState.ExitCode()
	if exit < 0 {
		exit = 128 + int(cmd.ProcessState.Sys().(syscall.WaitStatus).Signal())
	}
	return ending{<-value, exit, stdout.String(), stderr.String()}
}
