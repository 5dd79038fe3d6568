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

// Terminal is where somebody sits at an exec's program: [Options].Terminal of one exec at a time. What the program writes comes to its Sink. Its methods may be
// called by several goroutines.
type Terminal struct {
	// pipes says that it is none, but a pipe that the program reads.
	pipes bool

	mu sync.Mutex // guards what follows
	// columns and rows are what it has, or will have.
	columns, rows uint16
	// terminal, or input, and child are nil before the exec has them, and after it.
	terminal *runner.Terminal
	input    *os.File
	child    *runner.Child
}

// NewTerminal is one of so many columns and rows, each at least 1: of a request with Command.Terminal.
func NewTerminal(columns, rows uint16) *Terminal { return &Terminal{columns: columns, rows: rows} }

// NewPipes is for who sits at a program that has no terminal.
func NewPipes() *Terminal { return &Terminal{pipes: true} }

// ErrNoTerminal says that the program isn't there yet, or has ended.
var ErrNoTerminal = errors.New("nothing runs at this terminal")

// errTerminal is a mistake of a caller of [Service.Exec].
var errTerminal = errors.New("a terminal is asked for and not brought, or brought and not asked for")

// Write types, and waits until the program, or the kernel for it, has taken all of it, no longer than bound.
func (t *Terminal) Write(data []byte, bound time.Duration) error {
	t.mu.Lock()
	to := t.input
	if t.terminal != nil {
		to = t.terminal.File()
	}
	t.mu.Unlock()
	if to == nil || to.SetWriteDeadline(time.Now().Add(bound)) != nil {
		return ErrNoTerminal
	}
	_, err := to.Write(data)
	if errors.Is(err, os.ErrClosed) || errors.Is(err, unix.EIO) || errors.Is(err, unix.EPIPE) {
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
		return nil // not yet, or pipes
	}
	if err := terminal.Resize(columns, rows); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return ErrNoTerminal
}

// Signal sends a signal: SIGINT, SIGQUIT and SIGTSTP to what is in a terminal's foreground, as keys do; any other to the program that was started, and without a
// terminal to its process group.
func (t *Terminal) Signal(signal unix.Signal) (err error) {
	t.mu.Lock()
	terminal, child := t.terminal, t.child
	t.mu.Unlock()
	switch {
	case child == nil:
		return ErrNoTerminal
	case terminal != nil && (signal == unix.SIGINT || signal == unix.SIGQUIT || signal == unix.SIGTSTP):
		err = terminal.Signal(signal)
	default:
		err = child.Signal(signal, t.pipes)
	}
	if errors.Is(err, os.ErrClosed) || errors.Is(err, os.ErrProcessDone) {
		return ErrNoTerminal
	}
	return err
}

// seats says whether the walk's program is to have a terminal.
func (o Options) seats() bool { return o.Terminal != nil && !o.Terminal.pipes }

// seating is what was made for a walk's [Terminal], before it has a child: a terminal, or both ends of a pipe.
type seating struct {
	terminal    *runner.Terminal
	input, ours *os.File
}

// openTerminal makes what the walk's terminal is to be, if it has one.
func (w *walk) openTerminal() (made seating, err error) {
	t := w.options.Terminal
	switch {
	case t == nil:
		made.input = w.options.Stdin
	case t.pipes:
		made.input, made.ours, err = os.Pipe()
	default:
		t.mu.Lock()
		defer t.mu.Unlock()
		made.terminal, err = runner.NewTerminal(w.service.host.Terminals, t.columns, t.rows)
	}
	if err != nil {
		return seating{}, fmt.Errorf("terminal: %w", err)
	}
	return made, nil
}

// close closes it where there is no child.
func (s seating) close() {
	if s.terminal != nil {
		s.terminal.Close()
	}
	if s.ours != nil {
		s.ours.Close()
	}
}

// seat gives it to who brought it, once there is a child at its gate.
func (w *walk) seat(made seating) error {
	t := w.options.Terminal
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.terminal, t.input, t.child = made.terminal, made.ours, w.child
	if t.terminal == nil {
		return nil
	}
	return t.terminal.Resize(t.columns, t.rows) // it may have become another meanwhile
}

// unseat takes it back.
func (w *walk) unseat() {
	t := w.options.Terminal
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.input != nil {
		t.input.Close()
	}
	t.terminal, t.input, t.child = nil, nil, nil
}
