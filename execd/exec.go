package execd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/runner"
)

// Exec walks one request of action exec or run to its end. The caller in it must be the kernel's word ([Self], or the peer of a socket).
//
// The walk has one arrow a line. Each hands on one value; whatever goes wrong on one is a no: nothing is started, or what runs is killed, and
// the record and the reply say so.
func (s *Service) Exec(ctx context.Context, r policy.Request, o Options) (reply Reply) {
	w, err := s.enter(ctx, r, o)
	if err != nil {
		return w.reply(OutcomeInfra).because(err)
	}
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
	return w.finish(w.wait()) // the tree is empty
}

// walk is one request on its way. Each field is set by the arrow that makes it.
type walk struct {
	service *Service
	request policy.Request
	options Options
	id      string
	began   time.Time
	// ctx ends when the caller goes away or the service stops.
	ctx    context.Context
	cancel context.CancelCauseFunc
	unhook []func() bool

	decision policy.Decision
	box      *sandbox
	plan     enforcer.Plan
	program  *program
	child    *runner.Child
	verdict  policy.Verdict
	sequence int64

	// released says that untrusted code may have run. From then on the clock runs: it ends with errDeadline, or when ctx does.
	released  bool
	clock     context.Context
	stopClock context.CancelFunc
	// mismatch says that the second look found something else than the first: the tree is being killed.
	mismatch error
	// unstarted says why nobody knows whether execve has passed. If the child has ended by itself the kernel's word on that stands, else it is killed.
	unstarted error
	// ended says that Wait or Abort has returned: the child is no longer ours to end.
	ended bool
}

// The reasons for which a clock ends.
var (
	errDeadline = errors.New("the time limit is over")
	errStopping = errors.New("the daemon is stopping")
)

// enter begins a walk, unless the service is stopping.
func (s *Service) enter(ctx context.Context, r policy.Request, o Options) (*walk, error) {
	w := &walk{service: s, request: r, options: o, id: newID(), began: time.Now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return w, errStopping
	}
	s.walks.Add(1)
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	w.hook(s.life, errStopping)
	w.clock, w.stopClock = w.ctx, func() {}
	return w, nil
}

// hook ends the walk when something else ends.
func (w *walk) hook(life context.Context, why error) {
	w.unhook = append(w.unhook, context.AfterFunc(life, func() { w.cancel(why) }))
}

// leave ends what the walk has begun, in whatever state it is.
func (s *Service) leave(w *walk) {
	w.end()
	if w.program != nil {
		w.program.close()
	}
	if w.box != nil {
		s.sandboxes.putBack(w.box)
	}
	w.stopClock()
	for _, unhook := range w.unhook {
		unhook()
	}
	w.cancel(nil)
	s.walks.Done()
}

// end kills a child that is still there.
func (w *walk) end() {
	if w.child == nil || w.ended {
		return
	}
	w.ended = true
	if !w.released {
		w.child.Abort()
		return
	}
	w.child.Kill()
	bounded, cancel := context.WithTimeout(context.Background(), w.service.config.KillTimeout)
	defer cancel()
	w.child.Wait(bounded)
}

// recover turns a panic on any arrow into infra, with nothing left running.
func (w *walk) recover(reply *Reply) {
	cause := recover()
	if cause == nil {
		return
	}
	w.service.logger.Error("bug: panic in a walk; please report this", "exec", w.id, "panic", cause, "stack", string(debug.Stack()))
	*reply = w.fail(fmt.Errorf("internal error; please report this: %v", cause))
}

