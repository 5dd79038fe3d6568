package execd

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/runner"
)

// Terminal is where somebody sits at an exec's program: [Options].Terminal of one exec at a time. What the program writes comes to its Sink, as "stdout".
// Its methods may be called by several goroutines.
type Terminal struct {
	mu sync.Mutex // guards what follows
	// columns and rows are what it has, or will have.
	columns, rows uint16
	// terminal and child are nil before the exec has them.
	terminal *runner.Terminal
	child    *runner.Child
}

// NewTerminal is one of so many columns and rows, each at least 1.
func NewTerminal(columns, rows uint16) *Terminal { return &Terminal{columns: columns, rows: rows} }

// ErrNoTerminal says that the program isn't there yet, or has ended.
var ErrNoTerminal = errors.New("nothing runs at this terminal")

// errTerminal is a mistake of a caller of [Service.Exec].
var errTerminal = errors.New("a terminal is asked for and not brought, or brought and not asked for")

// Write types, and waits until the program, or the kernel for it, has taken all of it, no longer than bound.
func (t *Terminal) Write(data []byte, bound time.Duration) error {
	terminal, _ := t.parts()
	if terminal == nil {
		return ErrNoTerminal
	}
	if err := terminal.File().SetWriteDeadline(time.Now().Add(bound)); err != nil {
		return ErrNoTerminal
	}
	_, err := terminal.Write(data)
	if errors.Is(err, os.ErrClosed) || errors.Is(err, unix.EIO) {
		return ErrNoTerminal
	}
	return err
}

// Resize changes its size, also before anything runs.
func (t *Terminal) Resize(columns, rows uint16) error {
	t.mu.Lock()
	t.columns, t.rows = columns, rows
	terminal := t.terminal
	t.mu.Unlock()
	if terminal == nil {
		return nil
	}
	if err := terminal.Resize(columns, rows); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return ErrNoTerminal
}

// Signal sends a signal: SIGINT, SIGQUIT and SIGTSTP to what is in the foreground, as keys do; any other to the program that was started.
func (t *Terminal) Signal(signal unix.Signal) (err error) {
	terminal, child := t.parts()
	switch {
	case child == nil:
		return ErrNoTerminal
	case signal == unix.SIGINT || signal == unix.SIGQUIT || signal == unix.SIGTSTP:
		err = terminal.Signal(signal)
	default:
		err = child.Signal(signal)
	}
	if errors.Is(err, os.ErrClosed) || errors.Is(err, os.ErrProcessDone) {
		return ErrNoTerminal
	}
	return err
}

func (t *Terminal) parts() (*runner.Terminal, *runner.Child) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.terminal, t.child
}

// openTerminal makes the walk's terminal, if it is to have one.
func (w *walk) openTerminal() (*runner.Terminal, error) {
	if w.options.Terminal == nil {
		return nil, nil
	}
	t := w.options.Terminal
	t.mu.Lock()
	defer t.mu.Unlock()
	made, err := runner.NewTerminal(w.service.host.Terminals, t.columns, t.rows)
	if err != nil {
		return nil, fmt.Errorf("terminal: %w", err)
	}
	return made, nil
}

// seat gives the terminal to who brought it, once there is a child at its gate.
func (w *walk) seat(made *runner.Terminal) error {
	if made == nil {
		return nil
	}
	t := w.options.Terminal
	t.mu.Lock()
	defer t.mu.Unlock()
	t.terminal, t.child = made, w.child
	return made.Resize(t.columns, t.rows) // it may have become another meanwhile
}
