package execd

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/execd/image"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/runner"
)

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

	// image is what the root is made from, nil for the host's own directories and for an image that isn't here.
	image    *image.Image
	decision policy.Decision
	// inherited says that the request's network is its sandbox's.
	inherited bool
	// ahead is set for an interpreter that is started ahead of its job, waiter for a run that got one. handed says that child, box and program are
	// another walk's now.
	ahead    *waiter
	waiter   *waiter
	handed   bool
	box      *sandbox
	plan     enforcer.Plan
	program  *program
	child    *runner.Child
	verdict  policy.Verdict
	digested digested
	sequence int64
	// value is the reply's, when it is a long one.
	value *Value

	// released says that untrusted code may have run. From then on the clock runs: it ends with errDeadline, or when ctx does.
	released  bool
	clock     context.Context
	stopClock context.CancelFunc
	// late says that the leader of a run was alive when its time was over: what it hands over in its grace counts, and it is a timeout all the same.
	late atomic.Bool
	// mismatch says that the second look found something else than the first: the tree is being killed.
	mismatch error
	// drift is what was found of it while it ran; the one that finds it kills the tree, or leaves it frozen.
	drift atomic.Pointer[drift]
	// unstarted says why nobody knows whether execve has passed. If the child has ended by itself the kernel's word on that stands, else it is killed.
	unstarted error
	// left says that no child came to its gate, and that what was on the way to it isn't proven to be gone.
	left bool
	// behind says that processes of its tree live on after its end.
	behind bool
	// interrupted says that its caller has asked the tree to end.
	interrupted atomic.Bool
	// ended says that Wait or Abort has returned: the child is no longer ours to end.
	ended bool
}

// The reasons for which a clock ends.
var (
	errDeadline = errors.New("the time limit is over")
	errGate     = errors.New("no worker was free, or the child didn't reach its gate, in time")
	errExecve   = errors.New("the child didn't execute its program in time")
	errStopping = errors.New("the daemon is stopping")
	errSink     = errors.New("whoever listened to the output failed")
)

// enter begins a walk, unless the service is stopping.
func (s *Service) enter(ctx context.Context, r policy.Request, o Options) (*walk, error) {
	w := &walk{service: s, request: r, options: o, id: newID(), began: time.Now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing || s.draining && o.after == nil { // what belongs to a walk on its way may still begin
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
	w.unseat()
	if w.program != nil && !w.handed {
		w.program.close()
	}
	if w.box != nil && !w.handed && !w.behind {
		w.leaveBox()
	}
	w.stopClock()
	for _, unhook := range w.unhook {
		unhook()
	}
	w.cancel(nil)
	s.walks.Done()
}

// leaveBox ends the walk's use of its sandbox.
func (w *walk) leaveBox() {
	w.service.running.remove(w)
	if w.box.outlet != nil {
		w.box.outlet.leave(w.id)
		w.box.outlet.present.remove(w.id)
	}
	if w.options.after == nil {
		w.service.sandboxes.putBack(w.box)
	}
}

// end kills a child that is still there, and gives its Exit: nil when there was none to end. A tree that isn't proven to be gone ends with its
// sandbox, also when no more of it came to be than a child on the way to its gate.
func (w *walk) end() *runner.Exit {
	if w.ended || w.child == nil && !w.left {
		return nil
	}
	w.ended = true
	exit := &runner.Exit{}
	switch {
	case w.left:
	case !w.released:
		*exit = w.child.Abort()
	default:
		w.child.Kill()
		bounded, cancel := context.WithTimeout(context.Background(), w.service.config.KillTimeout)
		defer cancel()
		*exit = w.child.Wait(bounded)
	}
	w.proveEmpty(exit)
	return exit
}

// recover turns a panic on any arrow into infra, with nothing left running.
func (w *walk) recover(reply *Reply) {
	cause := recover()
	if cause == nil {
		return
	}
	w.value.Close() // the reply that has it is lost
	w.service.logger.Error("bug: panic in a walk; please report this", "exec", w.id, "panic", cause, "stack", string(debug.Stack()))
	*reply = w.fail(fmt.Errorf("internal error; please report this: %v", cause))
}
