package workloads

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/policy"
)

// Facade answers the workload API. [Open] makes it, [Facade.Close] ends it.
type Facade struct {
	config  Config
	service *execd.Service
	store   store
	// uploads has a place for each body that arrives.
	uploads chan struct{}
	life    context.Context
	die     context.CancelCauseFunc
	running sync.WaitGroup

	mu        sync.Mutex // guards what follows; taken before a workload's own
	closed    bool
	workloads map[string]*workload
	// waitingBytes is the size of code and inputs of what hasn't ended, logBytes that of the logs of what has.
	waitingBytes int64
	logBytes     int64
}

// Open takes up the workloads that are kept. Those that hadn't ended are lost: their code may have run, and nothing runs twice.
func Open(service *execd.Service, c Config) (*Facade, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	f := &Facade{config: c, service: service, uploads: make(chan struct{}, c.Uploads), workloads: map[string]*workload{}}
	f.life, f.die = context.WithCancelCause(context.Background())
	var err error
	if f.store, err = openStore(c.Dir); err != nil {
		return nil, err
	}
	list, err := f.store.all()
	if err != nil {
		return nil, err
	}
	for _, k := range list {
		if k.Ending == nil {
			how := endingOf(execd.Reply{Outcome: execd.OutcomeCancelled})
			k.Ended, k.Ending, k.Marks, k.Size = time.Now(), &how, nil, 0
			if err := f.store.put(k); err != nil {
				return nil, err
			}
		}
		w := &workload{id: k.ID, name: k.Name, created: k.Created, cancel: func(error) {}, done: make(chan struct{})}
		close(w.done)
		f.mu.Lock()
		f.workloads[w.id] = w
		f.mu.Unlock()
		f.settle(w, k, k.Ending)
	}
	return f, nil
}

// Close ends what runs and waits for it. What hasn't ended stays in its file as that.
func (f *Facade) Close() {
	f.mu.Lock()
	f.closed = true
	for _, w := range f.workloads {
		w.mu.Lock()
		if w.expiry != nil {
			w.expiry.Stop()
		}
		w.mu.Unlock()
	}
	f.mu.Unlock()
	f.die(errClosing)
	f.running.Wait()
}

// errKeep refuses a workload that couldn't be remembered.
var errKeep = errors.New("workloads can't be kept now, so none is taken")

// errFull says which bound is met.
type errFull string

func (e errFull) Error() string { return string(e) }

// take makes a workload of an order and begins its run.
func (f *Facade) take(o order) (*workload, error) {
	var id [12]byte
	rand.Read(id[:])
	w := &workload{id: hex.EncodeToString(id[:]), name: o.name, created: time.Now(), status: statusProvisioning, done: make(chan struct{})}
	ctx, cancel := context.WithCancelCause(f.life)
	w.cancel = cancel
	weight := weightOf(o.request.Program)
	if err := f.reserve(w, weight); err != nil {
		cancel(nil)
		return nil, err
	}
	// On the disk before anything of it runs.
	if err := f.store.put(kept{ID: w.id, Name: w.name, Created: w.created}); err != nil {
		f.mu.Lock()
		delete(f.workloads, w.id)
		f.waitingBytes -= weight
		f.mu.Unlock()
		f.running.Done()
		cancel(nil)
		f.config.Logger.Error("workloads", "what", "nothing can be kept, so nothing is taken", "error", err)
		return nil, errKeep
	}
	go func() {
		defer f.running.Done()
		defer cancel(nil)
		f.run(ctx, w, &o, weight)
	}()
	return w, nil
}

// reserve puts a workload among the others, if there is room.
func (f *Facade) reserve(w *workload, weight int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
		return errClosing
	case len(f.workloads) >= f.config.MaxWorkloads:
		return errFull("as many workloads exist as this server keeps; delete those that have ended")
	case f.waitingBytes+weight > f.config.WaitingBytes:
		return errFull("as much code and inputs wait as this server takes")
	case f.logBytes >= f.config.LogBytes:
		return errFull("the logs of ended workloads fill what this server keeps; delete those that have ended")
	}
	f.waitingBytes += weight
	f.workloads[w.id] = w
	f.running.Add(1)
	return nil
}

func weightOf(p policy.Program) int64 { return int64(len(p.Code) + len(p.Inputs)) }

func (f *Facade) weigh(by int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waitingBytes += by
}

func (f *Facade) find(id string) *workload {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.workloads[id]
}

// remove kills a workload, waits until nothing of it runs, and takes it away. From its first moment on the workload isn't there for anybody.
func (f *Facade) remove(id string) (found bool) {
	f.mu.Lock()
	w := f.workloads[id]
	if w == nil {
		f.mu.Unlock()
		return false
	}
	delete(f.workloads, id)
	w.mu.Lock()
	if w.how != nil {
		f.logBytes -= w.size
	}
	if w.expiry != nil {
		w.expiry.Stop()
	}
	w.mu.Unlock()
	f.mu.Unlock()
	w.cancel(errDeleted)
	<-w.done
	if err := f.store.remove(id); err != nil {
		f.config.Logger.Error("workloads", "what", "a deleted one can't be removed", "id", id, "error", err)
	}
	return true
}

// asFailure is the answer to an error.
func asFailure(err error) failure {
	var wrong *fault
	var full errFull
	switch {
	case errors.As(err, &wrong):
		return failure{Status: wrong.status, Code: "BAD_REQUEST", Message: wrong.Error()}
	case errors.As(err, &full):
		return failure{Status: http.StatusTooManyRequests, Code: "BUSY", Message: full.Error()}
	case errors.Is(err, errClosing), errors.Is(err, errKeep):
		return failure{Status: http.StatusServiceUnavailable, Code: "NOT_READY", Message: err.Error()}
	}
	e, status := execd.AsError(err)
	return failure{Status: status, Code: e.Code, Message: e.Message, Reasons: e.Reasons}
}
