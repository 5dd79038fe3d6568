package python

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// An interpreter whose imports fail, end it, leave a file or never come to an end isn't ready, and what it says is why.
func TestNotReady(t *testing.T) {
	python := interpreters(t)[0]
	left := t.TempDir()
	if err := os.WriteFile(filepath.Join(left, "cache"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		imports, directories []string
		bound                time.Duration
		says                 string
	}{
		"no such module": {imports: []string{"json", "no_such_module"}, bound: time.Minute, says: "No module named 'no_such_module'"},
		"no such inner":  {imports: []string{"json.nothing"}, bound: time.Minute, says: "No module named 'json.nothing'"},
		"a file is left": {directories: []string{"/no/such/directory", left}, bound: time.Minute, says: "importing left ['cache'] in " + left},
		"too late":       {bound: -time.Second},
	} {
		w, err := Ahead(row.imports, row.directories, 3)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), python.path, w.Argv[1:]...)
		cmd.ExtraFiles = w.Extra
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for _, file := range w.Extra {
			file.Close()
		}
		if err := w.Ready(time.Now().Add(row.bound)); !errors.Is(err, ErrNotReady) {
			t.Errorf("%s: %v", name, err)
		}
		w.Close()
		_ = cmd.Wait() // of a status other than 0, or of a job that is empty
		if !strings.Contains(stderr.String(), row.says) {
			t.Errorf("%s: it says %q, want %q", name, &stderr, row.says)
		}
	}
	for _, bad := range []string{"", "a b", "a;b", "a.", "'", "a\n", strings.Repeat("a", longestModule+1)} {
		if _, err := Ahead([]string{bad}, nil, 3); err == nil {
			t.Errorf("%q is imported", bad)
		}
	}
}
