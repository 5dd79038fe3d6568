package execd

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/enforcer/cgroup"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/runner"
)

// fill keeps the pool full until the house closes.
func (h *sandboxes) fill() {
	defer h.background.Done()
	for h.life.Err() == nil {
		if len(h.ready) < cap(h.ready) {
			box, err := h.makeWarm(rootSpec{})
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
		if root, found := h.nextRoot(); found {
			h.fillRoot(root)
			continue
		}
		idle := time.NewTimer(idleRoot)
		select {
		case <-h.wanted:
		case <-idle.C:
		case <-h.life.Done():
		}
		idle.Stop()
	}
}

// makeWarm makes a sandbox for the pool, with a worker that waits for its exec.
func (h *sandboxes) makeWarm(root rootSpec) (*sandbox, error) {
	if h.config.Attach.on() {
		return nil, errNotMade
	}
	box, err := h.make(h.life, root)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(h.life, h.config.SandboxTimeout)
	defer cancel()
	if err := box.Warm(ctx); err != nil {
		h.close(box)
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	return box, nil
}

// startFilling begins to fill the pool.
func (h *sandboxes) startFilling() {
	if cap(h.ready) > 0 {
		h.background.Add(1)
		go h.fill()
	}
}

// spec is what every local sandbox of that root is asked to be.
func (h *sandboxes) spec(pair int, root rootSpec) enforcer.SandboxSpec {
	worker, child := h.ids.identities(pair)
	if root.over != nil { // the files that it shows are that one's
		child = root.over.Plan().Child
	}
	return enforcer.SandboxSpec{
		Show: h.config.Show, TmpBytes: h.config.TmpBytes, WorkBytes: h.config.WorkBytes,
		Worker: worker, Child: child, Hostname: "sandbox", Layered: root.over != nil, Image: root.plan(h.config.RootBytes, root.writable && h.mapsOwners()),
	}
}

// hold keeps a root's image from being removed while there is a sandbox of it.
func (h *sandboxes) hold(root rootSpec) (release func(), err error) {
	if root.image == nil {
		return func() {}, nil
	}
	store, err := h.images.open()
	if err != nil {
		return nil, err
	}
	return store.Use(root.image.Digest)
}

// make starts a sandbox and has it read back.
func (h *sandboxes) make(ctx context.Context, root rootSpec) (box *sandbox, err error) {
	defer func() {
		h.mu.Lock()
		h.trouble = err
		h.mu.Unlock()
	}()
	ctx, cancel := context.WithTimeout(ctx, h.config.SandboxTimeout)
	defer cancel()
	release, err := h.hold(root)
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	defer func() {
		if err != nil {
			release()
		}
	}()
	pair, err := h.ids.take()
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	box = &sandbox{id: newID(), pair: pair, created: time.Now(), root: root, release: release}
	plan, err := enforcer.BuildSandbox(h.host, h.spec(pair, root))
	if err != nil {
		h.ids.give(pair)
		return nil, err
	}
	var lower *os.File
	if root.over != nil {
		if lower, err = root.over.WorkMount(); err != nil {
			h.ids.give(pair)
			return nil, fmt.Errorf("sandbox: layer: %w", err)
		}
		defer lower.Close()
	}
	var group *cgroup.Group
	if h.group != nil {
		if group, err = h.group.Sub(box.id, plan.Outside.UID, false); err != nil {
			h.ids.give(pair)
			return nil, fmt.Errorf("sandbox: %w", err)
		}
	}
	box.Sandbox, err = runner.Start(ctx, runner.Config{
		Binary: h.binary, Host: h.host, Plan: plan, Lower: lower, Cgroup: group, MaxWorkers: h.config.MaxWorkers, Logger: h.logger,
	})
	if err != nil {
		// Start answers an error when everything it made is dead and the group is gone; the pair waits its turn all the same.
		h.ids.give(pair)
		return nil, root.withoutOverlay(err)
	}
	if f := box.Network(); f != nil {
		box.outlet = h.outlets.newOutlet(box, f)
	}
	h.mu.Lock()
	h.made[box] = struct{}{}
	h.mu.Unlock()
	return box, nil
}

// alive are the sandboxes that are there and for which keep is true, nil for all, oldest first.
func (h *sandboxes) alive(keep func(*sandbox) bool) []*sandbox {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []*sandbox
	for box := range h.made {
		if !isGone(box) && (keep == nil || keep(box)) {
			list = append(list, box)
		}
	}
	slices.SortFunc(list, older)
	return list
}

// purge closes what has drifted among those that are ready.
func (h *sandboxes) purge() {
	h.closeThem(h.clearShelves(func(box *sandbox) bool { return box.drift.Load() != nil }))
	for range len(h.ready) {
		select {
		case box := <-h.ready:
			if box.drift.Load() != nil {
				h.close(box)
				h.want()
				continue
			}
			h.putBack(box)
		default:
			return
		}
	}
}

// take gives the sandbox of a request: the one it names, if it is the caller's, or a fresh one of that root; where all share one, that.
func (h *sandboxes) take(ctx context.Context, id string, caller policy.Caller, root rootSpec) (*sandbox, error) {
	if h.config.Attach.on() && id == "" {
		if id = h.sharedID(); id == "" {
			return nil, errNoLauncher
		}
	}
	if id != "" {
		return h.join(id, caller)
	}
	if root.over != nil {
		return h.make(ctx, root)
	}
	if root.image != nil {
		return h.takeOfImage(ctx, root)
	}
	for {
		select {
		case box := <-h.ready:
			h.want()
			if isGone(box) || box.drift.Load() != nil {
				h.close(box)
				continue
			}
			return box, nil
		default:
			return h.make(ctx, root)
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
	fresh := !box.used && !isGone(box) && box.drift.Load() == nil
	if fresh && box.root.image != nil && h.shelve(box) {
		return
	}
	if fresh && box.root.image == nil {
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
	h.background.Go(func() { _ = h.closeNow(context.Background(), box) }) // it tells the log itself
}

// closeStuck has a sandbox in quarantine from the first moment, until its end is proven.
func (h *sandboxes) closeStuck(box *sandbox) {
	h.quarantine(1)
	h.background.Go(func() {
		_ = h.closeNow(context.Background(), box) // it tells the log itself, and counts it once more if it isn't proven
		h.quarantine(-1)
	})
}

func (h *sandboxes) quarantine(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.quarantined += n
}

func (h *sandboxes) closeNow(ctx context.Context, box *sandbox) error {
	for _, above := range h.layersOver(box) { // they run as its user, whose id is another's afterwards
		_ = h.closeKept(ctx, above) // it tells the log itself
	}
	ctx, cancel := context.WithTimeout(ctx, h.config.KillTimeout)
	defer cancel()
	box.ending.Store(true)
	if box.outlet != nil {
		box.outlet.close()
	}
	err := box.Close(ctx)
	if err != nil {
		h.quarantine(1)
		h.logger.Error("sandbox: its end is not proven; its ids are not used again", "sandbox", box.id, "error", err)
		return fmt.Errorf("sandbox %s: %w", box.id, err)
	}
	h.mu.Lock()
	delete(h.made, box)
	h.mu.Unlock()
	if !box.shared {
		h.ids.give(box.pair)
	}
	box.release()
	return nil
}
