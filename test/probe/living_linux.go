package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// livingActs are what a runaway does. Those that would harm a machine refuse to start where nothing confines them.
var livingActs = []act{
	{"fork-tree", "COUNT", "start COUNT processes, every second one in its own session, and wait", func(args []string) error {
		return counted(args, func(n int) error { return forkTree(n) })
	}},
	{"fork-bomb", "", "fork without end", func([]string) error {
		if err := requireConfinement(); err != nil {
			return err
		}
		forkBomb()
		return nil
	}},
	{"setsid-runaway", "", "leave a process behind that left the session, blocks every signal and holds stdout; then exit", func([]string) error {
		_, errno := forkRun(runaway)
		return orNil(errno)
	}},
	{"hold-fd", "", "leave a child behind that holds stdout; then exit", func([]string) error {
		_, errno := forkRun(sleepForever)
		return orNil(errno)
	}},
	{"spin", "", "burn CPU without end", func([]string) error {
		for {
		}
	}},
	{"sleep", "SECONDS", "wait", func(args []string) error {
		return counted(args, func(n int) error { time.Sleep(time.Duration(n) * time.Second); return nil })
	}},
	{"stop", "", "stop itself (SIGSTOP)", func([]string) error { return unix.Kill(os.Getpid(), unix.SIGSTOP) }},
	{"raise", "SIGNAL", "die by a signal", func(args []string) error {
		return counted(args, func(n int) error {
			if err := unix.Kill(os.Getpid(), syscall.Signal(n)); err != nil {
				return err
			}
			select {} // the signal ends us
		})
	}},
	{"exit", "STATUS", "end with a status", func(args []string) error {
		return counted(args, func(n int) error { os.Exit(n); return nil })
	}},
	{"print", "BYTES [stderr]", "print that many bytes", func(args []string) error {
		if len(args) == 2 && args[1] == "stderr" {
			return counted(args[:1], func(n int) error { return printBytes(os.Stderr, n) })
		}
		return counted(args, func(n int) error { return printBytes(os.Stdout, n) })
	}},
	{"memory", "BYTES", "allocate and touch memory", func(args []string) error {
		return counted(args, func(n int) error {
			block := make([]byte, n)
			for i := 0; i < n; i += 4096 {
				block[i] = 1
			}
			return nil
		})
	}},
	{"file", "PATH BYTES", "write a file of that size", func(args []string) error {
		if len(args) != 2 {
			return errors.New("want PATH BYTES")
		}
		return counted(args[1:], func(n int) error {
			file, err := os.Create(args[0])
			if err != nil {
				return err
			}
			return printBytes(file, n)
		})
	}},
	{"cat", "", "copy stdin to stdout", func([]string) error {
		_, err := io.Copy(os.Stdout, os.Stdin)
		return err
	}},
	{"fds", "", "list the open descriptors on stderr", func([]string) error { return listDescriptors() }},
	{"env", "", "list the environment on stderr", func([]string) error {
		names := os.Environ()
		sort.Strings(names)
		_, err := fmt.Fprintln(os.Stderr, strings.Join(names, "\n"))
		return err
	}},
}

func counted(args []string, do func(n int) error) error {
	if len(args) != 1 {
		return errors.New("want one number")
	}
	n, err := strconv.Atoi(args[0])
	if err != nil || n < 0 {
		return fmt.Errorf("want a number from 0, not %q", args[0])
	}
	return do(n)
}

// requireConfinement keeps a fork bomb from a machine that nothing protects.
func requireConfinement() error {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	if !confined(string(status)) {
		return errors.New("not confined (no_new_privs and a seccomp filter): a fork bomb would hit this machine")
	}
	return nil
}

func confined(status string) bool {
	return strings.Contains(status, "\nNoNewPrivs:\t1\n") && strings.Contains(status, "\nSeccomp:\t2\n")
}

func forkTree(count int) error {
	for i := range count {
		run := sleepForever
		if i%2 == 1 {
			run = sleepInOwnSession
		}
		if _, errno := forkRun(run); errno != 0 {
			return errno
		}
	}
	fmt.Fprintf(os.Stderr, "started %d\n", count)
	select {}
}

//go:norace
//go:nosplit
func forkBomb() {
	for {
		syscall.RawSyscall6(unix.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	}
}

//go:norace
//go:nosplit
func sleepForever() uintptr {
	for {
		syscall.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
	}
}

//go:norace
//go:nosplit
func sleepInOwnSession() uintptr {
	syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
	return sleepForever()
}

// runaway leaves the session, forks again so that it isn't the session's leader either, and stays. Only SIGKILL ends it.
//
//go:norace
//go:nosplit
func runaway() uintptr {
	blockSignals()
	syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
	pid, _, _ := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if pid != 0 {
		return 0
	}
	return sleepForever()
}

func printBytes(file *os.File, count int) error {
	block := []byte(strings.Repeat("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde\n", 1024))
	for count > 0 {
		n := min(count, len(block))
		if _, err := file.Write(block[:n]); err != nil {
			return err
		}
		count -= n
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
