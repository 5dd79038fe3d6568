package execd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/policy"
)

// interpreters are started ahead and wait for a job: Python of our driver and of configured imports, which has run nobody's code. Each is in a fresh
// sandbox of its own, confined under the plan of the runs that it is for, through the same gate as any exec, and gets one job. When there is any doubt
// about one it is killed, and the run starts cold.
//
// They are kept by plan: a shelf for the plan of a run that asks for nothing, and some for those that runs have asked for last.
type interpreters struct {
	service *Service
	sets    []Prewarm
	wanted  chan struct{}

	mu      sync.Mutex // guards what follows
	shelves []*shelf   // that of the default first, once it is known; then by when they were asked for last, newest last
	// asked counts runs by plans that have no shelf.
	asked map[string]int
	// bytes is what those that wait take of memory; each set's last one took so much.
	bytes int64
	took  []int64
	// generation counts drains: what was begun before one is of no use after.
	generation int
	trouble    error
}

// shelf has the interpreters of one plan.
type shelf struct {
	// plan is what their plans have in common, by [Service.commonPlan].
	plan string
	// request is what they are started as.
	request policy.Request
	sets    []shelfSet
}

// shelfSet are those of one set of imports. After a failure the next try isn't before retry.
type shelfSet struct {
	ready   []*waiter // oldest first
	retry   time.Time
	patient time.Duration
}

// The bounds of shelves. A plan gets one when it is asked for the second time: who never asks for the same again has no use for it.
const (
	mostShelves   = 4
	mostAsked     = 64
	shortPatience = time.Second
	longPatience  = 5 * time.Minute
)

// errOfNoUse ends those that wait when nobody can use them any more.
var errOfNoUse = errors.New("ended unused")

func newInterpreters(s *Service) *interpreters {
	sets := s.config.Prewarm
	return &interpreters{service: s, sets: sets, wanted: make(chan struct{}, 1), asked: map[string]int{}, took: make([]int64, len(sets))}
}

// want wakes the filler.
func (h *interpreters) want() {
	select {
	case h.wanted <- struct{}{}:
	default:
	}
}

// ask notes that a run of a plan would have one, or has had one.
func (h *interpreters) ask(plan string, r policy.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.want()
	if i := slices.IndexFunc(h.shelves, func(s *shelf) bool { return s.plan == plan }); i >= 0 {
		if i > 0 {
			found := h.shelves[i]
			h.shelves = append(slices.Delete(h.shelves, i, i+1), found)
		}
		return
	}
	if len(h.asked) >= mostAsked {
		clear(h.asked)
	}
	if h.asked[plan]++; h.asked[plan] < 2 || len(h.shelves) == 0 {
		return
	}
	delete(h.asked, plan)
	h.shelves = append(h.shelves, h.newShelf(plan, r))
	if len(h.shelves) > mostShelves {
		h.empty(h.shelves[1], "others are asked for more")
		h.shelves = slices.Delete(h.shelves, 1, 2)
	}
}

func (h *interpreters) newShelf(plan string, r policy.Request) *shelf {
	return &shelf{plan: plan, request: r, sets: make([]shelfSet, len(h.sets))}
}

// take gives one for a plan, nil if none waits, of the set that fits a program best: most of its modules are in the program's text, and fewest
// others. It is the caller's to use or to end.
func (h *interpreters) take(plan, code string) *waiter {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.IndexFunc(h.shelves, func(s *shelf) bool { return s.plan == plan })
	if i < 0 {
		return nil
	}
	best, fit := -1, 0
	for n, set := range h.sets {
		if len(h.shelves[i].sets[n].ready) == 0 {
			continue
		}
		if now := fitness(set.Imports, code); best < 0 || now > fit {
			best, fit = n, now
		}
	}
	if best < 0 {
		return nil
	}
	from := &h.shelves[i].sets[best]
	found := from.ready[0]
	from.ready = slices.Delete(from.ready, 0, 1)
	h.bytes -= found.bytes
	h.want()
	return found
}

// mostLooked is how much of a program is looked at for the names of modules.
const mostLooked = 64 << 10

// fitness is larger the better a set fits a program. It decides nothing but which one is taken: a module that isn't imported yet is then.
func fitness(imports []string, code string) int {
	code = code[:min(len(code), mostLooked)]
	fit := 0
	for _, name := range imports {
		if strings.Contains(code, name) {
			fit += mostImports + 1
		} else {
			fit--
		}
	}
	return fit
}

// drain ends all that wait; what they are for is found anew.
func (h *interpreters) drain(why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.generation++
	for _, s := range h.shelves {
		h.empty(s, why)
	}
	h.shelves = nil
	clear(h.asked)
	h.want()
}

// empty ends those of a shelf; mu is held. Their ends take a while, and nobody waits for that.
func (h *interpreters) empty(s *shelf, why string) {
	for n := range s.sets {
		for _, w := range s.sets[n].ready {
			h.bytes -= w.bytes
			h.end(w, fmt.Errorf("%w: %s", errOfNoUse, why))
		}
		s.sets[n].ready = nil
	}
}

