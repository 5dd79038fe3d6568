package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/execd"
)

func TestJSONOrFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "spec.json")
	if err := os.WriteFile(file, []byte(`{"a":1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	big := filepath.Join(dir, "big.json")
	if err := os.WriteFile(big, make([]byte, specBytes+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		value, want, failure string
	}{
		{`{"a":1}`, `{"a":1}`, ""},
		{" [1] ", `[1]`, ""},
		{"42", "42", ""},
		{`{"a":`, `{"a":`, ""}, // meant to be JSON: its parser says where it ends
		{"@" + file, `{"a":1}`, ""},
		{file, `{"a":1}`, ""},
		{"", "", "empty"},
		{"@", "", "no such file"},
		{filepath.Join(dir, "missing"), "", "no such file"},
		{dir, "", "is a directory"},
		{big, "", "more than"},
	} {
		got, err := jsonOrFile("--limits", test.value)
		switch {
		case test.failure == "" && (err != nil || string(got) != test.want):
			t.Errorf("%q = %q, %v; want %q", test.value, got, err, test.want)
		case test.failure != "" && (err == nil || !strings.Contains(err.Error(), test.failure) || !strings.HasPrefix(err.Error(), "--limits")):
			t.Errorf("%q: error %v, want one of --limits with %q", test.value, err, test.failure)
		}
	}
}

func TestEnvironment(t *testing.T) {
	s := spec{env: list{"A=1", "B=x=y", "C="}}
	env, err := s.environment()
	if err != nil || len(env) != 3 || env["A"] != "1" || env["B"] != "x=y" || env["C"] != "" {
		t.Errorf("got %v, %v", env, err)
	}
	for _, wrong := range []list{{"A"}, {"=1"}, {"A=1", "A=1"}} {
		if env, err := (&spec{env: wrong}).environment(); err == nil {
			t.Errorf("%v passed as %v", wrong, env)
		}
	}
	if env, err := (&spec{}).environment(); env != nil || err != nil {
		t.Errorf("nothing asked gave %v, %v", env, err)
	}
}

// The inputs are Python's to read: what this language's encoder would change or refuse has to arrive as it was typed.
func TestEncodeKeepsInputs(t *testing.T) {
	for _, inputs := range []string{`{"a":1,"a":2}`, `"\ud800"`, `1e400`, `{"z":1,"b":[ 1 ]}`, `12345678901234567890123`} {
		data, err := encode(runBody{Code: "pass", Inputs: []byte(inputs)})
		if err != nil {
			t.Errorf("%s: %v", inputs, err)
			continue
		}
		compact := strings.ReplaceAll(inputs, " ", "")
		if !strings.Contains(strings.ReplaceAll(string(data), " ", ""), `"inputs":`+compact) {
			t.Errorf("%s became %s", inputs, data)
		}
	}
}

func TestHint(t *testing.T) {
	for typed, want := range map[string]string{
		"exce":   "; did you mean exec?",
		"doktor": "; did you mean doctor?",
		"zzzzzz": "; sandboxd help lists what there is",
	} {
		if got := hint(typed, commandNames(), "sandboxd help"); got != want {
			t.Errorf("hint(%q) = %q, want %q", typed, got, want)
		}
	}
}

// The claims of ids are made first, in a directory that everybody may look into; the socket's is private. One for both would end every daemon's
// start, or leave its socket open.
func TestSocketHasItsDirectoryForItself(t *testing.T) {
	claims := filepath.Dir(execd.DefaultConfig("/var/lib/sandboxd").ClaimFile)
	if socket := filepath.Dir(defaultSocket(func(string) string { return "" })); socket == claims {
		t.Errorf("%s has both the socket and the claims of ids", socket)
	}
}
