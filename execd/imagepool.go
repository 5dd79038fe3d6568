package execd

import (
	"context"
	"slices"
	"time"
)

// Sandboxes of images are kept ready as those of the host's directories are, for the roots that were asked for last: a shelf each, which is there from the
// second time on and empties when nobody asks any more.
const (
	mostRoots    = 4
	mostAskedFor = 64
	// idleRoot is how long a root may go unasked before those that wait for it end, so that an image which nobody uses can be removed.
	idleRoot = time.Minute
)

// rootShelf has the sandboxes of one root that wait.
type rootShelf struct {
	root  rootSpec
	ready []*sandbox
	asked time.Time
	// trouble is when making one failed last: the next try waits.
	trouble time.Time
}

// rootShelves are all of them, newest asked for last, and how often other roots were. [sandboxes.mu] guards it.
type rootShelves struct {
	shelves []*rootShelf
	once    map[string]bool
}

// takeOfImage gives a fresh sandbox of an image's root: one that waits, or a new one.
func (h *sandboxes) takeOfImage(ctx context.Context, root rootSpec) (*sandbox, error) {
	h.mu.Lock()
	found, old := h.askFor(root)
	h.mu.Unlock()
	h.closeThem(old)
	h.want()
	if found != nil {
		return found, nil
	}
	return h.make(ctx, root)
}

// askFor notes that a root is asked for, and gives one of it that waits and is alive; mu is held. old are for the caller to close.
func (h *sandboxes) askFor(root rootSpec) (found *sandbox, old []*sandbox) {
	r := &h.roots
	key := root.key()
	i := slices.IndexFunc(r.shelves, func(s *rootShelf) bool { return s.root.key() == key })
	if i < 0 {
		if cap(h.ready) == 0 || !r.once[key] {
			if r.once == nil || len(r.once) >= mostAskedFor {
				r.once = map[string]bool{}
			}
			r.once[key] = true
			return nil, nil
		}
		delete(r.once, key)
		r.shelves = append(r.shelves, &rootShelf{root: root, asked: time.Now()})
		if len(r.shelves) > mostRoots {
			old = r.shelves[0].ready
			r.shelves = slices.Delete(r.shelves, 0, 1)
		}
		return nil, old
	}
	shelf := r.shelves[i]
	r.shelves = append(slices.Delete(r.shelves, i, i+1), shelf)
	shelf.asked = time.Now()
	for len(shelf.ready) > 0 {
		box := shelf.ready[0]
		shelf.ready = slices.Delete(shelf.ready, 0, 1)
		if !isGone(box) && box.drift.Load() == nil {
			return box, old
		}
		old = append(old, box)
	}
	return nil, old
}

// nextRoot is a root of which one more is to wait; false: all that are to wait do. Those that nobody asks for any more are closed.
func (h *sandboxes) nextRoot() (rootSpec, bool) {
	h.mu.Lock()
	var old []*sandbox
	h.roots.shelves = slices.DeleteFunc(h.roots.shelves, func(s *rootShelf) bool {
		idle := time.Since(s.asked) > idleRoot
		if idle {
			old = append(old, s.ready...)
		}
		return idle
	})
	var next rootSpec
	found := false
	for _, shelf := range slices.Backward(h.roots.shelves) {
		if !found && len(shelf.ready) < cap(h.ready) && time.Since(shelf.trouble) > time.Second {
			next, found = shelf.root, true
		}
	}
	h.mu.Unlock()
	h.closeThem(old)
	return next, found
}

// shelve has a sandbox of an image wait, if there is room for it.
func (h *sandboxes) shelve(box *sandbox) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := box.root.key()
	i := slices.IndexFunc(h.roots.shelves, func(s *rootShelf) bool { return s.root.key() == key })
	if h.closed || i < 0 || len(h.roots.shelves[i].ready) >= cap(h.ready) {
		return false
	}
	h.roots.shelves[i].ready = append(h.roots.shelves[i].ready, box)
	return true
}

// fillRoot makes one of a root that is to wait.
func (h *sandboxes) fillRoot(root rootSpec) {
	box, err := h.makeWarm(root)
	if err == nil {
		h.putBack(box)
		return
	}
	if h.life.Err() == nil {
		h.logger.Error("sandbox", "image", root.image.Digest, "error", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, shelf := range h.roots.shelves {
		if shelf.root.key() == root.key() {
			shelf.trouble = time.Now()
		}
	}
}

// clearShelves takes away what waits and gone says so of, nil for all, for the caller to close.
func (h *sandboxes) clearShelves(gone func(*sandbox) bool) (old []*sandbox) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, shelf := range h.roots.shelves {
		shelf.ready = slices.DeleteFunc(shelf.ready, func(box *sandbox) bool {
			if gone == nil || gone(box) {
				old = append(old, box)
				return true
			}
			return false
		})
	}
	return old
}

func (h *sandboxes) closeThem(boxes []*sandbox) {
	for _, box := range boxes {
		h.close(box)
	}
}
