package datarobot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json/jsontext"
	json "encoding/json/v2"
	"fmt"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/runner/python"
)

// elsewhere are vectors that have no counterpart here: the reason, by the beginning of their id.
var elsewhere = map[string]string{
	"ser-coroutine":               "the second line of a warning at the interpreter's end is printed only where something has imported warnings, as the reference has",
	"env-code-":                   "the code comes in a request, not in a variable",
	"env-timeout-":                "the wall clock is the daemon's",
	"env-procs-":                  "the limit of processes is the plan's",
	"env-visible-to-code":         "there are no variables to hide",
	"run-subprocess-inherits-env": "there are no variables of the contract",
	"run-import-main":             "asks whether __main__ is the reference's own",
	"tmo-":                        "the wall clock is the daemon's",
	"run-uid":                     "the ids are the plan's",
	"run-tmp-missing-root-ro":     "the root is the sandbox's",
	"exc-numpy-absent":            "says what an image has",
	"mem-limit":                   "depends on the size of the interpreter",
	"env-inputs-bad-b64":          "inputs aren't base64 here",
	"env-inputs-too-large":        "there is no limit of the environment",
}

// runVector is one program with the answer of the reference runner.
type runVector struct {
	ID        string                               `json:"id"`
	Code      *string                              `json:"code"`
	CodeGen   *generated                           `json:"code_gen"`
	Inputs    jsontext.Value                       `json:"inputs"`
	InputsGen *generated                           `json:"inputs_gen"`
	Env       map[string]*string                   `json:"env"`
	Quirk     bool                                 `json:"reference_quirk"`
	Expect    map[string]jsontext.Value            `json:"expect"`
	PyDiff    map[string]map[string]jsontext.Value `json:"py_diff"`
}

// expectation is what has to come of it, with what differs in one version of Python.
type expectation struct {
	ExitCode      *int     `json:"exit_code"`
	Marker        string   `json:"marker"`
	Value         *string  `json:"return_value_json"`
	ValuePattern  *string  `json:"return_value_pattern"`
	ValueSHA256   *string  `json:"return_value_sha256"`
	StdoutClean   *string  `json:"stdout_clean"`
	StdoutSHA256  *string  `json:"stdout_sha256"`
	StderrContain []string `json:"stderr_contains"`
}

func (v runVector) expectation(t *testing.T, version string) expectation {
	t.Helper()
	merged := maps.Clone(v.Expect)
	maps.Copy(merged, v.PyDiff[version])
	text, err := json.Marshal(merged)
	if err != nil {
		t.Fatal(err)
	}
	var want expectation
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatalf("%s: %v", v.ID, err)
	}
	return want
}

// inputs is the text of the inputs variable; raw says that the vector wrote it itself.
func (v runVector) inputs(t *testing.T) jsontext.Value {
	t.Helper()
	if encoded, ok := v.Env["DR_SANDBOX_INPUTS_B64"]; ok && encoded != nil && *encoded != "" {
		text, err := base64.StdEncoding.DecodeString(*encoded)
		if err != nil {
			t.Fatalf("%s: %v", v.ID, err)
		}
		return text
	}
	switch {
	case v.InputsGen != nil:
		return jsontext.Value(v.InputsGen.String())
	case len(v.Inputs) > 0 && string(v.Inputs) != "null":
		return v.Inputs
	}
	return jsontext.Value("{}")
}

