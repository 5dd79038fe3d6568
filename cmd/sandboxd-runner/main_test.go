package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestSmall: every sandbox starts this program twice, and each worker once more. It stays below 4 MB, without the parts of the standard library
// that a network program is made of.
func TestSmall(t *testing.T) {
	program := filepath.Join(t.TempDir(), "sandboxd-runner")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	stat, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	if stat.Size() >= 4_000_000 {
		t.Errorf("%d bytes", stat.Size())
	}
	list := exec.Command("go", "list", "-deps", ".")
	list.Env = build.Env
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields(string(out)) {
		if slices.Contains([]string{"net", "net/http", "crypto/tls", "os/exec"}, name) || strings.Contains(name, "open-policy-agent") {
			t.Errorf("imports %s", name)
		}
	}
}

// TestByHand: there is nothing to do with it by hand, and it does nothing.
func TestByHand(t *testing.T) {
	program := filepath.Join(t.TempDir(), "sandboxd-runner")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, args := range [][]string{nil, {"launcher"}, {"serve"}, {"--help"}, {"launcher", "more"}} {
		err := exec.Command(program, args...).Run()
		if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 2 {
			t.Errorf("%v: %v, want exit status 2", args, err)
		}
	}
}
