package datarobot

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// likeReference are vectors that the reference gets wrong and whose answer is kept, each for the reason in docs/datarobot.md.
var likeReference = map[string]bool{
	"bind-runner-frames": true, "exit-08": true, "exit-124": true, "ser-nan": true, "env-timeout-not-int-0": true,
}

// dropin are the vectors that the reference gets wrong, in the form that docs/datarobot.md promises. value "" is no marker.
var dropin = map[string]struct {
	exit                  int
	value, stdout, stderr string
}{
	"env-code-whitespace-only-b64":    {1, "", "", "Only base64 data is allowed"},
	"env-code-urlsafe-alphabet":       {1, "", "", "Only base64 data is allowed"},
	"env-code-utf8-bom":               {0, "1", "", ""},
	"env-inputs-huge-int":             {1, "", "", "ValueError: inputs: an integer of"},
	"env-inputs-too-deep":             {1, "", "", "deep"},
	"env-inputs-too-large-140k":       {0, "140000", "", ""},
	"env-code-too-large-140k":         {0, "140000", "", ""},
	"env-timeout-zero":                {0, "86400", "", ""},
	"env-timeout-negative":            {0, "86400", "", ""},
	"env-timeout-unicode-digits":      {0, "3600", "", ""},
	"env-timeout-overflow":            {0, "1", "", ""},
	"env-procs-zero":                  {0, "false", "", ""},
	"env-procs-negative":              {0, "false", "", ""},
	"exc-runner-class-via-main":       {1, "null", "", "_SandboxTimeout: forged"},
	"exit-124-forged-line":            {124, "null", "", "sandbox exceeded timeout of 10s"},
	"exit-unprintable":                {1, "1", "", "RuntimeError: x"},
	"exit-os-exit":                    {5, "null", "seen", ""},
	"exit-os-exit-unflushed":          {0, "null", "partial", ""},
	"exit-os-exit-124":                {124, "null", "", ""},
	"exit-os-abort":                   {134, "null", "", ""},
	"sig-sigkill":                     {137, "null", "", ""},
	"sig-sigterm":                     {143, "null", "", ""},
	"sig-sigsegv":                     {139, "null", "", ""},
	"sig-sigusr1":                     {138, "null", "", ""},
	"sig-sighup":                      {129, "null", "", ""},
	"sig-sigxcpu":                     {152, "null", "", ""},
	"sig-null-deref":                  {139, "null", "", ""},
	"sig-faulthandler":                {139, "null", "", "Segmentation fault"},
	"tmo-partial-line":                {124, "null", "no newline", line},
	"tmo-swallow-exception":           {124, `"_SandboxTimeout"`, "", line},
	"tmo-swallow-and-loop":            {124, "null", "", line},
	"tmo-bare-except":                 {124, "10", "", line},
	"tmo-alarm-zero":                  {124, "null", "", line},
	"tmo-alarm-handler":               {124, "*", "", line},
	"tmo-alarm-ignore":                {124, "*", "", line},
	"tmo-alarm-blocked":               {124, "*", "", line},
	"tmo-alarm-early":                 {1, `"early"`, "", "_SandboxTimeout"},
	"tmo-c-loop":                      {124, "null", "", line},
	"tmo-thread-nondaemon":            {124, `"main done"`, "", line},
	"tmo-atexit-hang":                 {124, `"done"`, "", line},
	"tmo-in-del":                      {124, "*", "", line},
	"tmo-return-value-repr-slow":      {124, "*", "", line},
	"tmo-setitimer":                   {1, "null", "", "_SandboxTimeout"},
	"mk-no-newline":                   {0, "1", "tail", ""},
	"mk-no-newline-error":             {1, "null", "tail", "ZeroDivisionError"},
	"mk-atexit-forged":                {0, `"real"`, marker + `"forged"`, ""},
	"mk-os-exit-forged":               {0, "null", marker + `"forged"`, ""},
	"mk-child-forged":                 {0, `"real"`, "", ""},
	"mk-thread-forged":                {0, `"real"`, marker + `"forged"`, ""},
	"mk-stdout-closed":                {0, "1", "", ""},
	"mk-fd1-closed":                   {0, "1", "", ""},
	"mk-stdout-replaced":              {0, "1", "", ""},
	"mk-stdout-devnull":               {0, "1", "", ""},
	"mk-stdout-none":                  {0, "1", "", ""},
	"mk-stderr-closed":                {1, "null", "", "ZeroDivisionError"},
	"ser-str-fails":                   {0, "null", "", "no return value: "},
	"ser-repr-fails":                  {0, "null", "", "no return value: "},
	"ser-deep-200000":                 {0, "null", "", "no return value: "},
	"ser-huge-int":                    {0, "null", "", "no return value: "},
	"ser-huge-int-unlimited":          {0, "null", "", "no return value: "},
	"ser-mutate-during-str":           {0, "*", "", ""},
	"ser-json-patched":                {0, `"real"`, "", ""},
	"ser-json-dumps-raises":           {0, `"real"`, "", ""},
	"ser-print-patched":               {0, "1", "", ""},
	"run-input":                       {1, "null", "prompt> ", "EOFError"},
	"run-fork-both":                   {0, `"parent"`, "", ""},
	"run-fork-child-last":             {0, `"parent"`, "", ""},
	"run-background-child-holds-pipe": {0, `"done"`, "", ""},
	"run-daemonised-child":            {0, "true", "", ""},
	"run-traceback-patched":           {1, "1", "", "ZeroDivisionError"},
}

