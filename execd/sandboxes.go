package execd

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/enforcer/cgroup"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/runner"
)

// ErrNoSandbox says that there is no sandbox of that id, or none of this caller's.
var ErrNoSandbox = errors.New("no such sandbox")

// ErrGone says that a sandbox that was there has ended by itself.
var ErrGone = errors.New("the sandbox has ended")

// errTooMany says that no more sandboxes may be kept.
var errTooMany = errors.New("as many sandboxes as this daemon allows")

// sandbox is a running sandbox with its place in the house.
type sandbox struct {
	*runner.Sandbox
	id      string
	pair    int
	owner   policy.Caller
	created time.Time
	// kept: a caller made it, and it lives until it is deleted. Else it is for one exec.
	kept bool
	// used: something was started in it. A fresh one that wasn't goes back to the pool.
	used bool
	// evicted: it was closed by the exec that ran in it, whose end could not be proven otherwise.
	evicted bool

	// What follows is of a kept one. life ends when it is deleted, and so do the execs in it, which users counts.
	life  context.Context
	end   context.CancelFunc
	users sync.WaitGroup
}

// errDeleted ends what runs in a sandbox that is deleted.
var errDeleted = errors.New("the sandbox is deleted")

// sandboxes makes, keeps and closes them. Those for one exec come from a pool of fresh ones that is filled in the background.
type sandboxes struct {
	config Config
	host   enforcer.Host
	binary *os.File
	ids    *ids
	group  *cgroup.Group // the daemon's, nil without cgroup
	logger *slog.Logger

	// life ends when the house closes; background are refilling and closings.
	life       context.Context
	background sync.WaitGroup
	ready      chan *sandbox
	wanted     chan struct{}

	mu   sync.Mutex // guards what follows
	kept map[string]*sandbox
	// making counts sandboxes that will be in kept.
	making int
	// trouble is why the last making failed.
	trouble error
	// quarantined counts sandboxes whose end the kernel didn't confirm; their ids are never used again.
	quarantined int
	closed      bool
}

func newSandboxes(
	life context.Context, c Config, h enforcer.Host, binary *os.File, claims *ids, group *cgroup.Group,
) *sandboxes {
	return &sandboxes{
		config: c, host: h, binary: binary, ids: claims, group: group, logger: c.Logger, life: life,
		ready: make(chan *sandbox, c.Pool), wanted: make(chan struct{}, 1), kept: map[string]*sandbox{},
	}
}

// fill keeps the pool full until the house closes.
func (h *sandboxes) fill() {
	defer h.background.Done()
	for h.life.Err() == nil {
		if len(h.ready) < cap(h.ready) {
			box, err := h.make(h.life)
			if err == nil {
				h.putBack(box)
				continue
			}
			h.logger.Error("sandbox", "error", err)
			select {
			case <-time.After(time.Second):
			case <-h.life.Done():
			}
			continue
		}
		select {
		case <-h.wanted:
		case <-h.life.Done():
		}
	}
}

// startFilling begins to fill the pool.
func (h *sandboxes) startFilling() {
	if cap(h.ready) > 0 {
		h.background.Add(1)
		go h.fill()
	}
}

// spec is what every local sandbox is asked to be.
func (h *sandboxes) spec(pair int) enforcer.SandboxSpec {
	worker, child := h.ids.identities(pair)
	return enforcer.SandboxSpec{
		Show: h.config.Show, TmpBytes: h.config.TmpBytes, WorkBytes: h.config.WorkBytes,
		Worker: worker, Child: child, Hostname: "sandbox",
	}
}

// make starts a sandbox and has it read back.
func (h *sandboxes) make(ctx context.Context) (box *sandbox, err error) {
	defer func() {
		h.mu.Lock()
		h.trouble = err
		h.mu.Unlock()
	}()
	ctx, cancel := context.WithTimeout(ctx, h.config.SandboxTimeout)
	defer cancel()
	pair, err := h.ids.take()
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	box = &sandbox{id: newID(), pair: pair, created: time.Now()}
	plan, err := enforcer.BuildSandbox(h.host, h.spec(pair))
	if err != nil {
		h.ids.give(pair)
		return nil, err
	}
	var group *cgroup.Group
	if h.group != nil {
		if group, err = h.group.Sub(box.id, plan.Outside.UID, false); err != nil {
			h.ids.give(pair)
			return nil, fmt.Errorf("sandbox: %w", err)
		}
	}
	box.Sandbox, err = runner.Start(ctx, runner.Config{
		Binary: h.binary, Host: h.host, Plan: plan, Cgroup: group, MaxWorkers: h.config.MaxWorkers, Logger: h.logger,
	})
	if err != nil {
		if group != nil {
			h.destroy(group)
		}
		// Start answers an error when everything it made is dead; the pair waits its turn all the same.
		h.ids.give(pair)
		return nil, err
	}
	return box, nil
}

// destroy removes a group in which nothing came to be.
func (h *sandboxes) destroy(group *cgroup.Group) {
	ctx, cancel := context.WithTimeout(context.Background(), h.config.KillTimeout)
	defer cancel()
	if err := group.Destroy(ctx); err != nil && !errors.Is(err, os.ErrNotExist) {
		h.logger.Warn("sandbox: cgroup", "error", err)
	}
}

// take gives the sandbox of a request: the one it names, if it is the caller's, or a fresh one.
func (h *sandboxes) take(ctx context.Context, id string, caller policy.Caller) (*sandbox, error) {
	if id != "" {
		return h.join(id, caller)
	}
	for {
		select {
		case box := <-h.ready:
			h.want()
			if isGone(box) {
				h.close(box)
				continue
			}
			return box, nil
		default:
			return h.make(ctx)
		}
	}
}

