package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestWriteStaysInside: names and links of a directory that a program may have made lead nowhere else.
func TestWriteStaysInside(t *testing.T) {
	dir := t.TempDir()
	inside, outside := filepath.Join(dir, "inside"), filepath.Join(dir, "outside")
	for _, path := range []string{inside, outside, filepath.Join(inside, "folder")} {
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	victim := filepath.Join(outside, "victim")
	if err := os.WriteFile(victim, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"file": victim, "parent": outside, "up": ".."} {
		if err := os.Symlink(to, filepath.Join(inside, name)); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(inside)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for name, good := range map[string]bool{
		"plain": true, "a/b/c": true, "with\nline\xff": true, "file": true, // the link is replaced
		"": false, ".": false, "..": false, "../x": false, "a/../../x": false, "a/./b": false, "/etc/x": false, "a//b": false,
		"parent/x": false, "parent/victim": false, "up/outside/victim": false, "folder": false,
	} {
		if err := write(root, name, []byte("theirs")); good != (err == nil) {
			t.Errorf("%q: %v", name, err)
		}
		if got, err := os.ReadFile(filepath.Join(inside, name)); good && (err != nil || string(got) != "theirs") {
			t.Errorf("%q: %q %v", name, got, err)
		}
	}
	if got, err := os.ReadFile(victim); err != nil || string(got) != "mine" {
		t.Errorf("outside: %q %v", got, err)
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
		t.Errorf("outside: %v %v", entries, err)
	}
	if info, err := os.Lstat(filepath.Join(inside, "file")); err != nil || !info.Mode().IsRegular() {
		t.Errorf("%v %v", info, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("beside: %v %v", entries, err)
	}
}