const (
	marker = "__DR_SANDBOX_RESULT__:"
	line   = "sandbox exceeded timeout of "
)

// TestDropin: `sandboxd-runner python` as the entry point of an image is the reference runner, byte for byte, and better where the reference does worse.
func TestDropin(t *testing.T) {
	rows := runnerVectors(t)
	program := shared(t, runner(t))
	for _, python := range pythons(t) {
		found := version(t, python)
		t.Run(found, func(t *testing.T) {
			for _, row := range rows {
				if os.Getuid() != 0 && (strings.HasPrefix(row.ID, "env-procs-one") || row.ID == "run-uid") {
					continue // they need a uid that has no other process
				}
				t.Run(row.ID, func(t *testing.T) { checkDropin(t, program, python, row, row.expectation(t, found)) })
			}
		})
	}
}

func checkDropin(t *testing.T, program, python string, row vector, reference expectation) {
	began := time.Now()
	got := runDropin(t, program, python, row)
	if took := time.Since(began); strings.HasPrefix(row.ID, "tmo-") && took > 20*time.Second {
		t.Errorf("took %s", took)
	}
	checkEnding(t, row, reference, got)
}

// checkEnding holds how a vector ended against the reference, or what is promised in its place.
func checkEnding(t *testing.T, row vector, reference expectation, got ending) {
	t.Helper()
	want, special := dropin[row.ID]
	if row.Quirk && !special && !likeReference[row.ID] {
		t.Fatal("the reference gets it wrong, and nothing is said of what we do")
	}
	if !special {
		compare(t, reference, got)
		return
	}
	if got.exit != want.exit || want.value != "*" && got.value != want.value || got.stdout != want.stdout || !strings.Contains(got.stderr, want.stderr) {
		t.Errorf("exit %d, value %.100s, stdout %.100q\nwant %d, %s, %q, stderr with %q\nstderr %.600s",
			got.exit, got.value, got.stdout, want.exit, want.value, want.stdout, want.stderr, got.stderr)
	}
}

// runDropin runs a vector as a container would: a uid of its own, a directory of its own, the environment of the contract.
func runDropin(t *testing.T, program, python string, row vector) ending {
	t.Helper()
	directory := shared(t, "")
	env := contractEnv(t, row, directory)
	maps.Copy(env, map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONUNBUFFERED": "1", "HOME": directory})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "python", "--strict", python)
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Dir = directory
	if os.Getuid() == 0 {
		id := uint32(65534)
		if !strings.HasPrefix(row.ID, "run-uid") {
			id = uint32(1_600_000 + os.Getpid()%10_000) // limits of processes count all of a uid
		}
		if err := os.Chown(directory, int(id), int(id)); err != nil {
			t.Fatal(err)
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: id, Gid: id}}
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var exited *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exited) {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	if ctx.Err() != nil {
		t.Fatal("it doesn't end")
	}
	clean, value := parsed(t, stdout.String())
	return ending{cmd.ProcessState.ExitCode(), value, clean, stderr.String()}
}

// contractEnv are the variables that a client of the contract sets; what is too long for one lies in directory.
func contractEnv(t *testing.T, row vector, directory string) map[string]string {
	t.Helper()
	env := map[string]string{
		"DR_SANDBOX_INPUTS_B64":   base64.StdEncoding.EncodeToString(row.rawInputs(t)),
		"DR_SANDBOX_TIMEOUT_SECS": fmt.Sprint(row.Timeout),
	}
	if code, ok := row.code(); ok {
		env["DR_SANDBOX_CODE_B64"] = base64.StdEncoding.EncodeToString([]byte(code))
		if len(code) > 90_000 && row.Quirk {
			env["DR_SANDBOX_CODE_FILE"] = write(t, directory, "code", []byte(code))
			delete(env, "DR_SANDBOX_CODE_B64")
		}
	}
	if inputs := row.rawInputs(t); len(inputs) > 100_000 {
		env["DR_SANDBOX_INPUTS_FILE"] = write(t, directory, "inputs", inputs)
		delete(env, "DR_SANDBOX_INPUTS_B64")
	}
	for name, value := range row.Env {
		if delete(env, name); value != nil {
			env[name] = *value
		}
	}
	return env
}

// shared copies a program to a directory that every uid can read, or gives a directory that only the test's uid can.
func shared(t *testing.T, program string) string {
	t.Helper()
	directory, err := os.MkdirTemp("", "dropin")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(directory) })
	if program == "" {
		return directory
	}
	if err := os.Chmod(directory, 0o755); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(directory, "sandboxd-runner")
	if err := os.WriteFile(path, data, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func write(t *testing.T, directory, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(directory, name)
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// pythons are the interpreters that every uid can execute: the system's, and those that SANDBOXD_PYTHONS lists besides.
func pythons(t *testing.T) []string {
	t.Helper()
	list := filepath.SplitList(os.Getenv("SANDBOXD_PYTHONS"))
	if path, err := exec.LookPath("/usr/bin/python3"); err == nil {
		list = append([]string{path}, list...)
	}
	if len(list) == 0 {
		t.Skip("no /usr/bin/python3, and SANDBOXD_PYTHONS lists no other")
	}
	return list
}
