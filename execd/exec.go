package execd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/runner"
)

// Exec walks one request that starts a process to its end: exec, run, and a file operation, whose process is our own. The caller in it must be the kernel's word ([Self], or the peer of a socket).
//
// The walk has one arrow a line. Each hands on one value; whatever goes wrong on one is a no: nothing is started, or what runs is killed, and
// the record and the reply say so.
func (s *Service) Exec(ctx context.Context, r policy.Request, o Options) (reply Reply) {
	for _, theirs := range []*os.File{o.Aside, o.Stdin} {
		if theirs != nil {
			defer theirs.Close() // the child has its own
		}
	}
	if s.config.Attach.on() && r.Sandbox == "" { // there is one, and it is whose network is meant
		r.Sandbox = s.sandboxes.sharedID()
		r.NetworkInherited = o.NetworkUnsaid && r.Sandbox != ""
	}
	s.active.Add(1) // before it enters, so that a drain counts all that got in
	defer s.active.Add(-1)
	w, err := s.enter(ctx, r, o)
	if err != nil {
		return w.reply(OutcomeInfra).because(err)
	}
	s.walked.Add(1)
	defer s.leave(w)
	defer w.recover(&reply)

	if err := w.decide(); err != nil { // what is in force
		return w.fail(err)
	}
	if err := w.build(); err != nil { // a sandbox and a plan for it
		return w.fail(err)
	}
	if err := w.prepare(); err != nil { // a child, confined, at its gate
		return w.fail(err)
	}
	if err := w.check(); err != nil { // the kernel's word against the plan
		return w.fail(err)
	}
	if err := w.record(); err != nil { // on the disk
		return w.fail(err)
	}
	if err := w.release(); err != nil { // the first instruction; then the kernel's word once more
		return w.fail(err)
	}
	return w.withOutputs(w.finish(w.wait())) // the tree is empty
}

// decide asks policy. A kept sandbox must be the caller's before anything is said about the request.
func (w *walk) decide() error {
	fault("walk.decide")
	if w.request.Action != policy.ActionExec && w.request.Action != policy.ActionRun && w.options.transfer == nil {
		return fmt.Errorf("action %q starts no process", w.request.Action)
	}
	if w.request.Command.Terminal != w.options.seats() {
		return errTerminal
	}
	if err := w.inheritNetwork(); err != nil {
		return err
	}
	if err := w.findImage(); err != nil {
		return err
	}
	w.decision = w.service.engine.Decide(w.ctx, w.request)
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx) // what a decision says that was broken off says nothing of the request
	}
	if w.options.Sink != nil {
		w.options.Sink.Decision(w.decision)
	}
	if !w.decision.Allow {
		return &deniedError{w.decision.Reasons}
	}
	return nil
}

// build takes a sandbox and makes the decision concrete for this host and that sandbox.
func (w *walk) build() (err error) {
	fault("walk.build")
	if err := w.service.queue.outputs.holds(w.decision.Effective.Limits.OutputBytes); err != nil {
		return err
	}
	if warm, err := w.adopt(); warm || err != nil {
		return asDenied(err)
	}
	switch {
	case w.ahead != nil: // the pool's are for those who wait for an answer
		w.box, err = w.service.sandboxes.makeWarm(rootSpec{})
	case w.options.after != nil:
		w.box = w.options.after.box
	default:
		w.box, err = w.service.sandboxes.take(w.ctx, w.request.Sandbox, w.request.Caller, rootOf(w.image, w.decision))
	}
	if errors.Is(err, ErrNoSandbox) || errors.Is(err, ErrGone) || errors.Is(err, ErrDrifted) {
		return &deniedError{[]policy.Reason{{Rule: "host.sandbox", Message: err.Error(), Field: "sandbox"}}}
	}
	if err != nil {
		return asDenied(err)
	}
	if w.box.kept {
		w.hook(w.box.life, errDeleted)
		if w.box.paused.Load() {
			return &deniedError{[]policy.Reason{{Rule: "host.sandbox", Message: ErrPaused.Error(), Field: "sandbox"}}}
		}
	}
	if err := w.letOut(); err != nil {
		return asDenied(err)
	}
	decision := w.decision
	if w.options.Observe != nil { // a filter has one listener
		decision.Effective.ExplainDenials = false
	}
	w.plan, err = enforcer.Build(decision, w.service.host, w.box.Plan(), w.service.profiles)
	switch {
	case err != nil:
	case w.options.Observe != nil:
		w.plan, err = w.plan.Observing(w.service.host)
	case w.options.ExplainDenials:
		w.plan, err = w.plan.Explaining(w.service.host)
	}
	if err == nil && w.request.Command.ReadOnly {
		w.plan, err = w.plan.ReadingOnly(w.service.host)
	}
	if err == nil && w.request.Command.Terminal {
		w.plan, err = w.plan.AtTerminal(w.service.host, decision.Accept)
	}
	return asDenied(err)
}

