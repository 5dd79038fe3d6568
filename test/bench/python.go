package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/policy"
)

// interpreter is the Python of the sandboxes of this machine.
const interpreter = "/usr/bin/python3"

// python are the rows of `run`, beside the interpreter alone.
func python(b *bench) error {
	if err := cold(b); err != nil {
		return err
	}
	if err := warm(b, "json", 5, 15); err != nil {
		return err
	}
	return pandas(b)
}

func program(sandbox, code string) policy.Request {
	return policy.Request{
		Action: policy.ActionRun, Caller: caller(), Sandbox: sandbox,
		Program: policy.Program{Language: policy.LanguagePython, Code: code, Inputs: []byte(`{"n": 20}`)},
	}
}

// runs runs a program, and is an error if it doesn't come to 21, or by another kind of interpreter.
func (b *bench) runs(s *execd.Service, r policy.Request, how string) error {
	reply := s.Exec(b.ctx, r, execd.Options{})
	if string(reply.ReturnValue) != "21" || reply.Interpreter != how {
		return fmt.Errorf("outcome %s, interpreter %s, value %s: %s", reply.Outcome, reply.Interpreter, reply.ReturnValue, reply.Message)
	}
	return nil
}

// cold: over the interpreter alone, in a sandbox that is there.
func cold(b *bench) error {
	service, err := b.service(b.memory + "/python")
	if err != nil {
		return err
	}
	defer service.Close(b.ctx)
	run := program(service.box, "_return = inputs['n'] + 1")
	kinds := []kind{
		{"interpreter", func() error { return exec.Command(interpreter, "-I", "-c", "pass").Run() }},
		{"run", func() error { return b.runs(service.Service, run, execd.InterpreterCold) }},
	}
	times, _, err := interleaved(1, min(b.rounds, 100), kinds)
	if err != nil {
		return err
	}
	extra := times["run"].p50() - times["interpreter"].p50()
	b.add("Python run, cold, over the bare interpreter, p50", "≤ + 2 ms", fmt.Sprintf("+ %s (%s / %s)", short(extra), short(times["run"].p50()), short(times["interpreter"].p50())),
		met(float64(extra), 2e6))
	return nil
}

// warm: a run that meets an interpreter that waits. What takes its place is started before the next one is timed.
func warm(b *bench, module string, p50, p99 float64) error {
	config := execd.DefaultConfig(filepath.Join(b.memory, "warm-"+module))
	config.RunnerPath = filepath.Join(b.dir, "sandboxd-runner")
	const size = 4
	config.Prewarm = []execd.Prewarm{{Imports: []string{module}, Size: size}}
	service, err := execd.New(b.ctx, config)
	if err != nil {
		return err
	}
	defer service.Close(b.ctx)
	var bare, run sample
	for range min(b.rounds, 400) {
		for service.Status().Interpreters.Waiting < size {
			time.Sleep(time.Millisecond)
		}
		took, err := timed(func() error { return exec.Command(interpreter, "-I", "-c", "import "+module).Run() })
		if err != nil {
			return err
		}
		bare = append(bare, took)
		took, err = timed(func() error {
			return b.runs(service, program("", "import "+module+"\n_return = inputs['n'] + 1"), execd.InterpreterWarm)
		})
		if err != nil {
			return err
		}
		run = append(run, took)
	}
	name := fmt.Sprintf("Python run, pre-started with %s imported (a bare interpreter that imports it beside it)", module)
	b.add(name+", p50", fmt.Sprintf("≤ %g ms", p50), fmt.Sprintf("%s (%s)", short(run.p50()), short(bare.p50())), met(float64(run.p50()), p50*1e6))
	if p99 > 0 {
		b.add(name+", p99", fmt.Sprintf("≤ %g ms", p99), fmt.Sprintf("%s (%s)", short(run.p99()), short(bare.p99())), met(float64(run.p99()), p99*1e6))
	}
	return nil
}
