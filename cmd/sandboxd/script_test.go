package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// The command line as a person types it, on the real binaries: testdata/*.txt.
func TestScripts(t *testing.T) {
	bin := binaries(t)
	// Every sandbox has a /tmp of its own, so that what scripts show to one lies elsewhere.
	shown, err := os.MkdirTemp("/var/tmp", "sandboxd-script")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(shown) })
	if err := os.Chmod(shown, 0o755); err != nil {
		t.Fatal(err)
	}
	bundle, err := filepath.Abs("../../rego")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", bin+":"+env.Getenv("PATH"))
			env.Setenv("XDG_STATE_HOME", filepath.Join(env.WorkDir, "state"))
			env.Setenv("SHOWN", shown)
			env.Setenv("REGO", bundle)
			env.Setenv("PROBE", filepath.Join(bin, "probe"))
			// As root the state is not the user's: each script has its own all the same.
			env.Setenv("STATE", filepath.Join(env.WorkDir, "state", "sandboxd"))
			return nil
		},
		Condition: func(name string) (bool, error) {
			switch name {
			case "root":
				return os.Geteuid() == 0, nil
			case "python":
				_, err := os.Stat("/usr/bin/python3")
				return err == nil, nil
			}
			return false, fmt.Errorf("unknown condition %q", name)
		},
	})
}

// binaries are sandboxd, sandboxd-runner and probe: those of SANDBOXD_BIN, or built now.
func binaries(t *testing.T) string {
	t.Helper()
	if bin := os.Getenv("SANDBOXD_BIN"); bin != "" {
		return bin
	}
	bin := t.TempDir()
	for _, path := range []string{"cmd/sandboxd", "cmd/sandboxd-runner", "test/probe"} {
		build := exec.Command("go", "build", "-o", filepath.Join(bin, filepath.Base(path)), "../../"+path)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("go build %s: %v\n%s", path, err, out)
		}
	}
	return bin
}
