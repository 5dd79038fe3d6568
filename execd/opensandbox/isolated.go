package opensandbox

import (
	"crypto/rand"
	"encoding/hex"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/policy"
)

// isolated is an isolated session: each of its runs is a command, confined as every command is, and tighter where that was asked for.
type isolated struct {
	id      string
	created time.Time
	spec    wireIsolated
	// inner is execd's sandbox of a session with an overlay, a layer over that of its own sandbox; empty: there is none.
	inner string
	// state goes on from run to run, as a shell session's does.
	state *session
	// runs are those in the background.
	runs *commands

	mu      sync.Mutex // guards what follows
	lastRun time.Time
	idle    *time.Timer
}

// isolatedRoutes is the isolated API. What names files is in files_routes.go.
func (f *Facade) isolatedRoutes() []route {
	with := func(handle func(*exchange, *isolated) error) func(*exchange) error {
		return func(x *exchange) error {
			s, err := x.findIsolated()
			if err != nil {
				return err
			}
			return handle(x, s)
		}
	}
	return []route{
		{"GET", "/v1/isolated/capabilities", f.getCapabilities},
		{"POST", "/v1/isolated/session", f.postIsolated},
		{"GET", "/v1/isolated/sessions", f.listIsolated},
		{"GET", "/v1/isolated/session/{id}", with(f.getIsolated)},
		{"DELETE", "/v1/isolated/session/{id}", with(f.deleteIsolated)},
		{"POST", "/v1/isolated/session/{id}/run", with(f.runIsolated)},
		{"GET", "/v1/isolated/session/{id}/runs/{run}", with(f.getIsolatedRun)},
		{"GET", "/v1/isolated/session/{id}/runs/{run}/logs", with(f.getIsolatedLogs)},
		{"POST", "/v1/isolated/session/{id}/commit", noOverlay},
		{"GET", "/v1/isolated/session/{id}/diff", noOverlay},
	}
}

func noOverlay(*exchange) error {
	return faultf(http.StatusServiceUnavailable, execdLacks, "what a session writes is written, or ends with its overlay; copy files out")
}

// newUUID is a random UUID (RFC 9562, version 4).
func newUUID() string {
	var id [16]byte
	rand.Read(id[:])
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return asUUID(hex.EncodeToString(id[:]))
}

func (x *exchange) findIsolated() (*isolated, error) {
	x.box.mu.Lock()
	defer x.box.mu.Unlock()
	if s := x.box.isolated[x.values["id"]]; s != nil {
		return s, nil
	}
	return nil, faultf(http.StatusNotFound, execdContext, "there is no isolated session %.64q", x.values["id"])
}

// postIsolated makes a session. Nothing runs yet: what confines it is asked for, and read back, with each run.
func (f *Facade) postIsolated(x *exchange) error {
	var wire wireIsolated
	if err := x.decode(execdBody, &wire); err != nil {
		return err
	}
	space, err := wire.check()
	if err != nil {
		return err
	}
	s := &isolated{id: newUUID(), created: time.Now(), lastRun: time.Now(), spec: wire, runs: newCommands(f.config.CommandsKept, x.box.events)}
	s.state = newSession(x.box, s.id, space.Path)
	x.box.mu.Lock()
	if len(x.box.isolated) >= f.config.SessionsKept {
		x.box.mu.Unlock()
		return faultf(http.StatusBadRequest, execdRuntime, "the sandbox has %d isolated sessions, as many as it may; delete some", f.config.SessionsKept)
	}
	x.box.isolated[s.id] = s
	x.box.mu.Unlock()
	if space.Mode == modeOverlay {
		if err := f.layer(x, s); err != nil {
			f.removeIsolated(x.box, s)
			return err
		}
	}
	s.rest(f, x.box)
	x.answer(http.StatusCreated, struct {
		SessionID string    `json:"session_id"`
		CreatedAt time.Time `json:"created_at"`
		wireIsolated
	}{s.id, s.created.UTC(), wire})
	return nil
}

// rest has the session end by itself when nothing is run in it for as long as it was made for.
func (s *isolated) rest(f *Facade, box *sandbox) {
	if s.spec.IdleSeconds == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.idle != nil {
		s.idle.Stop()
	}
	s.idle = time.AfterFunc(time.Duration(s.spec.IdleSeconds)*time.Second, func() { f.removeIsolated(box, s) })
}

// left is how many seconds until then; nil where it isn't made for that.
func (s *isolated) left() *int64 {
	if s.spec.IdleSeconds == 0 {
		return nil
	}
	left := max(int64(time.Until(s.lastRun.Add(time.Duration(s.spec.IdleSeconds)*time.Second))/time.Second), 0)
	return &left
}

// removeIsolated ends a session, and what runs in it.
func (f *Facade) removeIsolated(box *sandbox, s *isolated) {
	box.mu.Lock()
	delete(box.isolated, s.id)
	box.mu.Unlock()
	s.mu.Lock()
	if s.idle != nil {
		s.idle.Stop()
	}
	s.mu.Unlock()
	s.state.end(errSessionDeleted)
	f.unlayer(box, s)
	s.runs.close()
}

func (f *Facade) deleteIsolated(x *exchange, s *isolated) error {
	f.removeIsolated(x.box, s)
	x.empty()
	return nil
}

func (f *Facade) getIsolated(x *exchange, s *isolated) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	x.answer(http.StatusOK, struct {
		Status    string    `json:"status"`
		CreatedAt time.Time `json:"created_at"`
		LastRunAt time.Time `json:"last_run_at"`
		Idle      *int64    `json:"idle_remaining_seconds,omitzero"`
		wireIsolated
	}{"active", s.created.UTC(), s.lastRun.UTC(), s.left(), s.spec})
	return nil
}

func (f *Facade) listIsolated(x *exchange) error {
	type summary struct {
		SessionID string    `json:"session_id"`
		Status    string    `json:"status"`
		CreatedAt time.Time `json:"created_at"`
		LastRunAt time.Time `json:"last_run_at"`
		Idle      *int64    `json:"idle_remaining_seconds,omitzero"`
	}
	x.box.mu.Lock()
	all := slices.Collect(maps.Values(x.box.isolated))
	x.box.mu.Unlock()
	slices.SortFunc(all, func(a, b *isolated) int { return a.created.Compare(b.created) })
	list := []summary{}
	for _, s := range all {
		s.mu.Lock()
		list = append(list, summary{s.id, "active", s.created.UTC(), s.lastRun.UTC(), s.left()})
		s.mu.Unlock()
	}
	x.answer(http.StatusOK, map[string]any{"sessions": list})
	return nil
}

// tighten makes a command of the session's sandbox one of the session.
func (s *isolated) tighten(j *job) {
	r := &j.request
	if space, err := s.spec.check(); err != nil || space.Mode == modeReadOnly {
		r.Command.ReadOnly = true
	}
	if s.spec.ShareNet != nil && !*s.spec.ShareNet {
		r.NetworkInherited, r.Network = false, policy.NetworkSpec{DefaultAction: policy.NetworkDeny}
	}
	if s.spec.UID != nil {
		r.SecurityContext.RunAsUser, r.SecurityContext.RunAsGroup = s.spec.UID, s.spec.GID
	}
	if inner := s.layered(); inner != "" {
		r.Sandbox = inner
	}
	r.Command.LeaveChildren = false // a run's tree ends with it
}
