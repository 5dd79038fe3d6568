package execd

import (
	"os"
	"time"

	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/runner"
	"github.com/sandboxd/sandboxd/runner/python"
)

// resultGrace is how long the rest of a value may take once nobody is left who could write more: it is in the pipe already.
const resultGrace = time.Second

// result is the value of a run on its way. It is read while the program runs, since a pipe holds little.
type result struct {
	file *os.File
	read chan python.Result
}

// readResult begins to read; at most limit bytes of value are kept.
func readResult(file *os.File, limit int64) *result {
	r := &result{file: file, read: make(chan python.Result, 1)}
	go func() { r.read <- python.ReadResult(file, limit) }()
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
}

// returnValue puts in the value of a run, or the one that the result marker has, which is then no longer in stdout.
func (w *walk) returnValue(reply *Reply, exit runner.Exit) {
	switch {
	case w.request.Action == policy.ActionRun:
		value := w.program.value.value(exit.TreeEmpty)
		reply.ReturnValue, reply.ReturnValueHow, reply.ReturnValueReason = value.Value, value.How, value.Reason
	case w.options.ResultMarker:
		takeMarker(reply, exit)
	}
}

// pythonProgram makes an invocation of a run.
func pythonProgram(p policy.Program) (*program, error) {
	argv, extra, channel, err := python.Invocation(p, firstExtra)
	if err != nil {
		return nil, err
	}
	made := &program{extra: extra, channel: channel}
	made.Argv, made.Env, made.Cwd, made.Extra = argv, environment(p.Env), directory(p.Cwd), len(extra)
	return made, nil
}
