package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// install copies the launcher, and this program where it is wanted, into a directory that a runner's container has mounted, read-only there: an image of
// ours has no cp. Each appears whole under its name or not at all, and replaces what an earlier start has left.
func (p *program) install(_ context.Context, flags *flagSet, args []string) (int, error) {
	runner := flags.String("runner", "", "`path` of sandboxd-runner (beside this program unless given)")
	daemon := flags.Bool("daemon", false, "copy this program too, for a container in which it makes sandboxes itself")
	rest, err := flags.parseAround(args)
	if err != nil {
		return 0, err
	}
	if len(rest) != 1 {
		return 0, errors.New("install takes one directory")
	}
	self, err := os.Executable()
	if err != nil {
		return 1, err
	}
	if *runner == "" {
		*runner = filepath.Join(filepath.Dir(self), "sandboxd-runner")
	}
	programs := []struct{ from, name string }{{*runner, "sandboxd-runner"}}
	if *daemon {
		programs = append(programs, struct{ from, name string }{self, "sandboxd"})
	}
	for _, program := range programs {
		path, err := copyProgram(program.from, rest[0], program.name)
		if err != nil {
			return 1, fmt.Errorf("install: %w", err)
		}
		fmt.Fprintln(p.stdout, path)
	}
	return 0, nil
}

func copyProgram(from, dir, name string) (path string, err error) {
	source, err := os.Open(from)
	if err != nil {
		return "", err
	}
	defer source.Close()
	part, err := os.CreateTemp(dir, "."+name+"-*")
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, part.Close(), os.Remove(part.Name()))
		}
	}()
	if _, err := io.Copy(part, source); err != nil {
		return "", err
	}
	// For every user to execute and for none to write, its owner included.
	if err := errors.Join(part.Chmod(0o555), part.Sync()); err != nil {
		return "", err
	}
	path = filepath.Join(dir, name)
	if err := os.Rename(part.Name(), path); err != nil {
		return "", err
	}
	return path, part.Close()
}
