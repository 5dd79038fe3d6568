package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandboxd/sandboxd/policy"
)

// Options says where the bundle is and how patient to be. One of FS, Dir and Late is set.
type Options struct {
	// FS is a bundle that doesn't change, such as the default one.
	FS fs.FS
	// Dir is a directory with a complete bundle. It is watched.
	Dir string
	// Tested says that the build of this program has run the tests and the corpus of FS, as is so of the built-in bundle: only the must-deny list is
	// run again. For commands that start often; a daemon has the time.
	Tested bool
	// Late has neither FS nor Dir: everything is denied until [Engine.Bind].
	Late bool
	// Deadline is how long one decision may take before it is a no; 0 is 1 s. It has room for a busy machine: a decision takes well under 1 ms.
	Deadline time.Duration
	// Logger gets reloads and faults; nil: none.
	Logger *slog.Logger
	// OnReload is told after every attempt to reload, from the engine's own goroutine.
	OnReload func(Status)
	// Settle is how long Dir must be quiet before it is read; 0 is 150 ms.
	Settle time.Duration
	// Poll is how often Dir is read without any event; 0 is 10 s.
	Poll time.Duration
}

const (
	defaultDeadline = time.Second
	defaultSettle   = 150 * time.Millisecond
	defaultPoll     = 10 * time.Second
	// longestLoad bounds compiling and proving one bundle.
	longestLoad = 60 * time.Second
)

// Status is which policy is in force.
type Status struct {
	Revision string    `json:"revision"`
	LoadedAt time.Time `json:"loadedAt"`
	// Stale: the directory has something else that could not be activated, for the reason in Error.
	Stale bool   `json:"stale"`
	Error string `json:"error,omitempty"`
	// Warnings say why a change of the directory may not be seen.
	Warnings []string `json:"warnings,omitempty"`
	// Unbound: there is none yet, and everything is denied until one is bound. Revision is empty then.
	Unbound bool `json:"unbound,omitzero"`
}

// Engine judges with the active generation.
type Engine struct {
	options  Options
	watchdog *watchdog
	logger   *slog.Logger
	// active is the only thing that decisions share with reloads; nil: none is bound yet.
	active atomic.Pointer[generation]
	// mu guards fault, why the directory's content isn't active; empty when it is.
	mu    sync.Mutex
	fault string

	stop    context.CancelFunc
	stopped chan struct{}
}

// Open loads, tests and activates a bundle. A bad one is an error: without a policy there is nothing to fall back to.
func Open(ctx context.Context, o Options) (*Engine, error) {
	sources := 0
	for _, given := range []bool{o.FS != nil, o.Dir != "", o.Late} {
		if given {
			sources++
		}
	}
	if sources != 1 {
		return nil, errors.New("policy: want one of a file system, a directory, and a late binding")
	}
	if o.Tested && o.FS == nil {
		return nil, errors.New("policy: a directory is always tested, and so is what is bound late")
	}
	e := &Engine{options: withDefaults(o), logger: o.Logger}
	if e.logger == nil {
		e.logger = slog.New(slog.DiscardHandler)
	}
	e.watchdog = newWatchdog(e.options.Deadline, 4*runtime.GOMAXPROCS(0))
	if o.Dir != "" {
		if err := e.openDirectory(ctx); err != nil {
			return nil, err
		}
		return e, nil
	}
	if o.Late {
		return e, nil
	}
	src, err := readBundle(o.FS)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	next, err := e.load(ctx, src)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	e.active.Store(next)
	return e, nil
}

func withDefaults(o Options) Options {
	for _, wait := range []struct {
		value     *time.Duration
		otherwise time.Duration
	}{{&o.Deadline, defaultDeadline}, {&o.Settle, defaultSettle}, {&o.Poll, defaultPoll}} {
		if *wait.value <= 0 {
			*wait.value = wait.otherwise
		}
	}
	return o
}

// load compiles and proves a bundle aside. It returns at its bound even when the policy hangs.
func (e *Engine) load(ctx context.Context, src source) (*generation, error) {
	ctx, cancel := context.WithTimeout(ctx, longestLoad)
	defer cancel()
	type loaded struct {
		generation *generation
		err        error
	}
	done := make(chan loaded, 1)
	go func() {
		var result loaded
		defer func() {
			if cause := recover(); cause != nil {
				result = loaded{err: fmt.Errorf("OPA panicked; please report this: %v", cause)}
			}
			done <- result
		}()
		next, bundle, err := compile(ctx, src, e.watchdog)
		if err == nil && !e.options.Tested {
			err = next.prove(ctx, bundle)
		}
		if err == nil {
			err = next.proveMustDeny(ctx, bundle.data)
		}
		result = loaded{next, err}
	}()
	select {
	case result := <-done:
		return result.generation, result.err
	case <-ctx.Done():
		return nil, stopped(ctx)
	}
}

// Inspect says what is wrong with a directory that holds a bundle, before any of it is loaded: an error if somebody else may write it, warnings if changes of it
// won't be seen.
func Inspect(dir string) (warnings []string, err error) {
	root, err := generationRoot(dir)
	if err != nil {
		return nil, err
	}
	return pinned(dir), (trust{os.Geteuid()}).bundle(dir, root)
}

// Decide judges a request. It is never an error: every failure is a no with its reason.
func (e *Engine) Decide(ctx context.Context, r policy.Request) policy.Decision {
	active := e.active.Load()
	if active == nil {
		return unbound()
	}
	decision, err := active.decide(ctx, r)
	if err != nil {
		// OPA's message may repeat arguments of the command; the reason has code and place.
		e.logger.LogAttrs(ctx, slog.LevelWarn, "policy failed",
			slog.String("decision", decision.ID), slog.String("rule", decision.Reasons[0].Rule), slog.String("reason", decision.Reasons[0].Message),
			slog.String("revision", active.revision))
	}
	return decision
}

// Status says which policy is in force and whether the directory has another.
func (e *Engine) Status() Status {
	active := e.active.Load()
	if active == nil {
		return Status{Unbound: true}
	}
	var warnings []string
	if e.options.Dir != "" {
		warnings = pinned(e.options.Dir)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return Status{Revision: active.revision, LoadedAt: active.loadedAt, Stale: e.fault != "", Error: e.fault, Warnings: warnings}
}

// Close ends the watch of the directory. Decisions go on with the policy in force.
func (e *Engine) Close() error {
	if e.stop != nil {
		e.stop()
		<-e.stopped
	}
	return nil
}
