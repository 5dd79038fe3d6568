package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// livingActs are what a runaway does. Those that would harm a machine refuse to start where nothing confines them.
var livingActs = []act{
	{"fork-tree", "COUNT [--depth N] [--setsid] [--ignore-term] [--stop]", "start COUNT chains of N processes, each as it is told, and wait", forkTree},
	{"fork-bomb", "", "fork without end", func([]string) error {
		if err := requireConfinement(); err != nil {
			return err
		}
		forkBomb()
		return nil
	}},
	{"fork-chase", "[NAME]", "be always a new process: fork, end the parent, go on", func([]string) error {
		if err := requireConfinement(); err != nil {
			return err
		}
		if _, errno := forkRun(chase); errno != 0 {
			return errno
		}
		return wait()
	}},
	{"setsid-runaway", "", "leave a process behind that left the session, blocks every signal and holds stdout; then exit", func([]string) error {
		_, errno := forkRun(runaway)
		return orNil(errno)
	}},
	{"hold-fd", "", "leave a child behind that holds stdout; then exit", func([]string) error {
		_, errno := forkRun(sleepForever)
		return orNil(errno)
	}},
	{"spin", "[THREADS]", "burn CPU without end", func(args []string) error {
		return counted([]string{argument(args, 0, "1")}, func(n int) error {
			for range n {
				go func() {
					runtime.LockOSThread()
					for {
					}
				}()
			}
			return wait()
		})
	}},
	{"sleep", "SECONDS", "wait; a fraction will do", func(args []string) error {
		return onPath(args, func(text string) error {
			seconds, err := strconv.ParseFloat(text, 64)
			if err != nil || seconds < 0 {
				return fmt.Errorf("want a number from 0, not %q", text)
			}
			time.Sleep(time.Duration(seconds * float64(time.Second)))
			return nil
		})
	}},
	{"ignore-term", "", "ignore SIGTERM, SIGINT and SIGHUP, say so on stderr, and wait", func([]string) error {
		signal.Ignore(unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
		fmt.Fprintln(os.Stderr, "ignoring")
		return wait()
	}},
	{"deaf", "MILLISECONDS", "block all 64 signals by the call itself, as no library does, and wait", func(args []string) error {
		return counted(args, func(n int) error {
			runtime.LockOSThread()
			blockSignals()
			until := unix.NsecToTimespec(int64(n) * 1e6)
			return unix.Nanosleep(&until, nil)
		})
	}},
	{"stop", "[NAME]", "stop itself (SIGSTOP)", func([]string) error { return unix.Kill(os.Getpid(), unix.SIGSTOP) }},
	{"raise", "SIGNAL", "die by a signal", func(args []string) error {
		return counted(args, func(n int) error {
			if err := unix.Kill(os.Getpid(), syscall.Signal(n)); err != nil {
				return err
			}
			return wait() // the signal ends us
		})
	}},
	{"exit", "STATUS", "end with a status", func(args []string) error {
		return counted(args, func(n int) error { os.Exit(n); return nil })
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
}

// wait never returns. An empty select would be a deadlock to the runtime, which ends the program for it.
func wait() error {
	for {
		_ = unix.Pause()
	}
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

// branch is how the processes of a tree are.
var branch struct {
	depth                        int
	ownSession, deaf, standstill bool
}

func forkTree(args []string) error {
	set := flag.NewFlagSet("fork-tree", flag.ContinueOnError)
	set.IntVar(&branch.depth, "depth", 1, "")
	set.BoolVar(&branch.ownSession, "setsid", false, "")
	set.BoolVar(&branch.deaf, "ignore-term", false, "")
	set.BoolVar(&branch.standstill, "stop", false, "")
	if len(args) == 0 {
		return errors.New("want COUNT")
	}
	if err := set.Parse(args[1:]); err != nil {
		return err
	}
	return counted(args[:1], func(count int) error {
		for range count {
			if _, errno := forkRun(grow); errno != 0 {
				return errno
			}
		}
		fmt.Fprintf(os.Stderr, "started %d\n", count)
		return wait()
	})
}

// grow is one process of the tree, and the next below it.
//
//go:norace
//go:nosplit
func grow() uintptr {
	for depth := branch.depth; ; depth-- {
		if branch.deaf {
			blockSignals()
		}
		if branch.ownSession {
			syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
		}
		pid := uintptr(1)
		if depth > 1 {
			pid, _, _ = syscall.RawSyscall6(unix.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
		}
		if pid != 0 {
			break
		}
	}
	if branch.standstill {
		own, _, _ := syscall.RawSyscall(unix.SYS_GETPID, 0, 0, 0)
		syscall.RawSyscall(unix.SYS_KILL, own, uintptr(unix.SIGSTOP), 0)
	}
	return sleepForever()
}

// chase goes on in its child, so that no list of processes is ever right for long.
//
//go:norace
//go:nosplit
func chase() uintptr {
	for {
		if pid, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0); errno == 0 && pid != 0 {
			return 0
		}
	}
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
