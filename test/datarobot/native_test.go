package datarobot

import (
	"context"
	json "encoding/json/v2"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/execd/datarobot"
	"github.com/sandboxd/sandboxd/policy"
)

// notNative are vectors without a counterpart in a request: the reason, by the beginning of their id.
var notNative = map[string]string{
	"env-code-unset":              "the code comes in a request, not in a variable",
	"env-code-empty":              "an empty program is one",
	"env-code-bad-padding":        "nothing is base64 in a request",
	"env-code-b64-with-newlines":  "nothing is base64 in a request",
	"env-code-whitespace-only":    "nothing is base64 in a request",
	"env-code-urlsafe":            "nothing is base64 in a request",
	"env-code-invalid-utf8":       "a request is UTF-8, or refused",
	"env-inputs-bad-b64":          "nothing is base64 in a request",
	"env-timeout-":                "the limit is a number in a request",
	"env-procs-":                  "the limit of processes is the plan's",
	"env-visible-to-code":         "there are no variables of the contract",
	"run-subprocess-inherits-env": "there are no variables of the contract",
	"run-uid":                     "the ids are the plan's",
	"run-tmp-missing-root-ro":     "the reference's root refuses by permission, ours is read-only",
	"exc-numpy-absent":            "says what an image has",
	"mem-limit":                   "depends on the size of the interpreter",
}

// better is what run does where the reference does worse. An empty how is "value", an empty value null.
type better struct {
	outcome    execd.Outcome
	exit       int
	value, how string
	stdout     string // exactly, unless it is "*"
	refused    string // a part of the refusal: nothing runs
}