// What the reference runner does with a program, ours does: exit code, value as Python wrote it, stdout and stderr. Vectors that the reference
// itself gets wrong are tested where they are put right.
func TestRunConformance(t *testing.T) {
	rows := vectors[runVector](t, "vectors.jsonl")
	interpreter, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	out, err := exec.Command(interpreter, "-I", "-c", "import sys; print('%d.%d' % sys.version_info[:2])").Output()
	version := strings.TrimSpace(string(out))
	if err != nil || !slices.Contains([]string{"3.11", "3.12", "3.13"}, version) {
		t.Skipf("the vectors are of CPython 3.11 to 3.13, not of %s", version)
	}
	ran := 0
next:
	for _, row := range rows {
		for prefix := range elsewhere {
			if row.Quirk || strings.HasPrefix(row.ID, prefix) {
				continue next
			}
		}
		want := row.expectation(t, version)
		inputs := row.inputs(t)
		if err := policy.CheckPythonJSON("inputs", inputs); err != nil {
			// Refused before anything runs, where the reference fails in its own way. It takes NaN, which isn't JSON.
			if want.Marker != "absent" && row.ID != "env-inputs-nan" {
				t.Errorf("%s: inputs are refused: %v", row.ID, err)
			}
			continue
		}
		code := ""
		if row.Code != nil {
			code = *row.Code
		} else if row.CodeGen != nil {
			code = row.CodeGen.String()
		}
		// What the parser of run refuses or strips never reaches the driver.
		if strings.Contains(code, "\x00") || strings.HasPrefix(code, "\ufeff") || !utf8.ValidString(code) {
			continue
		}
		ran++
		compare(t, row.ID, want, runNatively(t, interpreter, policy.Program{Language: "python", Code: code, Inputs: inputs}))
	}
	if ran < 200 {
		t.Errorf("only %d vectors ran", ran)
	}
}

// native is how a program ended.
type native struct {
	result         python.Result
	exit           int
	stdout, stderr []byte
}

func compare(t *testing.T, id string, want expectation, got native) {
	t.Helper()
	if want.ExitCode != nil && got.exit != *want.ExitCode {
		t.Errorf("%s: exit code %d, want %d; stderr %s", id, got.exit, *want.ExitCode, got.stderr)
	}
	value := string(got.result.Text)
	switch {
	case want.Value != nil && value != *want.Value:
		t.Errorf("%s: value %.200s (%s), want %.200s", id, value, got.result.Reason, *want.Value)
	case want.ValueSHA256 != nil && sum(value) != *want.ValueSHA256:
		t.Errorf("%s: value %.200s… has another digest", id, value)
	case want.ValuePattern != nil && !regexp.MustCompile(`^(?:`+*want.ValuePattern+`)$`).MatchString(value):
		t.Errorf("%s: value %.200s doesn't match %s", id, value, *want.ValuePattern)
	case want.Marker == "absent" && value != "null":
		t.Errorf("%s: value %.200s, want none", id, value)
	}
	// The reference's stdout is what its client's parser leaves of it, once the runner has written its marker behind.
	stdout := got.stdout
	if want.Marker == "present" {
		clean, _, _, err := ParseMarker(append(bytes.Clone(stdout), Marker+"null\n"...))
		if err != nil {
			t.Fatal(err)
		}
		stdout = clean
	}
	text := string([]rune(string(stdout))) // U+FFFD for each bad byte
	if want.StdoutClean != nil && text != *want.StdoutClean {
		t.Errorf("%s: stdout %.200q, want %.200q", id, text, *want.StdoutClean)
	}
	if want.StdoutSHA256 != nil && sum(text) != *want.StdoutSHA256 {
		t.Errorf("%s: stdout %.200q… has another digest", id, text)
	}
	for _, part := range want.StderrContain {
		if !strings.Contains(string(got.stderr), part) {
			t.Errorf("%s: stderr %.400q lacks %q", id, got.stderr, part)
		}
	}
}

func sum(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// runNatively runs p unconfined: what is compared is the driver.
func runNatively(t *testing.T, interpreter string, p policy.Program) native {
	t.Helper()
	argv, extra, result, err := python.Invocation(p, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer result.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, interpreter, argv[1:]...)
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LANG=C.UTF-8", "HOME=" + cmd.Dir}
	cmd.ExtraFiles = extra
	cmd.WaitDelay = 2 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, file := range extra {
		file.Close()
	}
	value := make(chan python.Result, 1)
	go func() { value <- python.ReadResult(result, 64<<20) }()
	_ = cmd.Wait() // Of a status other than 0, looked at below.
	if ctx.Err() != nil {
		t.Fatal(fmt.Errorf("%.200s: %w", p.Code, ctx.Err()))
	}
	if err := result.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	exit := cmd.ProcessState.ExitCode()
	if exit < 0 {
		exit = 128 + int(cmd.ProcessState.Sys().(syscall.WaitStatus).Signal())
	}
	return native{<-value, exit, stdout.Bytes(), stderr.Bytes()}
}
