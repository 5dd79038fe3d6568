package opensandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/policy"
)

// Facade answers OpenSandbox's clients. [Open] makes it, [Facade.Close] ends it.
type Facade struct {
	config    Config
	service   *execd.Service
	store     store
	lifecycle []route
	execd     []route
	egress    []route
	// life ends when the façade closes. running are its own goroutines.
	life    context.Context
	die     context.CancelCauseFunc
	running sync.WaitGroup
	// starts has a place for each command that is being started.
	starts chan struct{}

	mu        sync.Mutex // guards what follows; taken before a sandbox's own
	closed    bool
	sandboxes map[string]*sandbox
	repeats   map[repeatKey]*repeat
}

// errClosing ends what runs when the server stops.
var errClosing = errors.New("the server is stopping")

// Open makes a façade of a service.
func Open(service *execd.Service, c Config) (*Facade, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	f := &Facade{config: c, service: service, sandboxes: map[string]*sandbox{}, repeats: map[repeatKey]*repeat{}, starts: make(chan struct{}, 4*runtime.GOMAXPROCS(0))}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("opensandbox: %w", err)
	}
	f.life, f.die = context.WithCancelCause(context.Background())
	f.lifecycle, f.execd, f.egress = f.lifecycleRoutes(), f.execdRoutes(), f.egressRoutes()
	f.store = store{c.Dir}
	return f, f.takeUp()
}

// Close ends what runs and waits for it. The sandboxes end with the service.
func (f *Facade) Close() {
	f.mu.Lock()
	f.closed = true
	for _, box := range f.sandboxes {
		box.stop()
		box.end(errClosing)
	}
	f.mu.Unlock()
	f.die(errClosing)
	f.running.Wait()
}

// find gives a sandbox to its owner. To others it isn't there.
func (f *Facade) find(id string, caller policy.Caller) (*sandbox, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	box := f.sandboxes[id]
	if box == nil || box.caller != caller {
		return nil, noSandbox(id)
	}
	return box, nil
}

// of lists the sandboxes of an owner, oldest first.
func (f *Facade) of(caller policy.Caller) []*sandbox {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []*sandbox
	for _, box := range f.sandboxes {
		if box.caller == caller {
			list = append(list, box)
		}
	}
	slices.SortFunc(list, func(a, b *sandbox) int {
		if order := a.created.Compare(b.created); order != 0 {
			return order
		}
		return strings.Compare(a.id, b.id)
	})
	return list
}

// add makes a sandbox known.
func (f *Facade) add(box *sandbox) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return errClosing
	}
	f.sandboxes[box.id] = box
	return nil
}

// remove takes a sandbox away: from the first moment it isn't there for anybody. It is false for whoever comes second.
func (f *Facade) remove(box *sandbox) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sandboxes[box.id] != box {
		return false
	}
	delete(f.sandboxes, box.id)
	if box.repeat != nil {
		delete(f.repeats, *box.repeat)
	}
	return true
}
