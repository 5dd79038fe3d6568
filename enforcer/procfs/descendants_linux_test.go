package procfs

import (
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestParseChildren(t *testing.T) {
	for text, want := range map[string][]int{"": nil, "7 ": {7}, "7 4194304 ": {7, 4194304}} {
		if got, err := parseChildren(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, bad := range []string{"0", "-1", "+7", "7 x", "7.0", "2147483648", "99999999999999999999", "7\x00"} {
		if got, err := parseChildren(bad); err == nil {
			t.Errorf("%q is understood: %v", bad, got)
		}
	}
}

// FuzzChildren: what is understood is numbers of processes and nothing else, each of them, in order.
func FuzzChildren(f *testing.F) {
	for _, seed := range []string{"", "1 ", "7 4194304 ", "0", "-1", "2147483647 2147483648", "1\n2\t3", "007"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		children, err := parseChildren(text)
		if err != nil {
			return
		}
		words := strings.Fields(text)
		if len(words) != len(children) {
			t.Fatalf("%q: %v", text, children)
		}
		for i, pid := range children {
			if pid <= 0 || strings.TrimLeft(words[i], "0") != strconv.Itoa(pid) {
				t.Errorf("%q: %v", text, children)
			}
		}
	})
}

// The children of all threads are found, those of a thread that isn't the first among them, and what has ended has none.
func TestDescendants(t *testing.T) {
	var children []int
	for range 3 {
		cmd := exec.Command("/bin/sh", "-c", "sleep 60 & echo; wait")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		started := make(chan error)
		go func() {
			runtime.LockOSThread() // a thread of its own
			started <- cmd.Start()
		}()
		if err := <-started; err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		if _, err := out.Read(make([]byte, 1)); err != nil { // its own child is there
			t.Fatal(err)
		}
		children = append(children, cmd.Process.Pid)
	}
	found, err := Descendants(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range children {
		below, err := Descendants(pid)
		if err != nil || len(below) != 1 || !slices.Contains(found, pid) || !slices.Contains(found, below[0]) {
			t.Errorf("%d has %v, %v; all are %v", pid, below, err, found)
		}
		for _, grandchild := range below {
			_ = unix.Kill(grandchild, unix.SIGKILL)
		}
	}
	if none, err := Descendants(1 << 22); err != nil || none != nil {
		t.Errorf("of nobody: %v, %v", none, err)
	}
}
