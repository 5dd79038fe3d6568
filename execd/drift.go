package execd

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/policy"
)

// What is done when something that held no longer does ([Config].OnDrift).
const (
	// DriftKill ends the sandbox and all that runs in it.
	DriftKill = "kill"
	// DriftDeny starts nothing more in the sandbox. What drifted stays frozen, where it has a cgroup, until its time is over or its caller ends it:
	// for those who want to look at it.
	DriftDeny = "deny"
)

// drift is what was found to hold no longer.
type drift struct {
	rows []policy.Row
	// where is "exec" or "sandbox".
	where string
}

func (d *drift) Error() string {
	return "drift of the " + d.where + ": " + failedRows(policy.Verdict{Rows: d.rows})
}

// running are the walks whose programs run: released, and looked at once more after execve.
type running struct {
	mu    sync.Mutex // guards walks
	walks map[*walk]struct{}
}

func (r *running) add(w *walk) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.walks == nil {
		r.walks = map[*walk]struct{}{}
	}
	r.walks[w] = struct{}{}
}

func (r *running) remove(w *walk) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.walks, w)
}

// all are those for which keep is true, nil for all, by their ids.
func (r *running) all(keep func(*walk) bool) []*walk {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []*walk
	for w := range r.walks {
		if keep == nil || keep(w) {
			list = append(list, w)
		}
	}
	slices.SortFunc(list, func(a, b *walk) int { return strings.Compare(a.id, b.id) })
	return list
}

// watchDrift reads everything back again and again, and has plans in use proven by their probes.
func (s *Service) watchDrift() {
	if s.config.DriftInterval == 0 {
		return
	}
	ticker := time.NewTicker(s.config.DriftInterval)
	defer ticker.Stop()
	for {
		select {
		case <-s.life.Done():
			return
		case <-ticker.C:
		}
		for _, box := range s.sandboxes.alive(nil) {
			s.lookAtSandbox(box)
		}
		for _, w := range s.running.all(nil) {
			s.lookAtExec(w)
		}
		s.reprove()
	}
}

// lookAtSandbox reads a sandbox back, and deals with what holds no longer. There is no verdict of one that is ending.
func (s *Service) lookAtSandbox(box *sandbox) (policy.Verdict, bool) {
	verdict, err := box.Verify()
	if box.ending.Load() || isGone(box) {
		return policy.Verdict{}, false
	}
	if err != nil {
		// A launcher that has just died: its end is told by itself, soon.
		select {
		case <-box.Gone():
			return policy.Verdict{}, false
		case <-time.After(time.Second):
			verdict = policy.Verdict{Tier: s.host.Tier(), Rows: []policy.Row{unread(err)}}
		}
	}
	if !verdict.Held() {
		verdict = s.repairFence(box, verdict)
	}
	if !verdict.Held() {
		if box.outlet != nil {
			box.outlet.shutOff()
		}
		s.drifted(box, nil, &drift{verdict.Failed(), "sandbox"})
	}
	return verdict, true
}

// lookAtExec reads a running program back as after its execve, and deals with what holds no longer. There is no verdict of one that has ended.
func (s *Service) lookAtExec(w *walk) (policy.Verdict, bool) {
	if w.child.Left() {
		return s.lookAtLeft(w)
	}
	state, err := w.observeStarted()
	// Read by number: if it isn't reaped now, the number was its own all along.
	if errors.Is(err, os.ErrProcessDone) || !w.child.Lives() {
		return policy.Verdict{}, false
	}
	var verdict policy.Verdict
	if err != nil {
		verdict = policy.Verdict{Tier: w.plan.Tier, Rows: []policy.Row{unread(err)}}
	} else {
		verdict = enforcer.CheckStarted(w.plan, w.child.Expect(), state)
		verdict.Rows = append(verdict.Rows, w.lookAtTree()...)
	}
	if !verdict.Held() {
		s.drifted(w.box, w, &drift{verdict.Failed(), "exec"})
	}
	return verdict, true
}

// lookAtLeft reads back what a program has left behind.
func (s *Service) lookAtLeft(w *walk) (policy.Verdict, bool) {
	verdict := policy.Verdict{Tier: w.plan.Tier, Rows: w.lookAtTree()}
	if !w.child.Left() {
		return policy.Verdict{}, false
	}
	if len(verdict.Rows) == 0 {
		verdict.Rows = []policy.Row{{Control: "tree", Want: "as planned", Got: "as planned", Held: true, Evidence: policy.EvidenceKernel}}
	}
	if !verdict.Held() {
		s.drifted(w.box, w, &drift{verdict.Failed(), "exec"})
	}
	return verdict, true
}

// drifted deals with a sandbox that isn't what it was, or with one in which an exec isn't, w. First it is stopped, then recorded, then killed or
// left for those who want to look. From the first moment nothing is released in it, and the service isn't ready until it is gone.
func (s *Service) drifted(box *sandbox, w *walk, d *drift) {
	first := box.drift.CompareAndSwap(nil, d)
	those := []*walk{w}
	if w == nil || s.config.OnDrift == DriftKill {
		those = s.running.all(func(other *walk) bool { return other.box == box })
	}
	var stopped []*walk
	for _, other := range those {
		found := d
		if w != nil && other != w {
			found = &drift{[]policy.Row{{Control: "sandbox", Want: "as planned", Got: sentence(d), Evidence: policy.EvidenceKernel}}, "sandbox"}
		}
		if !other.drift.CompareAndSwap(nil, found) {
			continue
		}
		stopped = append(stopped, other)
		if frozen, err := other.child.Freeze(); err != nil || !frozen {
			s.logger.Warn("drift: not frozen", "exec", other.id, "error", err)
		}
	}
	if !first && len(stopped) == 0 {
		return
	}
	s.metrics.drifts.WithLabelValues(d.where).Inc()
	s.logger.Error("drift", "sandbox", box.id, "found", d.Error(), "then", s.config.OnDrift)
	s.recordDrift(box, w, d, s.config.OnDrift)
	if s.config.OnDrift == DriftKill {
		for _, other := range stopped {
			other.child.Kill()
		}
		if box.kept {
			s.sandboxes.evict(box, false)
		}
	}
	s.sandboxes.purge()
	s.interpreters.want()
}

// recordDrift says what was found and what is done about it. A log that can't be written keeps nothing from being killed.
func (s *Service) recordDrift(box *sandbox, w *walk, d *drift, then string) {
	r := auditRecord{Type: audit.TypeDrift, Sandbox: box.id, Message: then + ": " + sentence(d)}
	verdict := policy.Verdict{Tier: s.host.Tier(), Rows: d.rows}
	if w != nil {
		r.Exec, r.Caller, r.PlanDigest = w.id, &w.request.Caller, w.plan.Digest()
	}
	r.Verdict = recordedVerdict(verdict, verdict.Digest())
	ctx, cancel := context.WithTimeout(context.Background(), s.config.RecordTimeout)
	defer cancel()
	if _, err := s.log.Append(ctx, r); err != nil {
		s.logger.Error("audit", "type", r.Type, "error", err)
	}
}

// heedSandbox says whether the sandbox that the walk is about to use has drifted: nothing is released there.
func (w *walk) heedSandbox() error { return w.heed(w.box.drift.Load()) }

// heed makes a mismatch of drift, whatever came of the program in the meantime.
func (w *walk) heed(d *drift) error {
	if d == nil {
		return nil
	}
	w.verdict.Rows = append(w.verdict.Rows, d.rows...)
	return &mismatchError{d}
}