// native are the vectors that the reference gets wrong, in the form that docs/datarobot.md promises.
var native = map[string]better{
	"env-code-utf8-bom":               {outcome: "ok", value: "1"},
	"env-code-nul":                    {refused: "code"},
	"env-code-too-large-140k":         {outcome: "ok", value: "140000"},
	"env-inputs-too-large-140k":       {outcome: "ok", value: "140000"},
	"env-inputs-huge-int":             {refused: "an integer of"},
	"env-inputs-too-deep":             {refused: "exceeded max depth"},
	"bind-runner-frames":              {outcome: "ok", value: "true"},
	"exc-runner-class-via-main":       {outcome: "error", exit: 1},
	"exit-08":                         {outcome: "error", exit: 137, value: `"v"`},
	"exit-124":                        {outcome: "error", exit: 124, value: `"v"`},
	"exit-124-forged-line":            {outcome: "error", exit: 124},
	"exit-unprintable":                {outcome: "error", exit: 1, value: "1"},
	"exit-os-exit":                    {outcome: "error", exit: 5, how: "none", stdout: "seen\n"},
	"exit-os-exit-unflushed":          {outcome: "ok", how: "none", stdout: "partial"},
	"exit-os-exit-124":                {outcome: "error", exit: 124, how: "none"},
	"exit-os-abort":                   {outcome: "signaled", exit: 134, how: "none"},
	"sig-sigkill":                     {outcome: "signaled", exit: 137, how: "none"},
	"sig-sigterm":                     {outcome: "signaled", exit: 143, how: "none"},
	"sig-sigsegv":                     {outcome: "signaled", exit: 139, how: "none"},
	"sig-sigusr1":                     {outcome: "signaled", exit: 138, how: "none"},
	"sig-sighup":                      {outcome: "signaled", exit: 129, how: "none"},
	"sig-sigxcpu":                     {outcome: "signaled", exit: 152, how: "none"},
	"sig-null-deref":                  {outcome: "signaled", exit: 139, how: "none"},
	"sig-faulthandler":                {outcome: "signaled", exit: 139, how: "none"},
	"tmo-partial-line":                {outcome: "timeout", exit: 124, stdout: "no newline"},
	"tmo-swallow-exception":           {outcome: "timeout", exit: 124, value: `"_SandboxTimeout"`},
	"tmo-swallow-and-loop":            {outcome: "timeout", exit: 124, how: "none"},
	"tmo-bare-except":                 {outcome: "timeout", exit: 124, value: "10"},
	"tmo-alarm-zero":                  {outcome: "timeout", exit: 124},
	"tmo-alarm-handler":               {outcome: "timeout", exit: 124, how: "*"}, // ends in its grace, or is killed
	"tmo-alarm-ignore":                {outcome: "timeout", exit: 124, how: "*"},
	"tmo-alarm-blocked":               {outcome: "timeout", exit: 124, how: "*"},
	"tmo-alarm-early":                 {outcome: "error", exit: 1, value: `"early"`},
	"tmo-c-loop":                      {outcome: "timeout", exit: 124, how: "none"},
	"tmo-thread-nondaemon":            {outcome: "timeout", exit: 124, value: `"main done"`},
	"tmo-atexit-hang":                 {outcome: "timeout", exit: 124, value: `"done"`},
	"tmo-in-del":                      {outcome: "timeout", exit: 124, how: "*"},
	"tmo-return-value-repr-slow":      {outcome: "timeout", exit: 124, how: "*"},
	"tmo-setitimer":                   {outcome: "error", exit: 1},
	"mk-no-newline":                   {outcome: "ok", value: "1", stdout: "tail"},
	"mk-no-newline-error":             {outcome: "error", exit: 1, stdout: "tail"},
	"mk-atexit-forged":                {outcome: "ok", value: `"real"`, stdout: datarobot.Marker + "\"forged\"\n"},
	"mk-os-exit-forged":               {outcome: "ok", how: "none", stdout: datarobot.Marker + "\"forged\"\n"},
	"mk-child-forged":                 {outcome: "ok", value: `"real"`},
	"mk-thread-forged":                {outcome: "ok", value: `"real"`, stdout: datarobot.Marker + "\"forged\"\n"},
	"mk-stdout-closed":                {outcome: "ok", value: "1"},
	"mk-fd1-closed":                   {outcome: "ok", value: "1"},
	"mk-stdout-replaced":              {outcome: "ok", value: "1"},
	"mk-stdout-devnull":               {outcome: "ok", value: "1"},
	"mk-stdout-none":                  {outcome: "ok", value: "1"},
	"mk-stderr-closed":                {outcome: "error", exit: 1},
	"ser-nan":                         {outcome: "ok", value: "[null, null, null]", how: "replaced"},
	"ser-str-fails":                   {outcome: "ok", how: "failed"},
	"ser-repr-fails":                  {outcome: "ok", how: "failed"},
	"ser-deep-200000":                 {outcome: "ok", how: "failed"},
	"ser-huge-int":                    {outcome: "ok", how: "failed"},
	"ser-huge-int-unlimited":          {outcome: "ok", how: "failed"},
	"ser-mutate-during-str":           {outcome: "ok", how: "*"},
	"ser-json-patched":                {outcome: "ok", value: `"real"`},
	"ser-json-dumps-raises":           {outcome: "ok", value: `"real"`},
	"ser-print-patched":               {outcome: "ok", value: "1"},
	"run-input":                       {outcome: "error", exit: 1, stdout: "prompt> "},
	"run-fork-both":                   {outcome: "ok", value: `"parent"`},
	"run-fork-child-last":             {outcome: "ok", value: `"parent"`},
	"run-background-child-holds-pipe": {outcome: "ok", value: `"done"`},
	"run-daemonised-child":            {outcome: "ok", value: "true"},
	"run-traceback-patched":           {outcome: "error", exit: 1, value: "1"},
}

// since are vectors of what older versions of Python don't have, or say in other words: the minor version that has it.
var since = map[string]int{
	"exc-notes": 11, "exc-group": 11, "exc-broken-str": 11, "ser-strenum": 11, "src-type-params": 11, "run-asyncio-taskgroup": 11,
	"run-match": 10, "src-syntax-unterminated": 10,
}

