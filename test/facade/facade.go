// Package facade has what the tests of the façades begin with: the programs, a policy, and a log that can be read.
package facade

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/sandboxd/sandboxd/rego"
)

// Main runs the tests of a package, and fails where one has left a goroutine.
func Main(m *testing.M) {
	status := m.Run()
	if programs.made {
		os.RemoveAll(programs.dir)
	}
	if status == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			status = 1
		}
	}
	os.Exit(status)
}

var programs struct {
	mu    sync.Mutex
	dir   string
	made  bool
	built map[string]bool
}

// Programs is a directory with those of cmd/ that are named, built once for all tests of a package. A test program that runs as another user, who has no Go, has them
// built for it: SANDBOXD_BIN says where.
func Programs(t testing.TB, names ...string) string {
	t.Helper()
	programs.mu.Lock()
	defer programs.mu.Unlock()
	if given := os.Getenv("SANDBOXD_BIN"); given != "" {
		return given
	}
	if !programs.made {
		dir, err := os.MkdirTemp("", "facade")
		if err != nil {
			t.Fatal(err)
		}
		programs.dir, programs.made, programs.built = dir, true, map[string]bool{}
	}
	for _, name := range names {
		if programs.built[name] {
			continue
		}
		cmd := exec.Command("go", "build", "-o", filepath.Join(programs.dir, name), "github.com/sandboxd/sandboxd/cmd/"+name)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		programs.built[name] = true
	}
	return programs.dir
}

// Policy is a directory with the built-in bundle, which accepts what a machine without controllers for our groups lacks, and is otherwise where data.json has the first of each
// pair of changes and is to have the second.
func Policy(t testing.TB, changes ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "policy")
	if err := os.CopyFS(dir, rego.Bundle); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "data.json")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	changes = append([]string{`"accept": []`, `"accept": ["cgroup.cpu", "cgroup.memory"]`}, changes...)
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(text, changes[i]) {
			t.Fatalf("%s isn't in data.json", changes[i])
		}
		text = strings.ReplaceAll(text, changes[i], changes[i+1])
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Log is what several write to at once.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write adds to it.
func (l *Log) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(data)
}

// String is all that there is by now.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