// end ends one that nobody has, or that its taker has no use for.
func (h *interpreters) end(w *waiter, why error) { go w.walk.discard(why) }

// count says how many wait, what they take of memory, and why the last start failed.
func (h *interpreters) count() (waiting int, bytes int64, trouble error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.shelves {
		for _, set := range s.sets {
			waiting += len(set.ready)
		}
	}
	return waiting, h.bytes, h.trouble
}

// full says whether all that are to wait do.
func (h *interpreters) full() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.shelves) == 0 {
		return len(h.sets) == 0
	}
	for _, s := range h.shelves {
		for n, set := range s.sets {
			if len(set.ready) < h.sets[n].Size {
				return false
			}
		}
	}
	return true
}

// fill keeps the shelves full until the service stops, one start at a time.
func (h *interpreters) fill() {
	life := h.service.life
	for life.Err() == nil {
		h.pin()
		h.prune()
		order, next := h.next()
		if order == nil {
			timer := time.NewTimer(next)
			select {
			case <-h.wanted:
			case <-timer.C:
			case <-life.Done():
			}
			timer.Stop()
			continue
		}
		if h.service.idle(life) == nil {
			h.put(*order, h.begin(*order))
		}
	}
	h.drain(errStopping.Error())
}

// order is one interpreter to start.
type order struct {
	shelf      *shelf
	set        int
	generation int
}

// pin makes the shelf of the plan that a run has which asks for nothing.
func (h *interpreters) pin() {
	h.mu.Lock()
	pinned, generation := len(h.shelves) > 0, h.generation
	h.mu.Unlock()
	if pinned {
		return
	}
	s := h.service
	r := policy.Request{Action: policy.ActionRun, Caller: Self()}
	ctx, cancel := context.WithTimeout(s.life, s.config.GateTimeout)
	defer cancel()
	plan, err := s.commonPlan(s.engine.Decide(ctx, aheadRequest(r, nil)))
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.generation != generation {
		h.want()
		return
	}
	if err != nil {
		h.trouble = fmt.Errorf("a run that asks for nothing: %w", err)
		return
	}
	h.shelves = append(h.shelves, h.newShelf(plan, r))
}

// prune ends those that have ended by themselves, or whose sandbox has, or of which something holds no longer.
func (h *interpreters) prune() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.shelves {
		for n := range s.sets {
			s.sets[n].ready = slices.DeleteFunc(s.sets[n].ready, func(w *waiter) bool {
				why := w.spoilt()
				if why != nil {
					h.bytes -= w.bytes
					h.end(w, why)
				}
				return why != nil
			})
		}
	}
}

// next is what to start, or how long there is nothing.
func (h *interpreters) next() (*order, time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now, wait := time.Now(), longPatience
	if len(h.shelves) == 0 {
		wait = shortPatience
	}
	for _, s := range h.shelves {
		for n, set := range s.sets {
			if len(set.ready) >= h.sets[n].Size {
				continue
			}
			if h.bytes+h.took[n] > h.service.config.PrewarmMemory {
				h.trouble = fmt.Errorf("those that wait take %d bytes, and one more of %s took %d: together more than the %d that prewarming may have",
					h.bytes, h.sets[n], h.took[n], h.service.config.PrewarmMemory)
				continue
			}
			if until := set.retry.Sub(now); until > 0 {
				wait = min(wait, until)
				continue
			}
			return &order{s, n, h.generation}, 0
		}
	}
	return nil, wait
}

// begin starts one, and gives nil when that failed.
func (h *interpreters) begin(o order) *waiter {
	w, err := h.service.startAhead(o.shelf, h.sets[o.set])
	h.mu.Lock()
	defer h.mu.Unlock()
	set := &o.shelf.sets[o.set]
	if err == nil {
		set.patient, set.retry, h.trouble = 0, time.Time{}, nil
		return w
	}
	set.patient = min(max(2*set.patient, shortPatience), longPatience)
	set.retry = time.Now().Add(set.patient)
	if h.service.life.Err() == nil && o.generation == h.generation {
		h.trouble = fmt.Errorf("%s: %w", h.sets[o.set], err)
		h.service.logger.Warn("interpreter: not started ahead", "imports", h.sets[o.set].Imports, "error", err, "again", set.patient)
	}
	return nil
}

// put has one wait for its job.
func (h *interpreters) put(o order, w *waiter) {
	if w == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.took[o.set] = w.bytes
	if h.generation != o.generation || !slices.Contains(h.shelves, o.shelf) {
		h.end(w, fmt.Errorf("%w: nobody asks for it any more", errOfNoUse))
		return
	}
	h.bytes += w.bytes
	o.shelf.sets[o.set].ready = append(o.shelf.sets[o.set].ready, w)
}