// want wakes the filler.
func (h *sandboxes) want() {
	select {
	case h.wanted <- struct{}{}:
	default:
	}
}

func isGone(box *sandbox) bool {
	select {
	case <-box.Gone():
		return true
	default:
		return false
	}
}

// putBack ends a request's use of a sandbox: a kept one stays, a fresh one that nothing ran in waits for the next, any other is closed.
func (h *sandboxes) putBack(box *sandbox) {
	if box.kept {
		box.users.Done()
		return
	}
	if box.evicted {
		return
	}
	if !box.used && !isGone(box) {
		h.mu.Lock()
		if !h.closed {
			select {
			case h.ready <- box:
				h.mu.Unlock()
				return
			default:
			}
		}
		h.mu.Unlock()
	}
	h.close(box)
}

// close ends a sandbox in the background. The answer doesn't wait for it: the exec's own tree is proven empty by then.
func (h *sandboxes) close(box *sandbox) {
	h.background.Go(func() { h.closeNow(context.Background(), box) })
}

func (h *sandboxes) closeNow(ctx context.Context, box *sandbox) error {
	ctx, cancel := context.WithTimeout(ctx, h.config.KillTimeout)
	defer cancel()
	err := box.Close(ctx)
	if err != nil {
		h.mu.Lock()
		h.quarantined++
		h.mu.Unlock()
		h.logger.Error("sandbox: its end is not proven; its ids are not used again", "sandbox", box.id, "error", err)
		return fmt.Errorf("sandbox %s: %w", box.id, err)
	}
	h.ids.give(box.pair)
	return nil
}

// create makes a sandbox that lives until it is deleted.
func (h *sandboxes) create(ctx context.Context, owner policy.Caller) (*sandbox, error) {
	h.mu.Lock()
	if h.closed || len(h.kept)+h.making >= h.config.MaxSandboxes {
		h.mu.Unlock()
		return nil, errTooMany
	}
	h.making++
	h.mu.Unlock()
	box, err := h.take(ctx, "", owner)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.making--
	if err != nil {
		return nil, err
	}
	if h.closed {
		h.close(box)
		return nil, errStopping
	}
	box.kept, box.owner, box.created = true, owner, time.Now()
	box.life, box.end = context.WithCancel(context.Background())
	h.kept[box.id] = box
	return box, nil
}

// find gives a kept sandbox to its owner. To others it isn't there: an id says nothing to who guessed it.
func (h *sandboxes) find(id string, caller policy.Caller) (*sandbox, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.owned(id, caller)
}

// join is find for an exec, which uses the sandbox until it is put back.
func (h *sandboxes) join(id string, caller policy.Caller) (*sandbox, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	box, err := h.owned(id, caller)
	if err == nil {
		box.users.Add(1)
	}
	return box, err
}

// owned finds with mu held.
func (h *sandboxes) owned(id string, caller policy.Caller) (*sandbox, error) {
	box := h.kept[id]
	if box == nil || box.owner.UID != caller.UID {
		return nil, ErrNoSandbox
	}
	if isGone(box) {
		return nil, ErrGone
	}
	return box, nil
}

// delete ends what runs in a kept sandbox, then the sandbox, and returns when the kernel says that it is empty.
func (h *sandboxes) delete(ctx context.Context, id string, caller policy.Caller) error {
	h.mu.Lock()
	box := h.kept[id]
	if box == nil || box.owner.UID != caller.UID {
		h.mu.Unlock()
		return ErrNoSandbox
	}
	delete(h.kept, id)
	h.mu.Unlock()
	return h.closeKept(ctx, box)
}

// closeKept lets the execs end by their own kill first, which tells how each ended. Each of their waits has a bound.
func (h *sandboxes) closeKept(ctx context.Context, box *sandbox) error {
	box.end()
	box.users.Wait()
	return h.closeNow(ctx, box)
}

// evict closes the sandbox of an exec whose tree isn't proven to be gone, and says whether it is then. A kept one ends when its other execs
// have: nothing is started in it any more.
func (h *sandboxes) evict(box *sandbox) (empty bool) {
	if !box.kept {
		box.evicted = true
		return h.closeNow(context.Background(), box) == nil
	}
	h.mu.Lock()
	here := h.kept[box.id] == box
	delete(h.kept, box.id)
	h.mu.Unlock()
	if here { // else whoever deleted it closes it
		h.background.Go(func() { h.closeKept(context.Background(), box) })
	}
	return false
}

// of lists the sandboxes of a caller, oldest first.
func (h *sandboxes) of(caller policy.Caller) []*sandbox {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []*sandbox
	for _, box := range h.kept {
		if box.owner.UID == caller.UID {
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

// count says how many are ready, kept and quarantined, and why the last making failed.
func (h *sandboxes) count() (ready, kept, quarantined int, trouble error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.ready), len(h.kept), h.quarantined, h.trouble
}

// closeAll closes every sandbox and waits. The house's life is over by then.
func (h *sandboxes) closeAll() {
	h.mu.Lock()
	h.closed = true
	for id, box := range h.kept {
		delete(h.kept, id)
		h.background.Go(func() { h.closeKept(context.Background(), box) })
	}
	h.mu.Unlock()
	for {
		select {
		case box := <-h.ready:
			h.close(box)
			continue
		default:
		}
		break
	}
	h.background.Wait()
}

// newID is 16 random bytes in hex: nobody guesses another's.
func newID() string {
	var id [16]byte
	rand.Read(id[:])
	return hex.EncodeToString(id[:])
}
