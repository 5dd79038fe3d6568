package execd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/runner"
)

// How the interpreter of a run was started.
const (
	InterpreterWarm = "warm"
	InterpreterCold = "cold"
)

// mayBeWarm says whether a run may get an interpreter that was started ahead. The others start cold: what they ask for acts when a program starts, or
// counts from there.
//
// Environment and directory are read by the loader, libc, the interpreter and imports, and nobody can tell what by; processor time is counted from
// execve; a listener on the filter would have heard the imports; a sandbox that the caller names is another one.
func (w *walk) mayBeWarm() bool {
	r, effective := w.request, w.decision.Effective
	return r.Action == policy.ActionRun && w.ahead == nil && len(w.service.interpreters.sets) > 0 &&
		r.Program.Language == policy.LanguagePython && len(r.Program.Env) == 0 && directory(r.Program.Cwd) == workDir &&
		r.Sandbox == "" && r.Image == (policy.Image{}) && effective.Limits.CPUSeconds == 0 &&
		!effective.ExplainDenials && !w.options.ExplainDenials && w.options.Observe == nil
}

// adopt gives the walk an interpreter that waits, with its sandbox, if there is one under the same plan and it is as it was when it was started. It
// says whether it did. One that isn't is killed: nothing of the job has come near it.
func (w *walk) adopt() (bool, error) {
	if !w.mayBeWarm() {
		return false, nil
	}
	s := w.service
	common, err := s.commonPlan(w.decision)
	if err != nil {
		return false, nil // the cold way says it
	}
	effective := w.decision.Effective
	s.interpreters.ask(common, policy.Request{SecurityContext: effective.SecurityContext, Network: effective.Network, Limits: effective.Limits})
	for w.ctx.Err() == nil {
		found := s.interpreters.take(common, w.request.Program.Code)
		if found == nil {
			return false, nil
		}
		if !w.trust(found) {
			continue
		}
		from := found.walk
		s.running.remove(from)
		w.waiter, w.plan, w.child = found, from.plan, from.child
		w.box = from.box
		from.handed, from.ended = true, true
		s.leave(from)
		return true, w.letOut()
	}
	return false, nil
}

// trust looks at an interpreter that waits. What holds no longer is drift, and is dealt with as such.
func (w *walk) trust(a *waiter) bool {
	why := a.spoilt()
	if why == nil {
		why = w.agrees(a)
	}
	if why == nil {
		verdict, err := a.look()
		switch {
		case errors.Is(err, os.ErrProcessDone):
			why = fmt.Errorf("%w while it waited", err)
		case !verdict.Held():
			d := &drift{verdict.Failed(), "exec"}
			w.service.drifted(a.walk.box, a.walk, d)
			why = d
		default:
			w.verdict = verdict
			w.verdict.Degraded = append(w.verdict.Degraded, a.walk.box.Verdict().Degraded...)
		}
	}
	if why != nil {
		w.service.interpreters.end(a, why)
	}
	return why == nil
}

// agrees says whether an interpreter was started under the policy that has decided on the job, and under the very plan that the job has in its sandbox.
func (w *walk) agrees(a *waiter) error {
	if revision := a.walk.decision.Revision; revision != w.decision.Revision {
		return fmt.Errorf("%w: policy was %s and is %s", errOfNoUse, revision, w.decision.Revision)
	}
	plan, err := enforcer.Build(w.decision, w.service.host, a.walk.box.Plan(), w.service.profiles)
	if err == nil && !plan.Equal(a.walk.plan) {
		err = fmt.Errorf("its plan is %s, and the job's %s", a.walk.plan.Digest(), plan.Digest())
	}
	return err
}

// warmProgram is what the interpreter is in already.
func (w *walk) warmProgram() *program {
	io := w.waiter.io
	made := &program{channel: io.Result, job: io.Job, language: policy.LanguagePython}
	made.Argv, made.Env, made.Cwd, made.Extra = io.Argv, runEnvironment(policy.LanguagePython, nil), workDir, len(io.Extra)
	return made
}

// handOver is the second gate. The job was decided on, its plan is the interpreter's, the kernel was asked just now, and all of that is on the disk: the
// interpreter gets its job, and its time runs from here.
func (w *walk) handOver() error {
	if err := w.heedSandbox(); err != nil {
		return err
	}
	limits := w.decision.Effective.Limits
	if err := w.child.Begin(runner.IO{OutputBytes: limits.OutputBytes, OnLimit: w.decision.Effective.OnOutputLimit, Tee: w.tee()}); err != nil {
		return fmt.Errorf("hand-over: %w", err)
	}
	w.released = true
	w.program.handed(w.mostValue())
	w.program.hand(func(*os.File) error { return w.waiter.io.Hand(w.request.Program, w.inputs(), w.limit()) })
	w.interruptAtLimit()
	fault("walk.released")
	w.service.running.add(w)
	w.mismatch = w.heedSandbox()
	if w.mismatch != nil {
		w.child.Kill()
	}
	return nil
}

// idle waits until no request is on its way, for a while: what is started ahead has time, and requests have none.
func (s *Service) idle(ctx context.Context) error {
	ticker := time.NewTicker(idleLook)
	defer ticker.Stop()
	for until := time.Now().Add(longestIdle); s.active.Load() > 0 && time.Now().Before(until); {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return ctx.Err()
}

const (
	idleLook    = 2 * time.Millisecond
	longestIdle = 100 * time.Millisecond
)
