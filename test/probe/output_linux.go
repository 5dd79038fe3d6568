package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// outputActs are what a program does to its three streams, and what it can tell of itself; what they tell is on stderr.
var outputActs = []act{
	{"print", "BYTES [stdout|stderr] [PATTERN]", "print that many bytes: " + strings.Join(patternNames(), ", "), func(args []string) error {
		pattern, known := patterns[argument(args, 2, "lines")]
		if len(args) == 0 || !known {
			return fmt.Errorf("want BYTES, a stream, and one PATTERN of %s", strings.Join(patternNames(), ", "))
		}
		file := os.Stdout
		if argument(args, 1, "stdout") == "stderr" {
			file = os.Stderr
		}
		return counted(args[:1], func(n int) error { return printPattern(file, n, pattern) })
	}},
	{"say", "TEXT", "write a text to stdout and not a byte more; escapes are those of a Go string", func(args []string) error {
		return onPath(args, func(text string) error {
			plain, err := strconv.Unquote(`"` + text + `"`)
			if err != nil {
				return fmt.Errorf("%q: %w", text, err)
			}
			if _, err = os.Stdout.WriteString(plain); err == nil {
				os.Exit(0)
			}
			return err
		})
	}},
	{"close-stdout", "", "close stdout, write to it, and tell the answer on stderr", func([]string) error {
		if err := unix.Close(1); err != nil {
			return err
		}
		_, err := unix.Write(1, []byte("late\n"))
		fmt.Fprintf(os.Stderr, "write: %s\n", nameOf(err))
		return nil
	}},
	{"broken-pipe", "", "write to a pipe that nobody reads, and tell the answer on stderr", func([]string) error {
		var ends [2]int
		if err := errors.Join(unix.Pipe(ends[:]), unix.Close(ends[0])); err != nil {
			return err
		}
		_, err := unix.Write(ends[1], []byte("late\n"))
		fmt.Fprintf(os.Stderr, "write: %s\n", nameOf(err))
		return nil
	}},
	{"cat", "", "copy stdin to stdout", func([]string) error {
		_, err := io.Copy(os.Stdout, os.Stdin)
		return err
	}},
	{"fds", "", "list the open descriptors", func([]string) error { return listDescriptors() }},
	{"env", "", "list the environment", func([]string) error {
		names := os.Environ()
		sort.Strings(names)
		_, err := fmt.Fprintln(os.Stderr, strings.Join(names, "\n"))
		return err
	}},
	{"status", "", "tell ids, capabilities and filters from /proc/self/status", func([]string) error {
		return tell("/proc/self/status", func(line string) bool {
			name, _, _ := strings.Cut(line, ":")
			return slices.Contains([]string{"Uid", "Gid", "Groups", "NoNewPrivs", "Seccomp"}, name) || strings.HasPrefix(name, "Cap")
		})
	}},
	{"mounts", "", "list /proc/self/mountinfo", func([]string) error {
		return tell("/proc/self/mountinfo", func(string) bool { return true })
	}},
	{"device", "PATH", "tell a device's numbers", func(args []string) error {
		return onPath(args, func(path string) error {
			var stat unix.Stat_t
			if err := unix.Stat(path, &stat); err != nil {
				return err
			}
			_, err := fmt.Fprintf(os.Stderr, "%s %d:%d\n", path, unix.Major(stat.Rdev), unix.Minor(stat.Rdev))
			return err
		})
	}},
}

// patterns are what is printed over and over.
var patterns = map[string][]byte{
	"lines":   []byte("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde\n"),
	"line":    []byte("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"),
	"nul":     make([]byte, 64),
	"invalid": bytes.Repeat([]byte{0xc3, 0x28, 0xff, 0xfe}, 16),
	"cr":      bytes.Repeat([]byte("50%\r"), 16),
	"ansi":    bytes.Repeat([]byte("\x1b[31m\x1b]0;x\a"), 8),
}

func patternNames() []string {
	var names []string
	for name := range patterns {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

func printBytes(file *os.File, count int) error { return printPattern(file, count, patterns["lines"]) }

func printPattern(file *os.File, count int, pattern []byte) error {
	block := bytes.Repeat(pattern, 1024)
	for count > 0 {
		n := min(count, len(block))
		if _, err := file.Write(block[:n]); err != nil {
			return err
		}
		count -= n
	}
	return nil
}

func nameOf(err error) string {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return unix.ErrnoName(errno)
	}
	return fmt.Sprint(err)
}

func tell(path string, wanted func(line string) bool) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		if wanted(line) {
			if _, err := os.Stderr.WriteString(line); err != nil {
				return err
			}
		}
	}
	return nil
}

func listDescriptors() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		target, err := os.Readlink("/proc/self/fd/" + entry.Name())
		if err != nil {
			continue // the directory's own descriptor, closed by now
		}
		fmt.Fprintf(os.Stderr, "%s %s\n", entry.Name(), target)
	}
	return nil
}