// decide asks policy. A kept sandbox must be the caller's before anything is said about the request.
func (w *walk) decide() error {
	if w.request.Action != policy.ActionExec && w.request.Action != policy.ActionRun {
		return fmt.Errorf("action %q starts no process", w.request.Action)
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
	w.box, err = w.service.sandboxes.take(w.ctx, w.request.Sandbox, w.request.Caller)
	if errors.Is(err, ErrNoSandbox) || errors.Is(err, ErrGone) {
		return &deniedError{[]policy.Reason{{Rule: "host.sandbox", Message: err.Error(), Field: "sandbox"}}}
	}
	if err != nil {
		return asDenied(err)
	}
	if w.box.kept {
		w.hook(w.box.life, errDeleted)
	}
	w.plan, err = enforcer.Build(w.decision, w.service.host, w.box.Plan(), w.service.profiles)
	return asDenied(err)
}

// prepare brings a child to its gate.
func (w *walk) prepare() (err error) {
	if w.program, err = newProgram(w.request); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(w.ctx, w.service.config.GateTimeout)
	defer cancel()
	w.box.used = true
	w.child, err = w.box.Prepare(ctx, w.plan, w.program.Invocation, runner.IO{
		Stdin: w.program.stdin, OutputBytes: w.decision.Effective.Limits.OutputBytes, OnLimit: w.decision.Effective.OnOutputLimit,
		Tee: w.tee(), Extra: w.program.extra,
	})
	if err == nil {
		w.program.handed(w.decision.Effective.Limits.OutputBytes)
	}
	return err
}

// tee passes output on as it comes. The runner may use its buffer again, so the sink gets a copy.
func (w *walk) tee() func(string, []byte) {
	if w.options.Sink == nil {
		return nil
	}
	return func(stream string, chunk []byte) { w.options.Sink.Output(stream, append([]byte(nil), chunk...)) }
}

// check reads the child back and holds it against the plan. What can't be read isn't held.
func (w *walk) check() error {
	state, err := enforcer.Observe(w.child.PID(), w.service.host)
	if err != nil {
		w.verdict = policy.Verdict{Tier: w.plan.Tier, Rows: []policy.Row{unread(err)}}
		return &mismatchError{fmt.Errorf("read-back at the gate: %w", err)}
	}
	w.verdict = enforcer.Check(w.plan, w.child.Expect(), state)
	w.verdict.Degraded = append(w.verdict.Degraded, w.box.Verdict().Degraded...)
	if !w.verdict.Held() {
		return &mismatchError{errors.New("read-back at the gate: " + failedRows(w.verdict))}
	}
	return nil
}

// unread is the row of a state that the kernel didn't give: what isn't known doesn't hold.
func unread(err error) policy.Row {
	return policy.Row{Control: "readback", Want: "the kernel's word", Got: sentence(err), Evidence: policy.EvidenceKernel}
}

// record makes decision and proof durable. Nothing is released whose release isn't on the disk.
func (w *walk) record() (err error) {
	w.sequence, err = w.append(w.releaseRecord())
	return err
}

// release lets the child go on, starts the clock, and looks again once it is past execve, where setuid bits, file capabilities and inherited
// descriptors act.
func (w *walk) release() error {
	limit := time.Duration(w.decision.Effective.Limits.TimeoutSeconds * float64(time.Second))
	w.clock, w.stopClock = context.WithTimeoutCause(w.ctx, limit, errDeadline)
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	w.released = true
	if err := w.child.Release(); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	started, cancel := context.WithTimeout(w.clock, w.service.config.GateTimeout)
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
	w.mismatch = w.checkStarted()
	if w.mismatch != nil {
		w.child.Kill()
	}
	return nil
}

// observeStarted reads a child that runs. One that is ending has lost parts that can be read before it counts as ended, so an error gets a
// short while to turn out as an end.
func (w *walk) observeStarted() (state enforcer.State, err error) {
	for patience := time.Millisecond; patience < time.Second; patience *= 2 {
		state, err = enforcer.ObserveStarted(w.child.PID(), w.service.host)
		if err == nil || errors.Is(err, os.ErrProcessDone) {
			break
		}
		time.Sleep(patience)
	}
	return state, err
}

// checkStarted is the second look. A process that has ended by now has nothing left to hold.
func (w *walk) checkStarted() error {
	state, err := w.observeStarted()
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	if err != nil {
		w.verdict.Rows = append(w.verdict.Rows, unread(err))
		return &mismatchError{fmt.Errorf("read-back after execve: %w", err)}
	}
	verdict := enforcer.CheckStarted(w.plan, w.child.Expect(), state)
	if !verdict.Held() {
		w.verdict.Rows = append(w.verdict.Rows, verdict.Failed()...)
		return &mismatchError{errors.New("read-back after execve: " + failedRows(verdict))}
	}
	return nil
}

// wait waits for the end of leader and tree, within the clock: when it ends first, the runner kills the tree.
func (w *walk) wait() runner.Exit {
	exit := w.child.Wait(w.clock)
	w.ended = true
	w.proveEmpty(&exit)
	return exit
}

// proveEmpty ends the whole sandbox of a tree that isn't proven to be gone: then it is.
func (w *walk) proveEmpty(exit *runner.Exit) {
	if !exit.TreeEmpty {
		exit.TreeEmpty = w.service.sandboxes.evict(w.box)
	}
}

// append writes a record that something depends on. The caller's going away doesn't make it fail, a disk that hangs does.
func (w *walk) append(r auditRecord) (int64, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), w.service.config.RecordTimeout)
	defer cancel()
	return w.service.log.Append(ctx, r)
}

// note writes a record that nothing waits for; that it can't be written is told and breaks the log for all that comes.
func (w *walk) note(r auditRecord) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), w.service.config.RecordTimeout)
	defer cancel()
	if _, err := w.service.log.Note(ctx, r); err != nil {
		w.service.logger.Error("audit", "exec", w.id, "type", r.Type, "error", err)
	}
}
