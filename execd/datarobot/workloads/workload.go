package workloads

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/execd"
)

// workload is one run, from when it is taken to when it is deleted or has expired.
type workload struct {
	id      string
	name    string
	created time.Time

	// cancel ends its walk; done is closed when nothing of it runs any more.
	cancel context.CancelCauseFunc
	done   chan struct{}

	mu sync.Mutex // guards what follows
	// status is its word; how it ended says more, once that is set.
	status string
	ended  time.Time
	how    *ending
	marks  []mark
	size   int64
	expiry *time.Timer
}

// Why a workload's walk is ended.
var (
	errDeleted = errors.New("the workload was deleted")
	errClosing = errors.New("the server is stopping")
)

// snapshot is what a workload is now.
type snapshot struct {
	status string
	ended  time.Time
	how    *ending
	marks  []mark
	size   int64
}

func (w *workload) now() snapshot {
	w.mu.Lock()
	defer w.mu.Unlock()
	return snapshot{w.status, w.ended, w.how, w.marks, w.size}
}

func (w *workload) is(status string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status = status
}

// run walks a workload once and keeps what came of it.
func (f *Facade) run(ctx context.Context, w *workload, o *order, weight int64) {
	defer close(w.done)
	reply, err := f.walk(ctx, w, o)
	defer func() { reply.Close() }()
	seconds := o.seconds
	o.close()
	*o = order{} // code and inputs aren't needed any more
	f.weigh(-weight)
	k := kept{ID: w.id, Name: w.name, Created: w.created, Ended: time.Now()}
	switch {
	case errors.Is(context.Cause(ctx), errDeleted):
		return // nobody asks any more
	case err != nil:
		reply = execd.Reply{Outcome: execd.OutcomeInfra, Message: err.Error()} // there was none
		if ctx.Err() != nil {
			reply.Outcome = execd.OutcomeCancelled
		}
	}
	how := endingOf(reply)
	if reply.Outcome != execd.OutcomeCancelled { // else the file says already that it hasn't ended
		if how.Failure == nil {
			if k.Marks, k.Size, err = f.store.putLog(w.id, entriesOf(reply, seconds, k.Ended)); err != nil {
				how = f.lost("its log can't be kept", err)
			}
		}
		k.Ending = &how
		if err := f.store.put(k); err != nil && how.Failure == nil {
			how = f.lost("its ending can't be kept", err)
		}
	}
	f.settle(w, k, &how)
}

// lost is the ending of a workload whose result can't be kept.
func (f *Facade) lost(what string, err error) ending {
	f.config.Logger.Error("workloads", "what", what, "error", err)
	return endingOf(execd.Reply{Outcome: execd.OutcomeInfra, Message: what})
}

// walk waits for a place and walks.
func (f *Facade) walk(ctx context.Context, w *workload, o *order) (execd.Reply, error) {
	leave, err := f.service.Admit(ctx)
	if err != nil {
		return execd.Reply{}, err
	}
	defer leave()
	w.is(statusRunning)
	return f.service.Exec(ctx, o.request, execd.Options{Inputs: o.inputs, LongValue: true}), nil
}

// settle makes an ending known, now that everything of it can be read, and lets the workload expire.
func (f *Facade) settle(w *workload, k kept, how *ending) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status, w.how, w.ended, w.marks, w.size = how.Status, how, k.Ended, k.Marks, k.Size
	if f.workloads[w.id] != w { // deleted meanwhile
		return
	}
	f.logBytes += w.size
	w.expiry = time.AfterFunc(max(0, f.config.Retention-time.Since(w.ended)), func() { f.expire(w) })
}

// expire deletes a workload that nobody has deleted.
func (f *Facade) expire(w *workload) {
	f.mu.Lock()
	closed := f.closed
	f.mu.Unlock()
	if closed {
		return // the next daemon does it
	}
	f.remove(w.id)
}
