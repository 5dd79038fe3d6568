package python

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/policy"
)

//go:embed waiting.py
var waiting string

// ready is what an interpreter that waits says on the result's pipe, once: it isn't of the result.
const ready = 'w'

// ErrNotReady says that an interpreter which was started ahead hasn't come to wait for its job.
var ErrNotReady = errors.New("the interpreter isn't ready for a job")

// Waiter is what is needed of an interpreter that is started before there is a job for it.
type Waiter struct {
	// Argv is that of any other run. Extra are its descriptors from extraFrom on, for the caller to close once the child has them.
	Argv  []string
	Extra []*os.File
	// Job is where the job is written to, and Result where the value comes from, after Ready.
	Job, Result *os.File
}

// Ahead is how an interpreter is started that imports modules, leaves nothing in directories, says that it is ready, and waits for its job. Module names
// must be those of [CheckImports].
func Ahead(imports, directories []string, extraFrom int) (_ *Waiter, err error) {
	if err := CheckImports(imports); err != nil {
		return nil, err
	}
	w := &Waiter{}
	defer func() {
		if err != nil {
			w.Close()
		}
	}()
	text := waiting + "ready = wait(" + tuple(imports) + ", " + tuple(directories) + ")\ndel wait\n" + driver
	source, err := Sealed("driver", text)
	if err != nil {
		return nil, err
	}
	w.Extra = append(w.Extra, source)
	w.Argv = command(extraFrom, len(text), 0)
	return w, w.pipes()
}

// Piped is how an interpreter is started whose job comes by a pipe, since its inputs are too long for a file in memory. [WriteJobFrom] writes it, once the
// interpreter is released.
func Piped(extraFrom int) (_ *Waiter, err error) {
	w := &Waiter{Argv: command(extraFrom, len(driver), 0)}
	defer func() {
		if err != nil {
			w.Close()
		}
	}()
	source, err := Sealed("driver", driver)
	if err != nil {
		return nil, err
	}
	w.Extra = append(w.Extra, source)
	return w, w.pipes()
}

// pipes makes those of job and result.
func (w *Waiter) pipes() error {
	read, job, err := JobPipe()
	if err != nil {
		return err
	}
	w.Job, w.Extra = job, append(w.Extra, read)
	result, write, err := ResultPipe()
	if err != nil {
		return err
	}
	w.Result, w.Extra = result, append(w.Extra, write)
	return nil
}

// WriteJobFrom is [WriteJob] with inputs that are read from somewhere. It returns as [Waiter.Hand] does.
func WriteJobFrom(to *os.File, p policy.Program, inputs io.Reader, limit time.Duration) error {
	return writeJobFrom(to, p, inputs, limit, 0)
}

func writeJobFrom(to *os.File, p policy.Program, inputs io.Reader, limit, handed time.Duration) error {
	_, err := to.Write(append(jobHeader(p, limit, handed), p.Code...))
	if err == nil {
		_, err = io.Copy(to, inputs)
	}
	return errors.Join(err, to.Close())
}

// Close closes all of it.
func (w *Waiter) Close() {
	for _, file := range append(w.Extra, w.Job, w.Result) {
		if file != nil {
			file.Close()
		}
	}
}

// Ready waits until the interpreter waits. After an error it is of no use.
func (w *Waiter) Ready(until time.Time) error {
	if err := w.Result.SetReadDeadline(until); err != nil {
		return err
	}
	var one [1]byte
	switch n, err := w.Result.Read(one[:]); {
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%w: it ended before", ErrNotReady)
	case err != nil:
		return fmt.Errorf("%w: %w", ErrNotReady, err)
	case n != 1 || one[0] != ready:
		return fmt.Errorf("%w: it said %q", ErrNotReady, one[:n])
	}
	return w.Result.SetReadDeadline(time.Time{})
}

// Hand writes the job and closes its pipe: from here the interpreter's time runs. It returns when all is read, or nobody is left to read it, or Job is
// closed.
func (w *Waiter) Hand(p policy.Program, inputs io.Reader, limit time.Duration) error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return fmt.Errorf("clock_gettime: %w", err)
	}
	return writeJobFrom(w.Job, p, inputs, limit, time.Duration(now.Nano()))
}

// JobPipe has a write end that takes deadlines, and a read end that blocks.
func JobPipe() (read, write *os.File, err error) {
	var fds [2]int
	if err := syscall.Pipe2(fds[:], syscall.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("pipe2: %w", err)
	}
	read = os.NewFile(uintptr(fds[0]), "job")
	if err := syscall.SetNonblock(fds[1], true); err != nil {
		syscall.Close(fds[1])
		read.Close()
		return nil, nil, fmt.Errorf("fcntl O_NONBLOCK: %w", err)
	}
	return read, os.NewFile(uintptr(fds[1]), "job"), nil
}

// tuple writes names as Python does.
func tuple(names []string) string {
	var text strings.Builder
	text.WriteByte('(')
	for _, name := range names {
		text.WriteString(strconv.QuoteToASCII(name) + ",")
	}
	text.WriteByte(')')
	return text.String()
}
