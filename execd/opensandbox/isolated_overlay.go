package opensandbox

import (
	"context"
	"errors"
	"net/http"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/policy"
)

// layer makes the sandbox of a session with an overlay: its runs and its files are there. All sandboxes see one file system each, so that a session which sees another
// needs one of its own.
func (f *Facade) layer(x *exchange, s *isolated) error {
	box := x.box
	box.changing.Lock() // its network and whether it is paused are this one's from the beginning
	defer box.changing.Unlock()
	box.mu.Lock()
	spec, err := box.network.spec()
	box.mu.Unlock()
	if err != nil {
		return err
	}
	made, err := f.service.LayerSandbox(x.r.Context(), policy.Request{
		Action: policy.ActionSandbox, Caller: box.caller, Sandbox: box.inner, SecurityContext: box.context, Network: spec,
	})
	if err != nil {
		return faultf(http.StatusServiceUnavailable, execdLacks, "workspace.mode: overlay: %s", asFault(err).Message)
	}
	s.mu.Lock()
	s.inner = made.ID
	s.mu.Unlock()
	return nil
}

// layered is the sandbox of a session with an overlay.
func (s *isolated) layered() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inner
}

// unlayer ends it, and what it has taken with it.
func (f *Facade) unlayer(box *sandbox, s *isolated) {
	inner := s.layered()
	if inner == "" {
		return
	}
	err := f.service.DeleteSandbox(context.Background(), inner, box.caller)
	if err != nil && !errors.Is(err, execd.ErrNoSandbox) { // it ends with the session's own sandbox too
		f.config.Logger.Error("opensandbox: the overlay of a session can't be deleted", "sandbox", box.id, "error", err)
	}
}

// eachLayer does the same with every overlay of a sandbox as with the sandbox itself. A session where that can't be done ends: its overlay would be what its sandbox
// isn't any more. changing is held.
func (f *Facade) eachLayer(box *sandbox, do func(inner string) error) {
	box.mu.Lock()
	var sessions []*isolated
	for _, s := range box.isolated {
		if s.layered() != "" {
			sessions = append(sessions, s)
		}
	}
	box.mu.Unlock()
	for _, s := range sessions {
		if err := do(s.layered()); err != nil {
			box.events.now("an isolated session ended: its overlay can't follow its sandbox: %s", asFault(err).Message)
			f.removeIsolated(box, s)
		}
	}
}
