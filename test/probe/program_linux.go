package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// programActs start another program, whose own output tells what became of it.
var programActs = []act{
	{"become", "PATH [ARG…]", "execve: this process becomes the program", func(args []string) error {
		if len(args) == 0 {
			return errors.New("want PATH")
		}
		return unix.Exec(args[0], args, os.Environ())
	}},
	{"become-fd", "PATH [ARG…]", "the same by a descriptor (fexecve)", func(args []string) error {
		if len(args) == 0 {
			return errors.New("want PATH")
		}
		fd, err := unix.Open(args[0], unix.O_PATH, 0) // no O_CLOEXEC: a script's interpreter opens it again by its number
		if err != nil {
			return err
		}
		return executeDescriptor(fd, args)
	}},
	{"spawn", "PATH [ARG…]", "vfork and execve, as libraries do, and wait", func(args []string) error {
		if len(args) == 0 {
			return errors.New("want PATH")
		}
		return run(args[0], args)
	}},
	{"no-argv", "PATH", "execve with an empty argv (CVE-2021-4034)", func(args []string) error {
		return onPath(args, func(path string) error { return unix.Exec(path, nil, os.Environ()) })
	}},
	{"copy-execute", "DIR", "copy this program to a directory and execute the copy", func(args []string) error {
		return onPath(args, func(dir string) error {
			path := filepath.Join(dir, "copied-probe")
			if err := copySelf(path); err != nil {
				return err
			}
			return execute(path, path, "exit", "0")
		})
	}},
	{"copy-setuid", "DIR", "copy this program to a directory, make it setuid and setgid, and run its status", func(args []string) error {
		return onPath(args, func(dir string) error {
			path := filepath.Join(dir, "setuid-probe")
			if err := errors.Join(copySelf(path), unix.Chmod(path, 0o6755)); err != nil {
				return err
			}
			return run(path, []string{path, "status"})
		})
	}},
	{"rewrite-self", "", "open the running program for writing (CVE-2019-5736)", func([]string) error {
		return closing(unix.Open("/proc/self/exe", unix.O_RDWR|unix.O_CLOEXEC, 0))
	}},
	{"threads-setuid", "", "become uid 0 in one thread of many", func([]string) error {
		runtime.LockOSThread()
		return call(unix.SYS_SETRESUID, 0, 0, 0)
	}},
}

// run waits for a program that has our streams; its status must be 0.
func run(path string, argv []string) error {
	process, err := os.StartProcess(path, argv, &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		return err
	}
	state, err := process.Wait()
	if err != nil {
		return err
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return killed(status.Signal())
	}
	if !state.Success() {
		return errors.New("the program ended with " + state.String())
	}
	return nil
}

func copySelf(path string) error {
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755)
	if err != nil {
		return errors.Join(err, from.Close())
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close(), from.Close())
}