// prepare brings a child to its gate.
func (w *walk) prepare() (err error) {
	fault("walk.prepare")
	if w.program, err = w.newProgram(); err != nil {
		return asDenied(err)
	}
	if w.waiter != nil {
		return nil // it waits already
	}
	made, err := w.openTerminal()
	if err != nil {
		return err
	}
	if made.ours != nil {
		defer made.input.Close() // the child has its own
	}
	w.settleIn()
	ctx, cancel := context.WithTimeoutCause(w.ctx, w.service.config.GateTimeout, errGate)
	defer cancel()
	if !w.box.kept { // a kept one is shared with other execs
		w.box.used = true
	}
	w.child, err = w.box.Prepare(ctx, w.plan, w.program.Invocation, runner.IO{
		Stdin: w.program.stdin, Input: made.input, OutputBytes: w.decision.Effective.Limits.OutputBytes, OnLimit: w.decision.Effective.OnOutputLimit,
		Tee: w.tee(), Extra: w.program.extra, Waiting: w.ahead != nil, Unkept: w.options.Unkept, Leave: w.request.Command.LeaveChildren && w.box.kept,
		Terminal: made.terminal,
	})
	w.left = errors.Is(err, runner.ErrLeft)
	if err != nil {
		made.close()
		return err
	}
	w.program.handed(w.mostValue())
	return w.seat(made)
}

// tee passes output on as it comes. The runner may use its buffer again, so the sink gets a copy. It calls from its own goroutines, where a
// panic of the sink would end the daemon: it ends the walk.
func (w *walk) tee() func(string, []byte) {
	if w.options.Sink == nil {
		return nil
	}
	return func(stream string, chunk []byte) {
		defer func() {
			if cause := recover(); cause != nil {
				w.service.logger.Error("bug: panic in a sink; please report this", "exec", w.id, "panic", cause, "stack", string(debug.Stack()))
				w.cancel(errSink)
			}
		}()
		w.options.Sink.Output(stream, bytes.Clone(chunk))
	}
}

// check reads the child back and holds it against the plan. What can't be read isn't held.
func (w *walk) check() error {
	fault("walk.check")
	if w.waiter != nil { // read when it was taken
		return w.holds()
	}
	state, err := enforcer.Observe(w.child.PID(), w.service.host)
	if err == nil && w.plan.Terminal {
		state.Terminal, err = enforcer.ObserveTerminal(w.child.PID(), w.service.host)
	}
	if err != nil {
		w.verdict = policy.Verdict{Tier: w.plan.Tier, Rows: []policy.Row{unread(err)}}
		return &mismatchError{fmt.Errorf("read-back at the gate: %w", err)}
	}
	w.verdict = enforcer.Check(w.plan, w.child.Expect(), state)
	w.verdict.Degraded = append(w.verdict.Degraded, w.box.Verdict().Degraded...)
	return w.holds()
}

// holds adds to the verdict what isn't read of the child itself, and says whether all of it holds.
func (w *walk) holds() error {
	if err := w.checkNetwork(); err != nil {
		return err
	}
	if w.box.root.image != nil {
		w.verdict.Rows = append(w.verdict.Rows, imageRow(w.box))
	}
	if row, proven := w.service.proofs.use(w.plan, w.box.root); proven {
		w.verdict.Rows = append(w.verdict.Rows, row)
	}
	if !w.verdict.Held() {
		return &mismatchError{errors.New("read-back at the gate: " + failedRows(w.verdict))}
	}
	return nil
}

// record makes decision and proof durable. Nothing is released whose release isn't on the disk.
func (w *walk) record() (err error) {
	fault("walk.record")
	w.sequence, err = w.append(w.releaseRecord())
	if err == nil && w.options.Accepted != nil {
		w.options.Accepted(w.id, w.sequence)
	}
	return err
}

// release lets the child go on, starts the clock, and looks again once it is past execve, where setuid bits, file capabilities and inherited
// descriptors act.
func (w *walk) release() error {
	w.startClock()
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	fault("walk.release")
	if w.waiter != nil {
		return w.handOver()
	}
	if err := w.heedSandbox(); err != nil {
		return err
	}
	w.released = true
	if err := w.child.Release(); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	w.interruptAtLimit()
	w.interruptWhenAsked()
	if w.program.job != nil {
		w.program.hand(w.writeJob)
	}
	if w.options.transfer != nil {
		w.options.transfer.start()
	}
	fault("walk.released")
	started, cancel := context.WithTimeoutCause(w.clock, w.service.config.GateTimeout, errExecve)
	defer cancel()
	if err := w.child.Started(started); err != nil {
		var step *runner.StepError
		if errors.As(err, &step) {
			return err
		}
		// The clock's end, and the end of a process that nobody saw past execve, are told by wait.
		if w.clock.Err() == nil {
			w.unstarted = err
			w.child.Kill()
		}
		return nil
	}
	fault("walk.look")
	w.mismatch = w.checkStarted()
	if w.mismatch == nil {
		w.service.running.add(w) // from here drift of the sandbox ends it too; what was found until now it asks for itself
		w.mismatch = w.heedSandbox()
		w.heedPause()
	}
	switch {
	case w.mismatch != nil:
		w.child.Kill()
		return nil
	case w.options.Running != nil:
		w.options.Running()
	}
	w.listen()
	return nil
}

// wait waits for the end of leader and tree, within the clock: when it ends first, the runner kills the tree.
func (w *walk) wait() runner.Exit {
	fault("walk.wait")
	exit := w.child.Wait(w.clock)
	w.ended = true
	if exit.Left {
		w.leaveBehind()
		return exit
	}
	w.service.running.remove(w)
	if w.mismatch == nil {
		w.mismatch = w.heed(w.drift.Load())
	}
	w.proveEmpty(&exit)
	return exit
}

// proveEmpty ends the whole sandbox of a tree that isn't proven to be gone: then it is.
func (w *walk) proveEmpty(exit *runner.Exit) {
	if !exit.TreeEmpty {
		exit.TreeEmpty = w.service.sandboxes.evict(w.box, exit.Stuck)
	}
}
