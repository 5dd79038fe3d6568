package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestByHand: there is nothing to do with it by hand, and it does nothing.
func TestByHand(t *testing.T) {
	program := filepath.Join(os.Getenv("SANDBOXD_BIN"), "sandboxd-runner")
	if os.Getenv("SANDBOXD_BIN") == "" {
		program = filepath.Join(t.TempDir(), "sandboxd-runner")
		if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	for _, args := range [][]string{nil, {"launcher"}, {"serve"}, {"--help"}, {"launcher", "more"}, {"connect"}, {"connect", "/nowhere", "no uid"}, {"connected"}} {
		err := exec.Command(program, args...).Run()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 2 {
			t.Errorf("%v: %v, want exit status 2", args, err)
		}
	}
}
