package execd

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
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
	// root is what its root is made from, imageName the name by which a caller asked for that; release lets go of the image.
	root      rootSpec
	imageName string
	release   func()
	// kept: a caller made it, and it lives until it is deleted. Else it is for one exec.
	kept bool
	// shared: it is the container of a launcher that has connected, the one sandbox of everybody who may ask, and nobody's to delete.
	shared bool
	// used: something was started in it. A fresh one that wasn't goes back to the pool.
	used bool
	// evicted: it was closed by the exec that ran in it, whose end could not be proven otherwise.
	evicted bool

	// ending: it is being closed, and what can't be read of it says nothing. drift is what was found to hold no longer.
	ending atomic.Bool
	drift  atomic.Pointer[drift]

	// outlet is its way out, nil where the host can't hold one. changing is held while its network is changed, from the decision to the record.
	outlet   *outlet
	changing sync.Mutex
	// lent is whose exec it is for, where it isn't kept.
	lent policy.Caller

	// What follows is of a kept one. life ends when it is deleted, and so do the execs in it, which users counts.
	life  context.Context
	end   context.CancelFunc
	users sync.WaitGroup
	// paused: nothing runs in it, and nothing is started, as its owner wants; pausing is held while that changes.
	paused  atomic.Bool
	pausing sync.Mutex
}

// user is whose network it is.
func (box *sandbox) user() policy.Caller {
	if box.kept {
		return box.owner
	}
	return box.lent
}

// ErrDrifted says that a sandbox isn't what it was when it was made.
var ErrDrifted = errors.New("the sandbox has drifted: it isn't what it was made as any more, and nothing is started in it; delete it")

// errDeleted ends what runs in a sandbox that is deleted.
var errDeleted = errors.New("the sandbox is deleted")

// sandboxes makes, keeps and closes them. Those for one exec come from a pool of fresh ones that is filled in the background.
type sandboxes struct {
	config Config
	host   enforcer.Host
	binary *os.File
	ids    *ids
	images *images
	group  *cgroup.Group // the daemon's, nil without cgroup
	// mapsOwners says whether files of images can have other owners in a sandbox than on the disk; it is found out when that is asked for first.
	mapsOwners func() bool
	// outlets are for sandboxes that are made from now on.
	outlets *outlets
	logger  *slog.Logger

	// life ends when the house closes; background are refilling and closings.
	life       context.Context
	background sync.WaitGroup
	ready      chan *sandbox
	wanted     chan struct{}

	mu   sync.Mutex // guards what follows
	kept map[string]*sandbox
	// roots are those of images that are kept ready.
	roots rootShelves
	// made has every sandbox from its making until it is gone.
	made map[*sandbox]struct{}
	// making counts sandboxes that will be in kept.
	making int
	// trouble is why the last making failed.
	trouble error
	// quarantined counts sandboxes whose end the kernel didn't confirm; their ids are never used again.
	quarantined int
	closed      bool
	// common is the sandbox that is shared by all, nil while no launcher has connected.
	common *sandbox
}

func newSandboxes(
	life context.Context, c Config, h enforcer.Host, binary *os.File, claims *ids, group *cgroup.Group, known *images,
) *sandboxes {
	return &sandboxes{
		config: c, host: h, binary: binary, ids: claims, group: group, images: known, logger: c.Logger, life: life,
		mapsOwners: sync.OnceValue(func() bool { return h.UID == 0 && runner.MapsOwners(resolved(ImagesDir(c.StateDir)), binary, h.Kernel) }),
		ready:      make(chan *sandbox, c.Pool), wanted: make(chan struct{}, 1), kept: map[string]*sandbox{}, made: map[*sandbox]struct{}{},
	}
}

// count says how many are ready, kept and quarantined, and why the last making failed.
func (h *sandboxes) count() (ready, kept, quarantined int, trouble error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.ready), len(h.kept), h.quarantined, h.trouble
}

// troubled says why there is no sandbox, or that there is one.
func (h *sandboxes) troubled(why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.trouble = why
}

// share makes a sandbox the one of all.
func (h *sandboxes) share(box *sandbox) {
	if f := box.Network(); f != nil {
		box.outlet = h.outlets.newOutlet(box, f)
	}
	box.life, box.end = context.WithCancel(context.Background())
	h.mu.Lock()
	defer h.mu.Unlock()
	h.common, h.kept[box.id], h.made[box], h.trouble = box, box, struct{}{}, nil
}

// retire takes a shared sandbox that has ended away, and returns when nothing of it is left.
func (h *sandboxes) retire(box *sandbox) {
	h.mu.Lock()
	here := h.kept[box.id] == box
	delete(h.kept, box.id)
	h.mu.Unlock()
	if here {
		_ = h.closeKept(context.Background(), box) // it tells the log itself
	}
	// Else whoever evicted it closes it; it ends all the same.
	box.users.Wait()
}

// sharedID is the shared sandbox's, empty while there is none.
func (h *sandboxes) sharedID() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.common == nil || h.kept[h.common.id] != h.common {
		return ""
	}
	return h.common.id
}

// SharedSandbox is the id of the container whose launcher has connected; the error is that of a request while there is none. shared is false where the
// daemon makes its sandboxes itself.
func (s *Service) SharedSandbox() (id string, shared bool, err error) {
	if !s.config.Attach.on() {
		return "", false, nil
	}
	if id = s.sandboxes.sharedID(); id == "" {
		err = errorOf("NOT_READY", errNoLauncher.Error())
	}
	return id, true, err
}

// closeAll closes every sandbox and waits. The house's life is over by then.
func (h *sandboxes) closeAll() {
	h.mu.Lock()
	h.closed = true
	for id, box := range h.kept {
		delete(h.kept, id)
		h.background.Go(func() { _ = h.closeKept(context.Background(), box) }) // it tells the log itself
	}
	h.mu.Unlock()
	h.closeThem(h.clearShelves(nil))
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
