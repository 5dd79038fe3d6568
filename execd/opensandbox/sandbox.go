package opensandbox

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/policy"
)

// sandbox is what the façade knows of one of execd's.
type sandbox struct {
	// id is inner, that of execd's sandbox, written as a UUID.
	id, inner  string
	caller     policy.Caller
	created    time.Time
	image      string
	entrypoint []string
	// env is set in every command, limits bound each, context confines it.
	env        map[string]string
	limits     policy.Limits
	context    policy.SecurityContext
	extensions map[string]string
	// execdToken opens execd and the sandbox's ports, egressToken the policy.
	execdToken  token
	egressToken token
	// repeat is what its create was called, nil: nothing. It is guarded by the façade's own mu.
	repeat *repeatKey
	// lost: it ended with a daemon before this one, and is answered for.
	lost bool
	// life ends with the sandbox.
	life context.Context
	end  context.CancelCauseFunc

	// commands, sessions and code contexts are those of its execd.
	commands  *commands
	sessions  map[string]*session
	contexts  *codeContexts
	persisted persisted
	gauge     gauge
	events    *events
	// entered has the output of its entrypoint; nil: that isn't run.
	entered *outputLog
	// changing is held while its network is changed.
	changing sync.Mutex

	mu       sync.Mutex // guards what follows
	metadata map[string]string
	// expires is when it ends by itself; zero: never.
	expires time.Time
	expiry  *time.Timer
	// network is what was asked for last, as it was written.
	network networkPolicy
	// transport goes to its ports; nil: nobody has asked for one.
	transport *http.Transport
	isolated  map[string]*isolated
	terminals map[string]*terminal
}

// newSandbox is one of which nothing is known yet.
func (c Config) newSandbox() *sandbox {
	happened := &events{}
	box := &sandbox{
		events: happened, commands: newCommands(c.CommandsKept, happened), sessions: map[string]*session{}, contexts: newCodeContexts(c.ContextsKept), isolated: map[string]*isolated{},
		terminals: map[string]*terminal{},
	}
	box.life, box.end = context.WithCancelCause(context.Background())
	return box
}

// home is where commands begin, and what relative paths and ~ mean.
const home = "/work"

// The states that a sandbox may be in.
const (
	stateRunning = "Running"
	statePaused  = "Paused"
	stateFailed  = "Failed"
	stateEnded   = "Terminated"
)

// errDeleted ends what runs in a sandbox that is deleted, errExpired in one whose time is over.
var (
	errDeleted = errors.New("the sandbox was deleted")
	errExpired = errors.New("the sandbox has expired")
)

func noSandbox(id string) *fault {
	return faultf(http.StatusNotFound, codeNotFound, "there is no sandbox %.64q", id)
}

// asUUID writes 32 hex digits as a UUID.
func asUUID(hex string) string {
	if len(hex) != 32 {
		return hex
	}
	return hex[:8] + "-" + hex[8:12] + "-" + hex[12:16] + "-" + hex[16:20] + "-" + hex[20:]
}

// wireSandbox is a sandbox in answers.
type wireSandbox struct {
	ID         string            `json:"id"`
	Status     wireStatus        `json:"status"`
	Metadata   map[string]string `json:"metadata,omitempty"`
	Entrypoint []string          `json:"entrypoint"`
	ExpiresAt  *time.Time        `json:"expiresAt,omitzero"`
	CreatedAt  time.Time         `json:"createdAt"`
	Extensions map[string]string `json:"extensions,omitempty"`
	Platform   wirePlatform      `json:"platform"`
	Image      *wireImage        `json:"image,omitzero"`
}

type wireStatus struct {
	State            string     `json:"state"`
	Reason           string     `json:"reason,omitempty"`
	Message          string     `json:"message,omitempty"`
	LastTransitionAt *time.Time `json:"lastTransitionAt,omitzero"`
}

type wirePlatform struct {
	OS   string `json:"os"`
	Arch string `json:"arch"`
}

// wire is the sandbox as it is now. That it runs is execd's word, asked for anew.
func (f *Facade) wire(box *sandbox) wireSandbox {
	status := f.status(box)
	box.mu.Lock()
	defer box.mu.Unlock()
	w := wireSandbox{
		ID: box.id, Status: status, Metadata: maps.Clone(box.metadata), Entrypoint: box.entrypoint, CreatedAt: box.created.UTC(),
		Extensions: box.extensions, Platform: wirePlatform{"linux", runtime.GOARCH}, Image: &wireImage{URI: box.image},
	}
	if !box.expires.IsZero() {
		at := box.expires.UTC()
		w.ExpiresAt = &at
	}
	return w
}

func (f *Facade) status(box *sandbox) wireStatus {
	created := box.created.UTC()
	if box.lost {
		return wireStatus{State: stateEnded, Reason: "DAEMON_RESTARTED", Message: errLost.Error()}
	}
	found, err := f.service.FindSandbox(box.inner, box.caller)
	switch {
	case err == nil && found.Paused:
		return wireStatus{State: statePaused, LastTransitionAt: &created}
	case err == nil:
		return wireStatus{State: stateRunning, LastTransitionAt: &created}
	case errors.Is(err, execd.ErrDrifted):
		return wireStatus{State: stateFailed, Reason: "DRIFT", Message: err.Error()}
	}
	return wireStatus{State: stateFailed, Reason: "GONE", Message: "the sandbox has ended by itself; nothing of it runs"}
}

// lives says no to a request for a sandbox that has ended by itself.
func (f *Facade) lives(box *sandbox) error {
	if status := f.status(box); status.State == stateFailed || status.State == stateEnded {
		return faultf(http.StatusNotFound, codeNotFound, "%s", status.Message)
	}
	return nil
}

// expireAt has a sandbox end by itself at a time, zero: never. mu is held.
func (f *Facade) expireAt(box *sandbox, at time.Time) {
	if box.expiry != nil {
		box.expiry.Stop()
		box.expiry = nil
	}
	box.expires = at
	if !at.IsZero() {
		box.expiry = time.AfterFunc(time.Until(at), func() { f.expire(box, at) })
	}
}

// expire ends a sandbox whose time is over, unless it was given more meanwhile.
func (f *Facade) expire(box *sandbox, at time.Time) {
	box.mu.Lock()
	current := box.expires.Equal(at)
	box.mu.Unlock()
	if !current || !f.remove(box) {
		return
	}
	if err := f.delete(box, errExpired); err != nil {
		f.config.Logger.Error("opensandbox: a sandbox has expired and can't be deleted", "sandbox", box.id, "error", err)
	}
}

// delete ends all of a sandbox that was removed, and returns when nothing of it is left.
func (f *Facade) delete(box *sandbox, why error) error {
	box.stop()
	box.end(why)
	if err := f.store.remove(box.id); err != nil {
		f.config.Logger.Error("opensandbox: a sandbox's file can't be removed", "sandbox", box.id, "error", err)
	}
	if box.lost {
		return nil
	}
	err := f.service.DeleteSandbox(context.Background(), box.inner, box.caller)
	box.commands.close()
	box.mu.Lock()
	defer box.mu.Unlock()
	if box.transport != nil {
		box.transport.CloseIdleConnections()
	}
	if errors.Is(err, execd.ErrNoSandbox) {
		return nil // it had ended by itself
	}
	return err
}

// stop stops its timer.
func (box *sandbox) stop() {
	box.mu.Lock()
	defer box.mu.Unlock()
	if box.expiry != nil {
		box.expiry.Stop()
	}
}