// daemon is a service of our own with the real launcher, whose sandboxes are shown what is in show.
func daemon(t *testing.T, show ...string) *execd.Service {
	t.Helper()
	config := execd.DefaultConfig(t.TempDir())
	config.RunnerPath = runner(t)
	config.ClaimFile = filepath.Join(config.StateDir, "ids")
	config.FirstUID, config.UIDs = 1_500_000+os.Getpid()%1000*1000, 1000
	config.Show = show
	s, err := execd.New(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

// TestNative: `run` does what the reference does, as exit code, value, stdout and stderr tell, and better where the reference does worse.
func TestNative(t *testing.T) {
	python, err := exec.LookPath("/usr/bin/python3")
	if err != nil {
		t.Skip("no /usr/bin/python3, which sandboxes are shown")
	}
	version := version(t, python)
	s, ran := daemon(t), 0
	for _, row := range runnerVectors(t) {
		if why := excluded(notNative, row.ID); why != "" {
			if row.Quirk && native[row.ID].outcome != "" {
				t.Errorf("%s is in both lists", row.ID)
			}
			continue
		}
		ran++
		t.Run(row.ID, func(t *testing.T) { checkNative(t, s, row, version, nil) })
	}
	if ran < 330 {
		t.Errorf("only %d vectors ran", ran)
	}
}

// TestNativeOfEachPython: the same with every other CPython of this machine, with a part of the vectors each: those whose answers versions change, and of
// the others as many as together are all. Those of the clock are left to the system's Python.
func TestNativeOfEachPython(t *testing.T) {
	rows, others := runnerVectors(t), managedPythons(t)
	if len(others) == 0 {
		t.Skip("no CPython but the system's, in .pyenv/versions of the home directory")
	}
	var show []string
	for _, python := range others {
		show = append(show, python.folder)
	}
	s := daemon(t, show...)
	for n, python := range others {
		t.Run(fmt.Sprintf("3.%d", python.minor), func(t *testing.T) {
			t.Parallel()
			env := map[string]string{"PATH": filepath.Join(python.folder, "bin") + ":/usr/bin:/bin"}
			for i, row := range rows {
				always := len(row.PyDiff) > 0 || strings.HasPrefix(row.ID, "exc-") || strings.HasPrefix(row.ID, "src-")
				if excluded(notNative, row.ID) != "" || strings.HasPrefix(row.ID, "tmo-") || python.minor < since[row.ID] || !always && i%len(others) != n {
					continue
				}
				t.Run(row.ID, func(t *testing.T) { checkNative(t, s, row, fmt.Sprintf("3.%d", python.minor), env) })
			}
		})
	}
}

// managed is an interpreter beside the system's, and the folder that it needs.
type managed struct {
	folder string
	minor  int // of 3
}

func managedPythons(t *testing.T) []managed {
	t.Helper()
	home, err := os.UserHomeDir()
	if err != nil {
		return nil
	}
	paths, err := filepath.Glob(filepath.Join(home, ".pyenv/versions/*/bin/python3"))
	if err != nil {
		t.Fatal(err)
	}
	var found []managed
	for _, path := range paths {
		folder, err := filepath.EvalSymlinks(filepath.Dir(filepath.Dir(path)))
		out, failed := exec.Command(path, "-I", "-S", "-c", "import sys; print(sys.implementation.name, sys.version_info[0], sys.version_info[1])").Output()
		python := managed{folder: folder}
		if _, bad := fmt.Sscanf(string(out), "cpython 3 %d", &python.minor); errors.Join(err, failed, bad) == nil && python.minor >= 9 {
			found = append(found, python)
		}
	}
	return found
}

// checkNative runs a vector in a sandbox, with variables besides.
func checkNative(t *testing.T, s *execd.Service, row vector, version string, env map[string]string) {
	request, err := nativeRequest(t, row)
	want, special := native[row.ID]
	if row.Quirk && !special {
		t.Fatal("the reference gets it wrong, and nothing is said of what we do")
	}
	reference := row.expectation(t, version)
	switch {
	case want.refused != "":
		if err == nil || !strings.Contains(err.Error(), want.refused) {
			t.Errorf("the error is %v, want %q in it", err, want.refused)
		}
		return
	case err != nil && reference.Marker == "absent" && !special:
		return // refused before anything runs, where the reference fails in its own way
	case err != nil:
		t.Fatal(err)
	}
	request.Program.Env = env
	reply := s.Exec(t.Context(), request, execd.Options{})
	stdout, stderr := reply.Output()
	if !reply.TreeEmpty || reply.ExitCode == nil {
		t.Fatalf("outcome %s, tree empty %t: %s", reply.Outcome, reply.TreeEmpty, reply.Message)
	}
	value := string(reply.ReturnValue)
	if special {
		want.compare(t, reply, string(stdout), string(stderr))
		return
	}
	// The line of a timeout is the façade's to write: native stderr is what the program wrote.
	if strings.HasPrefix(row.ID, "tmo-") {
		reference.StderrContain = nil
		if reply.Outcome != execd.OutcomeTimeout {
			t.Errorf("outcome %s", reply.Outcome)
		}
	}
	if reference.Marker == "present" {
		clean, _ := parsed(t, string(stdout)+datarobot.Marker+"null\n")
		compare(t, reference, ending{*reply.ExitCode, value, clean, string(stderr)})
	} else {
		compare(t, reference, ending{*reply.ExitCode, strings.TrimPrefix(value, "null"), string(stdout), string(stderr)})
	}
}

// compare holds a reply against what is promised.
func (b better) compare(t *testing.T, reply execd.Reply, stdout, stderr string) {
	t.Helper()
	if reply.Outcome != b.outcome || *reply.ExitCode != b.exit || reply.TimedOut != (b.outcome == execd.OutcomeTimeout) {
		t.Errorf("%s, exit code %d; want %s, %d", reply.Outcome, *reply.ExitCode, b.outcome, b.exit)
	}
	if b.value == "" {
		b.value = "null"
	}
	if b.how == "" {
		b.how = "value"
	}
	if b.how != "*" && (string(reply.ReturnValue) != b.value || reply.ReturnValueHow != b.how) {
		t.Errorf("value %.100s, %s (%s); want %s, %s", reply.ReturnValue, reply.ReturnValueHow, reply.ReturnValueReason, b.value, b.how)
	}
	if b.how != "*" && b.how != "value" && reply.ReturnValueReason == "" {
		t.Errorf("no reason for %s", b.how)
	}
	if b.stdout != "*" && stdout != b.stdout {
		t.Errorf("stdout %.200q, want %q", stdout, b.stdout)
	}
	if t.Failed() {
		t.Logf("stderr: %.600s", stderr)
	}
}

// nativeRequest is the vector as a caller would ask it. NaN, which isn't JSON and which no body can have, goes in as a façade hands it over.
func nativeRequest(t *testing.T, row vector) (policy.Request, error) {
	t.Helper()
	code, ok := row.code()
	if !ok {
		t.Fatal("the vector has no code")
	}
	limits := policy.Limits{TimeoutSeconds: float64(row.Timeout), OutputBytes: 16 << 20}
	if strings.HasPrefix(row.ID, "tmo-") {
		limits.TimeoutSeconds = max(limits.TimeoutSeconds, 1)
	} else {
		limits.TimeoutSeconds = 60 // none of them is about its time, and machines are slow
	}
	inputs := row.inputs(t)
	if row.ID == "env-inputs-nan" {
		program := policy.Program{Language: policy.LanguagePython, Code: code, Inputs: inputs}
		return policy.Request{Action: policy.ActionRun, Caller: execd.Self(), Program: program, Limits: limits}, nil
	}
	text, err := json.Marshal(map[string]any{"code": code, "limits": map[string]any{"timeoutSeconds": limits.TimeoutSeconds, "outputBytes": limits.OutputBytes}})
	if err != nil {
		t.Fatal(err)
	}
	body := append(append([]byte(`{"inputs":`), inputs...), ',')
	request, _, err := execd.ParseRun(append(body, text[1:]...))
	request.Caller = execd.Self()
	return request, err
}

// excluded is why a vector isn't run, empty when it is.
func excluded(list map[string]string, id string) string {
	for prefix, why := range list {
		if strings.HasPrefix(id, prefix) {
			return why
		}
	}
	return ""
}

// runner builds the launcher.
func runner(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("SANDBOXD_BIN"); dir != "" {
		return filepath.Join(dir, "sandboxd-runner")
	}
	path := filepath.Join(t.TempDir(), "sandboxd-runner")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "github.com/sandboxd/sandboxd/cmd/sandboxd-runner")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}
