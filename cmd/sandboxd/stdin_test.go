package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadStdin(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "input")
	if err := os.WriteFile(file, []byte("of a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	big := filepath.Join(dir, "big")
	if err := os.WriteFile(big, make([]byte, stdinBytes+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		own, from, want, failure string
	}{
		{"of a pipe", "", "of a pipe", ""},
		{"of a pipe", "-", "of a pipe", ""},
		{"of a pipe", "none", "", ""},
		{"of a pipe", file, "of a file", ""},
		{"", big, "", "more than"},
		{"", dir, "", "is a directory"},
		{"", filepath.Join(dir, "missing"), "", "no such file"},
	} {
		p := &program{stdin: pipe(t, test.own, true), stderr: os.Stderr}
		got, err := p.readStdin(t.Context(), test.from)
		if test.failure != "" {
			if err == nil || !strings.Contains(err.Error(), test.failure) {
				t.Errorf("--stdin %q: error %v, want %q", test.from, err, test.failure)
			}
			continue
		}
		if err != nil || string(got) != test.want {
			t.Errorf("--stdin %q = %q, %v; want %q", test.from, got, err, test.want)
		}
	}
}

// A stdin that never ends must not make a call that never returns, nor one that hangs without a word.
func TestStdinThatNeverEnds(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	defer write.Close()
	ctx, cancel := context.WithCancel(t.Context())
	p := &program{stdin: pipe(t, "", false), stderr: write}
	done := make(chan error, 1)
	go func() {
		_, err := p.readStdin(ctx, "")
		done <- err
	}()
	said := make([]byte, 256)
	n, err := read.Read(said) // blocks until patience has ended
	if err != nil || !bytes.Contains(said[:n], []byte("--stdin none")) {
		t.Errorf("said %q, %v; want a way out", said[:n], err)
	}
	cancel()
	if err := <-done; err == nil {
		t.Error("an interrupted read counts as whole")
	}
}

// pipe is a stdin with that text; its end stays open unless ends.
func pipe(t *testing.T, text string, ends bool) *os.File {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := write.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if ends {
		write.Close()
	}
	t.Cleanup(func() { read.Close(); write.Close() })
	return read
}
