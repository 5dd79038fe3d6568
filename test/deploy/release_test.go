package deploy

import (
	"bytes"
	"crypto/sha256"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestReleaseIsReproducible: from another directory, with nothing cached, the launcher is the same, byte for byte.
func TestReleaseIsReproducible(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("go: not installed") // an ordinary user's run has the tests only
	}
	build := func(dir string, env ...string) [sha256.Size]byte {
		out := filepath.Join(t.TempDir(), "sandboxd-runner")
		command := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -buildid=", "-o", out, "./cmd/sandboxd-runner")
		command.Dir = dir
		command.Env = append(append(os.Environ(), "CGO_ENABLED=0"), env...)
		if text, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		data, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		return sha256.Sum256(data)
	}
	elsewhere := filepath.Join(t.TempDir(), "another", "place")
	for _, name := range []string{"cmd/sandboxd-runner", "runner", "enforcer", "policy", "go.mod", "go.sum"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(elsewhere, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if text, err := exec.Command("cp", "-r", "../../"+name, filepath.Join(elsewhere, name)).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
	}
	cache := t.TempDir()
	if a, b := build("../.."), build(elsewhere, "GOCACHE="+cache); !bytes.Equal(a[:], b[:]) {
		t.Errorf("%x here, %x there", a, b)
	}
}
