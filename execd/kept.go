package execd

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/policy"
)

// create makes a sandbox that lives until it is deleted.
func (h *sandboxes) create(ctx context.Context, owner policy.Caller, root rootSpec, name string) (*sandbox, error) {
	if h.config.Attach.on() {
		return nil, errNotMade
	}
	h.mu.Lock()
	if h.closed || len(h.kept)+h.making >= h.config.MaxSandboxes {
		h.mu.Unlock()
		return nil, errTooMany
	}
	h.making++
	h.mu.Unlock()
	box, err := h.take(ctx, "", owner, root)
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
	box.kept, box.owner, box.created, box.imageName = true, owner, time.Now(), name
	box.life, box.end = context.WithCancel(context.Background())
	h.kept[box.id] = box
	return box, nil
}

// errNotMade and errNotEnded refuse what isn't a daemon's to do whose sandbox is somebody else's container.
var (
	errNotMade = &enforcer.RefusedError{Field: "sandbox", Lack: "sandbox.make", Message: "this daemon's one sandbox is the container whose launcher has connected, and it can make no other",
		HowTo: "leave the sandbox out: whatever is asked runs in that one"}
	errNotEnded = &enforcer.RefusedError{Field: "sandbox", Lack: "sandbox.delete", Message: "this sandbox is a container that isn't the daemon's to end", HowTo: "end the container"}
)

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
	if box == nil || !box.isOf(caller) {
		return nil, ErrNoSandbox
	}
	if isGone(box) {
		return nil, ErrGone
	}
	if box.drift.Load() != nil {
		return nil, ErrDrifted
	}
	return box, nil
}

// delete ends what runs in a kept sandbox, then the sandbox, and returns when the kernel says that it is empty.
func (h *sandboxes) delete(ctx context.Context, id string, caller policy.Caller) error {
	h.mu.Lock()
	box := h.kept[id]
	if box == nil || !box.isOf(caller) {
		h.mu.Unlock()
		return ErrNoSandbox
	}
	if box.shared {
		h.mu.Unlock()
		return errNotEnded
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
// have: nothing is started in it any more. One that is stuck in the kernel is closed in the background: its end doesn't come by waiting.
func (h *sandboxes) evict(box *sandbox, stuck bool) (empty bool) {
	if !box.kept {
		box.evicted = true
		if stuck {
			h.closeStuck(box)
			return false
		}
		return h.closeNow(context.Background(), box) == nil
	}
	h.mu.Lock()
	here := h.kept[box.id] == box
	delete(h.kept, box.id)
	h.mu.Unlock()
	if here { // else whoever deleted it closes it
		h.background.Go(func() { _ = h.closeKept(context.Background(), box) }) // it tells the log itself
	}
	return false
}

// isOf says whether a caller is the owner: the same user, who came by the same way. Who has the token isn't who the kernel names, and who has one key
// isn't who has another.
func (box *sandbox) isOf(caller policy.Caller) bool {
	return box.shared || same(box.owner, caller)
}

// of lists the sandboxes of a caller, oldest first.
func (h *sandboxes) of(caller policy.Caller) []*sandbox {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []*sandbox
	for _, box := range h.kept {
		if box.isOf(caller) {
			list = append(list, box)
		}
	}
	slices.SortFunc(list, older)
	return list
}

// older orders sandboxes by when they were made.
func older(a, b *sandbox) int {
	if order := a.created.Compare(b.created); order != 0 {
		return order
	}
	return strings.Compare(a.id, b.id)
}
