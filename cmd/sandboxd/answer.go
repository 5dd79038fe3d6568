package main

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/policy"
)

// answer is how a reply is shown.
type answer struct {
	json    bool // the whole reply on stdout, in place of the output
	explain bool // verdict or reasons as a table on stderr
	value   bool // a returned value on stdout, after the output
	denials bool // what the seccomp filter refused, a line each on stderr
	outputs outputs
}

func (a *answer) register(f *flagSet) {
	f.BoolVar(&a.json, "json", false, "print the whole reply as JSON in place of the output")
	f.BoolVar(&a.denials, "explain-denials", false, "name the system calls that the seccomp filter refused, and what would allow them")
	f.BoolVar(&a.explain, "explain", false, "print the verdict, or the reasons of a no, as a table on stderr")
}

// sink passes output through as it comes, or nil when the reply is printed whole. gone is called when nobody reads it any more.
func (a *answer) sink(p *program, gone func()) execd.Sink {
	if a.json {
		return nil
	}
	// With a handler a write to a pipe without a reader is an error; without one the signal would end us, and no outcome would be recorded.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return passThrough{p, gone}
}

// passThrough writes the child's bytes to our own streams, unchanged.
type passThrough struct {
	p    *program
	gone func()
}

func (passThrough) Decision(policy.Decision) {}

func (t passThrough) Output(stream string, chunk []byte) {
	to := t.p.stdout
	if stream == "stderr" {
		to = t.p.stderr
	}
	if _, err := to.Write(chunk); err != nil {
		t.gone() // as a shell's pipe would: nothing goes on that nobody wants
	}
}

func (a *answer) show(p *program, reply execd.Reply) error {
	if a.explain && !a.json {
		explain(p, reply)
	}
	if a.json && reply.Value() != nil {
		return reply.WriteJSON(p.stdout)
	}
	if a.json {
		return printJSON(p.stdout, reply)
	}
	if err := a.showLong(p, reply); err != nil {
		return err
	}
	// A program that sets no value gives null; --json tells that from one that set null.
	if a.value && len(reply.ReturnValue) > 0 && reply.ReturnValue.Kind() != 'n' {
		fmt.Fprintf(p.stdout, "%s\n", reply.ReturnValue)
	}
	for _, note := range notes(reply) {
		p.complain(errors.New(note))
	}
	if o := reply.Outputs; o != nil && len(o.Files) > 0 && a.outputs.dir == "" && isTerminal(p.stderr) {
		p.complain(fmt.Errorf("it left %d files in outputs/; --outputs DIR fetches them", len(o.Files)))
	}
	// What the host lacks and policy accepted. A program's stderr is its own where nobody looks at it; --explain and --json always tell.
	if len(reply.Verdict.Degraded) > 0 && isTerminal(p.stderr) && !a.explain {
		p.complain(errors.New("degraded: " + lacks(reply.Verdict.Degraded) + "; --explain says more"))
	}
	return nil
}

// showLong prints a value that is too long for memory.
func (a *answer) showLong(p *program, reply execd.Reply) error {
	if !a.value || reply.Value() == nil {
		return nil
	}
	err := reply.Value().Pieces(func(piece []byte) error {
		_, err := p.stdout.Write(piece)
		return err
	})
	if err == nil {
		_, err = fmt.Fprintln(p.stdout)
	}
	return err
}

// lacks are the names alone of "name: reason".
func lacks(degraded []string) string {
	names := make([]string, len(degraded))
	for i, lack := range degraded {
		names[i], _, _ = strings.Cut(lack, ":")
	}
	return strings.Join(names, ", ")
}

// printJSON prints one line, or several on a terminal.
func printJSON(to *os.File, value any) error {
	options := []json.Options{wire}
	if isTerminal(to) {
		options = append(options, jsontext.WithIndent("  "))
	}
	text, err := json.Marshal(value, options...)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(to, "%s\n", text)
	return err
}

