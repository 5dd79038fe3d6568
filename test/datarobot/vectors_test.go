package datarobot

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json/jsontext"
	json "encoding/json/v2"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/execd/datarobot"
)

// vectors reads a file of vectors.
func vectors[T any](t *testing.T, name string) []T {
	t.Helper()
	folder := os.Getenv("SANDBOXD_CONFORMANCE")
	if folder == "" {
		t.Skip("SANDBOXD_CONFORMANCE doesn't name the folder of the conformance material")
	}
	data, err := os.ReadFile(filepath.Join(folder, "datarobot", name))
	if err != nil {
		t.Fatal(err)
	}
	rows := []T{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var row T
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatalf("%v: %.100s", err, lines.Bytes())
		}
		rows = append(rows, row)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return rows
}

// runnerVectors are those of the runner contract.
func runnerVectors(t *testing.T) []vector {
	t.Helper()
	rows := vectors[vector](t, "vectors.jsonl")
	if len(rows) != 379 {
		t.Fatalf("%d vectors, want 379", len(rows))
	}
	return rows
}

// vector is one program with the answer of the reference runner.
type vector struct {
	ID        string                               `json:"id"`
	Code      *string                              `json:"code"`
	CodeGen   *generated                           `json:"code_gen"`
	Inputs    jsontext.Value                       `json:"inputs"`
	InputsGen *generated                           `json:"inputs_gen"`
	Env       map[string]*string                   `json:"env"`
	Timeout   int                                  `json:"timeout_s"`
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

func (v vector) expectation(t *testing.T, version string) expectation {
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
func (v vector) inputs(t *testing.T) jsontext.Value {
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

// rawInputs is the text of the inputs that the contract's variable has, before the vector replaces it.
func (v vector) rawInputs(t *testing.T) []byte {
	t.Helper()
	v.Env = nil
	return v.inputs(t)
}

// generated is a text that a vector describes instead of writing it out.
type generated struct {
	Prefix string `json:"prefix"`
	Char   string `json:"char"`
	Count  int    `json:"count"`
	Suffix string `json:"suffix"`
	Close  string `json:"close"`
}

func (g generated) String() string {
	return g.Prefix + strings.Repeat(g.Char, g.Count) + g.Suffix + strings.Repeat(g.Close, g.Count)
}

// code is the source text; false: the vector sets the raw variable.
func (v vector) code() (string, bool) {
	switch {
	case v.Code != nil:
		return *v.Code, true
	case v.CodeGen != nil:
		return v.CodeGen.String(), true
	}
	return "", false
}

// ending is how a program ended, whoever ran it. value is "" when nobody said one.
type ending struct {
	exit           int
	value          string
	stdout, stderr string
}

// compare holds an ending against what the reference did. stdout must be as the client's parser leaves it.
func compare(t *testing.T, want expectation, got ending) {
	t.Helper()
	if want.ExitCode != nil && got.exit != *want.ExitCode {
		t.Errorf("exit code %d, want %d", got.exit, *want.ExitCode)
	}
	switch {
	case want.Value != nil && got.value != *want.Value:
		t.Errorf("value %.200s, want %.200s", got.value, *want.Value)
	case want.ValueSHA256 != nil && sum(got.value) != *want.ValueSHA256:
		t.Errorf("value %.200s… has another digest", got.value)
	case want.ValuePattern != nil && !regexp.MustCompile(`^(?:`+*want.ValuePattern+`)$`).MatchString(got.value):
		t.Errorf("value %.200s doesn't match %s", got.value, *want.ValuePattern)
	case want.Marker == "absent" && got.value != "":
		t.Errorf("value %.200s, want none", got.value)
	}
	text := string([]rune(got.stdout)) // U+FFFD for each bad byte
	if want.StdoutClean != nil && text != *want.StdoutClean {
		t.Errorf("stdout %.200q, want %.200q", text, *want.StdoutClean)
	}
	if want.StdoutSHA256 != nil && sum(text) != *want.StdoutSHA256 {
		t.Errorf("stdout %.200q… has another digest", text)
	}
	for _, part := range want.StderrContain {
		if !strings.Contains(got.stderr, part) {
			t.Errorf("stderr %.600q lacks %q", got.stderr, part)
		}
	}
	if t.Failed() {
		t.Logf("stderr: %.600s", got.stderr)
	}
}

// markerLine is the beginning of a line, after any of the ends that the client's parser knows.
var markerLine = regexp.MustCompile(`(?:^|[\n\r\v\f\x1c-\x1e\x{85}\x{2028}\x{2029}])` + datarobot.Marker)

// parsed is what the client's parser makes of a runner's stdout.
func parsed(t *testing.T, stdout string) (clean, value string) {
	t.Helper()
	left, _, found, err := datarobot.ParseMarker([]byte(stdout))
	if err != nil {
		t.Errorf("the client's parser fails: %v", err)
	}
	if !found {
		return string(left), ""
	}
	// The value as it is written, tokens that aren't JSON included, and perhaps the marker too: it is the last line that begins with that.
	begins := markerLine.FindAllStringIndex(stdout, -1)
	value = stdout[begins[len(begins)-1][1]:]
	value, _, _ = strings.Cut(value, "\n")
	return string(left), value
}

// version is that of an interpreter, as py_diff has it. Others than those that the vectors were observed on are no judge of them.
func version(t *testing.T, python string) string {
	t.Helper()
	out, err := exec.Command(python, "-I", "-c", "import sys; print('%d.%d' % sys.version_info[:2])").Output()
	found := strings.TrimSpace(string(out))
	if err != nil || !slices.Contains([]string{"3.11", "3.12", "3.13"}, found) {
		t.Skipf("the vectors are of CPython 3.11 to 3.13, %s is %q (%v)", python, found, err)
	}
	return found
}

func sum(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
