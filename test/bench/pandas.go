package main

import (
	"context"
	"encoding/json/v2"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// pandasWord makes this program measure the row of pandas, in a mount namespace of its own.
const pandasWord = "with-pandas"

// place is what the row's own process gets of the bench.
type place struct {
	Dir, Memory string
	Rounds      int
	// Site has pandas, Over is where the system's interpreter looks for such packages.
	Site, Over string
}

// pandas is the row of an interpreter that has it imported. Where the system's has none, the one that test/venv.sh keeps lies over its folder of added
// packages, in a mount namespace that ends with the row.
func pandas(b *bench) error {
	const name = "Python run, pre-started with pandas imported, p50"
	if exec.Command(interpreter, "-I", "-c", "import pandas").Run() == nil {
		return warm(b, "pandas", 10, 0)
	}
	at, err := pandasPlace(b)
	if err != nil {
		b.add(name, "≤ 10 ms", "not measured: "+err.Error(), "–")
		return nil
	}
	text, err := json.Marshal(at)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(b.ctx, "/proc/self/exe", pandasWord, string(text))
	cmd.SysProcAttr = &unix.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("pandas: %w", err)
	}
	var rows []row
	if err := json.Unmarshal(out, &rows); err != nil {
		return fmt.Errorf("pandas: %w", err)
	}
	b.rows = append(b.rows, rows...)
	return nil
}

func pandasPlace(b *bench) (place, error) {
	at := place{Dir: b.dir, Memory: b.memory, Rounds: min(b.rounds, 100)}
	out, err := exec.CommandContext(b.ctx, "test/venv.sh", "imports", interpreter, "test/imports/requirements.txt").Output()
	if err != nil {
		return at, fmt.Errorf("%s has no pandas, and test/venv.sh: %w", interpreter, err)
	}
	sites, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "lib/python3*/site-packages"))
	if err != nil || len(sites) != 1 {
		return at, fmt.Errorf("the environment of test/venv.sh has %v: %w", sites, err)
	}
	over, err := exec.CommandContext(b.ctx, interpreter, "-I", "-c", `import site; print(site.getsitepackages()[0])`).Output()
	if err != nil {
		return at, err
	}
	at.Site, at.Over = sites[0], strings.TrimSpace(string(over))
	if _, err := os.Stat(at.Over); err != nil {
		return at, errors.New("there is no " + at.Over)
	}
	return at, nil
}

// measurePandas is the row's own process: it prints rows.
func measurePandas(text string) error {
	var at place
	if err := json.Unmarshal([]byte(text), &at); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("mount / private: %w", err)
	}
	if err := unix.Mount(at.Site, at.Over, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount %s: %w", at.Over, err)
	}
	b := &bench{ctx: context.Background(), dir: at.Dir, memory: at.Memory, rounds: at.Rounds}
	if err := warm(b, "pandas", 10, 0); err != nil {
		return err
	}
	return json.MarshalWrite(os.Stdout, b.rows)
}