// notes say what a person can't see from output and exit status alone, and what to do about it.
func notes(r execd.Reply) []string {
	var lines []string
	run := r.Interpreter != "" // its stderr ends with what was refused and that it was killed for memory
	if text := ending(r); text != "" && (r.Outcome != execd.OutcomeOOM || !run) {
		lines = append(lines, text)
	}
	if !run {
		for _, call := range r.DeniedCalls {
			lines = append(lines, refusedCall(call))
		}
		if r.DeniedCallsCut {
			lines = append(lines, "more calls were refused than are named; after 10000 they are no longer counted")
		}
	}
	for _, stream := range []struct {
		name string
		cut  bool
		all  int64
	}{{"stdout", r.Truncated.Stdout, r.Bytes.Stdout}, {"stderr", r.Truncated.Stderr, r.Bytes.Stderr}} {
		if stream.cut {
			lines = append(lines, fmt.Sprintf("%s is cut: %d bytes were written; limits.outputBytes says how many are kept", stream.name, stream.all))
		}
	}
	if r.ReturnValueReason != "" {
		lines = append(lines, "return value: "+r.ReturnValueReason)
	}
	if !r.TreeEmpty && ran(r.Outcome) {
		lines = append(lines, "processes of this exec may still be there: the kernel did not say that all are gone")
	}
	return lines
}

// refusedCall is one line of a refused system call.
func refusedCall(c audit.DeniedCall) string {
	args := ""
	for _, a := range c.Args {
		args += fmt.Sprintf(" argument %d: %#x", a.Index, a.Value)
	}
	return fmt.Sprintf("seccomp refused %s%s (%s, %d×); to allow it: %s", c.Call, args, c.Errno, c.Count, c.Remedy)
}

// ran says whether the program was released, so that there was a tree.
func ran(o execd.Outcome) bool {
	switch o {
	case execd.OutcomeDenied, execd.OutcomeMismatch, execd.OutcomeNotStarted, execd.OutcomeInfra:
		return false
	}
	return true
}

func ending(r execd.Reply) string {
	switch r.Outcome {
	case execd.OutcomeOK, execd.OutcomeError:
		return ""
	case execd.OutcomeSignaled:
		if r.Signal == nil {
			return "ended by a signal that the kernel didn't name"
		}
		name := unix.SignalName(syscall.Signal(*r.Signal))
		if syscall.Signal(*r.Signal) == syscall.SIGSYS {
			return "ended by SIGSYS: it made a system call that the seccomp profile kills for"
		}
		return "ended by " + name
	case execd.OutcomeTimeout:
		if r.Message != "" {
			return "timeout: " + r.Message
		}
		return fmt.Sprintf("timeout: killed after %.3g s; --timeout gives more", r.DurationSeconds)
	case execd.OutcomeOOM:
		return "oom: the kernel killed it for memory; limits.memoryBytes gives more"
	case execd.OutcomeOutputLimit:
		return "output_limit: killed, since it wrote more than limits.outputBytes"
	case execd.OutcomeDenied:
		return denial(r.Reasons)
	case execd.OutcomeMismatch:
		return mismatch(r)
	case execd.OutcomeNotStarted:
		return notStarted(r)
	case execd.OutcomeCancelled:
		return "cancelled"
	}
	return fmt.Sprintf("%s: %s", r.Outcome, r.Message)
}

// notStarted says what couldn't be had, and what there is.
func notStarted(r execd.Reply) string {
	text := "not_started: " + r.Message
	if r.Errno == "ENOENT" {
		text += "; a sandbox sees the system directories, /tmp, /work and what --show names"
	}
	return text
}

func denial(reasons []policy.Reason) string {
	if len(reasons) == 0 {
		return "denied: policy gave no reason"
	}
	text := "denied: " + strings.TrimSuffix(reasons[0].Message, ".")
	if more := len(reasons) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text + "; --explain prints the change that would pass"
}

// mostRows is how many rows a line names; --explain prints all of them.
const mostRows = 3

func mismatch(r execd.Reply) string {
	var failed []string
	for _, row := range r.Verdict.Rows {
		if !row.Held {
			failed = append(failed, fmt.Sprintf("%s is %s, not %s", row.Control, row.Got, row.Want))
		}
	}
	if len(failed) == 0 {
		failed = append(failed, r.Message)
	}
	if more := len(failed) - mostRows; more > 0 {
		failed = append(failed[:mostRows], fmt.Sprintf("and %d more", more))
	}
	what := "nothing was run"
	if r.DurationSeconds > 0 { // found by the second look, after execve
		what = "it was killed at once"
	}
	return "mismatch: " + strings.Join(failed, ", ") + "; " + what
}
