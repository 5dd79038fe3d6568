package catalogue

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// processesWith are the processes of this machine whose command line has these bytes.
func processesWith(t *testing.T, words string) []string {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err == nil && bytes.Contains(data, []byte(words)) {
			found = append(found, path+" "+strings.ReplaceAll(string(data), "\x00", " "))
		}
	}
	return found
}

// zombies counts the dead children of a process that it hasn't reaped.
func zombies(t *testing.T, parent int) int {
	t.Helper()
	return stats(t, "/proc/[0-9]*/stat", func(_, state, of string) bool { return state == "Z" && of == strconv.Itoa(parent) })
}

// inDState counts the threads of a program that no signal ends. A process of several threads has lost its command line by then.
func inDState(t *testing.T, program string) int {
	t.Helper()
	return stats(t, "/proc/[0-9]*/task/[0-9]*/stat", func(name, state, _ string) bool { return name == program && state == "D" })
}

// stats counts the files of this pattern whose name, state and parent are as wanted.
func stats(t *testing.T, pattern string, wanted func(name, state, parent string) bool) int {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// proc_pid_stat(5): "pid (comm) state ppid …", and comm may have anything in it.
		begin, end := bytes.IndexByte(data, '('), bytes.LastIndexByte(data, ')')
		if fields := strings.Fields(string(data[end+1:])); len(fields) > 1 && wanted(string(data[begin+1:end]), fields[0], fields[1]) {
			count++
		}
	}
	return count
}
