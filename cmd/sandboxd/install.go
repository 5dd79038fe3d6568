package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// install copies the launcher into a directory that a runner's container has mounted, read-only there: an image of ours has no cp. It appears whole
// under its name or not at all, and replaces what an earlier start has left.
func (p *program) install(_ context.Context, flags *flagSet, args []string) (int, error) {
	runner := flags.String("runner", "", "`path` of sandboxd-runner (beside this program unless given)")
	rest, err := flags.parseAround(args)
	if err != nil {
		return 0, err
	}
	if len(rest) != 1 {
		return 0, errors.New("install takes one directory")
	}
	if *runner == "" {
		self, err := os.Executable()
		if err != nil {
			return 1, err
		}
		*runner = filepath.Join(filepath.Dir(self), "sandboxd-runner")
	}
	path, err := copyLauncher(*runner, rest[0])
	if err != nil {
		return 1, fmt.Errorf("install: %w", err)
	}
	fmt.Fprintln(p.stdout, path)
	return 0, nil
}

func copyLauncher(from, dir string) (path string, err error) {
	source, err := os.Open(from)
	if err != nil {
		return "", err
	}
	defer source.Close()
	part, err := os.CreateTemp(dir, ".sandboxd-runner-*")
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
	path = filepath.Join(dir, "sandboxd-runner")
	if err := os.Rename(part.Name(), path); err != nil {
		return "", err
	}
	return path, part.Close()
}
