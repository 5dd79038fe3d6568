package execd

import (
	"bytes"
	"io"
	"os"
	"time"

	"github.com/sandboxd/sandboxd/execd/spool"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/runner"
	"github.com/sandboxd/sandboxd/runner/python"
	"github.com/sandboxd/sandboxd/runner/script"
)

// resultGrace is how long the rest of a value may take once nobody is left who could write more: it is in the pipe already.
const resultGrace = time.Second

// result is the value of a run on its way. It is read while the program runs, since a pipe holds little.
type result struct {
	file *os.File
	read chan python.Result
	// text is where a long value is written to; nil: none may be long.
	text *spool.Text
}

// mostValue is how long a value may be, and where one goes that is too long for memory; nil: it may not be.
type mostValue struct {
	bytes int64
	store *spool.Store
}

// mostValue: who takes long values closes what they are in; for anybody else the limit is that of output.
func (w *walk) mostValue() mostValue {
	if w.options.LongValue {
		return mostValue{w.service.config.ValueBytes, w.service.spool}
	}
	return mostValue{w.decision.Effective.Limits.OutputBytes, nil}
}

// readResult begins to read.
func readResult(language string, file *os.File, most mostValue) *result {
	r := &result{file: file, read: make(chan python.Result, 1)}
	if most.store == nil {
		go func() { r.read <- script.ReadResult(language, file, most.bytes) }()
		return r
	}
	r.text = most.store.Text()
	go func() { r.read <- script.ReadLong(language, file, most.bytes, spool.InMemory, r.text) }()
	return r
}

// value gives the value when the tree has ended. What a process writes that outlived the tree's kill is nobody's value.
func (r *result) value(treeEmpty bool) python.Result {
	bound := time.Now()
	if treeEmpty {
		bound = bound.Add(resultGrace)
	}
	if err := r.file.SetReadDeadline(bound); err != nil {
		r.file.Close()
	}
	value := <-r.read
	r.read <- value
	return value
}

// close ends the reading.
func (r *result) close() {
	r.file.Close()
	<-r.read
	if r.text != nil {
		r.text.Close()
	}
}

// returnValue puts in the value of a run, or the one that the result marker has, which is then no longer in stdout.
func (w *walk) returnValue(reply *Reply, exit runner.Exit) {
	switch {
	case w.options.context != nil: // it has results, by its cells
	case w.request.Action == policy.ActionRun:
		value := w.program.value.value(exit.TreeEmpty)
		reply.ReturnValue, reply.ReturnValueHow, reply.ReturnValueReason = value.Value, value.How, value.Reason
		reply.pythonValue = value.Text
		if value.Long != nil {
			w.value = &Value{w.program.value.text, *value.Long}
			reply.value, w.program.value.text = w.value, nil
		}
	case w.options.ResultMarker:
		takeMarker(reply, exit)
	}
}

// runGrace is how long a run that is told of the end of its time may take to hand over its value.
const runGrace = time.Second

// limit is the wall clock that is in force.
func (w *walk) limit() time.Duration {
	return time.Duration(w.decision.Effective.Limits.TimeoutSeconds * float64(time.Second))
}

// grace is what a program gets on top of its limit.
func (w *walk) grace() time.Duration {
	if w.request.Action == policy.ActionRun && w.options.context == nil {
		return runGrace
	}
	return 0
}

// interruptAtLimit has a run told when its time is over. Whether its leader lived then is the kernel's word, and decides the outcome: code that
// ignores the signal, catches what the driver makes of it, or ends in its grace, has had its time all the same.
func (w *walk) interruptAtLimit() {
	if w.grace() == 0 {
		return
	}
	timer := time.AfterFunc(w.limit(), func() {
		if w.child.Interrupt() {
			w.late.Store(true)
		}
	})
	stop := w.stopClock
	w.stopClock = func() { timer.Stop(); stop() }
}

// hadItsTime says that the leader of a run lived to its limit: it was seen to, or was told to have ended after that.
func (w *walk) hadItsTime(exit runner.Exit) bool {
	return w.late.Load() || w.grace() > 0 && exit.Duration >= w.limit()
}

// runExitCode is the exit code of a run, which always has one when it ran: 124 at the end of its time, 137 when it was killed for memory, 128+n when
// it died by signal n. None of them says how it ended: that does the outcome.
func (r Reply) runExitCode() *int {
	switch r.Outcome {
	case OutcomeTimeout, OutcomeOOM, OutcomeSignaled:
		return new(r.ExitStatus())
	}
	return r.ExitCode
}

// runProgram makes an invocation of a run. compiled is asked for the driver of one in Python.
func runProgram(p policy.Program, limit time.Duration, compiled func() python.Compiled) (*program, error) {
	made := &program{language: p.Language}
	made.Env, made.Cwd = runEnvironment(p.Language, p.Env), directory(p.Cwd)
	var err error
	switch {
	case p.Language != policy.LanguagePython:
		var env []string
		made.Argv, env, made.extra, made.job, made.channel, err = script.Invocation(p, firstExtra)
		made.Env = append(made.Env, env...)
	case p.Bulk != nil:
		var io *python.Waiter
		if io, err = python.Piped(firstExtra); err == nil {
			made.Argv, made.extra, made.job, made.channel = io.Argv, io.Extra, io.Job, io.Result
		}
	default:
		made.Argv, made.extra, made.channel, err = python.Invocation(p, limit, compiled(), firstExtra)
	}
	made.Extra = len(made.extra)
	return made, err
}

// inputs are those of a run, wherever they are.
func (w *walk) inputs() io.Reader {
	if text := w.options.Inputs; text != nil {
		return text.Reader(0, text.Len())
	}
	return bytes.NewReader(w.request.Program.Inputs)
}

// writeJob hands a program the inputs that are too long for memory. Its time runs already: what it waits for them is its own.
func (w *walk) writeJob(job *os.File) error {
	if w.program.language != policy.LanguagePython {
		return script.WriteJob(job, w.request.Program, w.inputs())
	}
	return python.WriteJobFrom(job, w.request.Program, w.inputs(), w.limit())
}
