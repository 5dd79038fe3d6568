package runner

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"
)

// next hears the worker's next message.
func (c *Child) next() error {
	var buffer [16 << 10]byte
	n, err := c.worker.conn.Read(buffer[:])
	for errors.Is(err, os.ErrDeadlineExceeded) && c.goOn() {
		n, err = c.worker.conn.Read(buffer[:])
	}
	if errors.Is(err, syscall.ECONNRESET) { // it ended without reading all; what it said before is still there
		n, err = c.worker.conn.Read(buffer[:])
	}
	if err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	return c.hear(buffer[:n])
}

// hear takes one message of the worker. Whatever it isn't is a protocol error, and the worker's end.
func (c *Child) hear(message []byte) error {
	if len(message) < 4 {
		return fmt.Errorf("%w: %d bytes of the worker", ErrProtocol, len(message))
	}
	switch kind := order.Uint32(message); kind {
	case kindTarget:
		return c.hearTarget(message)
	case kindFailed:
		return c.hearFailed(message)
	case kindExit:
		exit := &exitMessage{}
		if _, err := readMessage(exit, message); err != nil {
			return err
		}
		c.heard.exit, c.heard.at = exit, time.Now()
		if exit.flags&exitEmpty != 0 {
			c.heard.empty, c.heard.reaped = true, int(exit.reaped)
		}
		return c.mine(exit.sequence)
	case kindEmpty:
		var empty emptyMessage
		if _, err := readMessage(&empty, message); err != nil {
			return err
		}
		c.heard.empty, c.heard.reaped = true, int(empty.reaped)
		return c.mine(empty.sequence)
	default:
		return fmt.Errorf("%w: message %#x of the worker", ErrProtocol, kind)
	}
}

// mine refuses what is said of another exec.
func (c *Child) mine(sequence uint64) error {
	if sequence != c.sequence {
		return fmt.Errorf("%w: a word of exec %d, want %d", ErrProtocol, sequence, c.sequence)
	}
	return nil
}

func (c *Child) hearTarget(message []byte) error {
	var header targetHeader
	texts, err := readMessage(&header, message)
	if err != nil {
		return err
	}
	if len(texts) != int(header.target)+int(header.cwd) {
		return fmt.Errorf("%w: texts of %d bytes", ErrProtocol, len(texts))
	}
	c.heard.target, c.heard.cwd = string(texts[:header.target]), string(texts[header.target:])
	c.heard.byPath = header.byPath != 0
	return c.mine(header.sequence)
}

func (c *Child) hearFailed(message []byte) error {
	var header failedHeader
	texts, err := readMessage(&header, message)
	if err != nil {
		return err
	}
	if len(texts) != int(header.step)+int(header.text) {
		return fmt.Errorf("%w: texts of %d bytes", ErrProtocol, len(texts))
	}
	step, text := string(texts[:header.step]), string(texts[header.step:])
	if step == stepWorker || step == stepMessage { // it is of no exec, and ends after that
		return fmt.Errorf("worker: %s", text)
	}
	c.heard.failure = &StepError{Step: step, Errno: syscall.Errno(header.errno), Got: text}
	c.heard.empty = true
	return c.mine(header.sequence)
}

// untilExit hears the worker until it has told of the leader's end, or that there is no leader.
func (c *Child) untilExit() error {
	for c.heard.exit == nil && c.heard.failure == nil {
		if err := c.next(); err != nil {
			return err
		}
	}
	return nil
}

// failed is which step failed, as the worker knows it; nil when none did.
func (c *Child) failed() error {
	if c.heard.failure != nil {
		return c.heard.failure
	}
	if c.heard.exit.flags&exitStepFailed != 0 {
		return c.stepError(int(c.heard.exit.step), c.heard.exit.result)
	}
	return nil
}

// uncontrolled are the steps whose failure says nothing of the confinement.
var uncontrolled = []string{"chdir", "gate", "execve"}

// stepError names the step of a number, and what the kernel answered it.
func (c *Child) stepError(index int, result int64) error {
	steps, err := Steps(c.plan.plan, c.inv, 0)
	if err != nil {
		return err
	}
	steps = alter(steps) // the worker's numbers are those of its own table
	if index >= len(steps) {
		return fmt.Errorf("%w: step %d of %d", ErrProtocol, index, len(steps))
	}
	step := steps[index]
	e := &StepError{Step: step.Name, Control: !slices.Contains(uncontrolled, step.Name), Probe: step.Probe, Got: answer(result)}
	if result < 0 {
		e.Errno = syscall.Errno(-result)
	}
	switch {
	case step.Name == "gate":
	case step.Any:
		e.Want = "success"
	case step.Want != never:
		e.Want = answer(step.Want)
	}
	return e
}

// answer is a system call's answer in words.
func answer(result int64) string {
	if result >= 0 {
		return fmt.Sprint(result)
	}
	errno := syscall.Errno(-result)
	return errnoName(errno) + " (" + errno.Error() + ")"
}
