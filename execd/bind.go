package execd

import (
	"context"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/policy/engine"
	"github.com/sandboxd/sandboxd/rego"
)

// Binding is the one policy that a daemon was given which had none at its start.
type Binding struct {
	Revision string    `json:"revision"`
	BoundAt  time.Time `json:"boundAt"`
	// Caller is who bound it, by the kernel's word.
	Caller policy.Caller `json:"caller"`
	// AuditSequence is the record that says so.
	AuditSequence int64 `json:"auditSequence"`
}

// BindRequest is the body of PUT /v1/policy.
type BindRequest struct {
	// Files are the bundle's, by their paths in it.
	Files map[string]string `json:"files"`
	// Revision is what the digest of the bundle must be; empty: whatever it is.
	Revision string `json:"revision,omitzero"`
}

// Late says whether policy comes after the start, once.
type Late struct {
	On bool
	// Binders are the uids, by the kernel's word on the socket's peer, that may bind it; none: the daemon's own.
	Binders []int
}

// sealed is the binding as it is on the disk: a directory that is renamed into its place whole, and never replaced.
func (s *Service) sealed() seal { return sealIn(s.config.StateDir) }

// openLate opens the engine of a daemon whose policy comes, or came, late. A seal that is there is what is in force, if it is still what was bound.
func (s *Service) openLate(ctx context.Context) (err error) {
	options := engine.Options{Late: true, Deadline: s.config.DecisionTimeout, Logger: s.logger}
	if s.engine, err = engine.Open(ctx, options); err != nil {
		return err
	}
	if err := s.sealed().sweep(); err != nil {
		return err
	}
	binding, bundle, err := s.sealed().read()
	if err == nil {
		var proven engine.Proven
		if proven, err = s.engine.Prove(ctx, bundle); err == nil {
			s.binding.Store(&binding)
			return s.engine.Bind(proven)
		}
		return fmt.Errorf("the policy that was bound to this daemon: %w", err)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// What is tried at the start is tried under the built-in policy: it says what confines, and lets nobody in.
	s.interim, err = engine.Open(ctx, engine.Options{FS: rego.Bundle, Tested: true, Deadline: s.config.DecisionTimeout, Logger: s.logger})
	return err
}

// prover says under which policy forbidden acts are tried that nobody asked for: the one in force, and the built-in one while there is none.
func (s *Service) prover() *engine.Engine {
	if s.interim != nil && s.engine.Status().Unbound {
		return s.interim
	}
	return s.engine
}

// BindPolicy gives a daemon that waits for it its policy: tested as at every activation, sealed on the disk, recorded, and then in force, for good. The error
// is an [*Error].
func (s *Service) BindPolicy(ctx context.Context, caller policy.Caller, r BindRequest) (Binding, error) {
	if err := s.mayBind(caller); err != nil {
		s.noteUnbound(caller, err)
		return Binding{}, err
	}
	s.bindingNow.Lock()
	defer s.bindingNow.Unlock()
	if bound := s.binding.Load(); bound != nil {
		err := errorOf("CONFLICT", fmt.Sprintf("a policy is bound already, for good: %s, by uid %d; a daemon with another state directory takes another", bound.Revision, bound.Caller.UID))
		s.noteUnbound(caller, err)
		return Binding{}, err
	}
	bundle, proven, err := s.provenBundle(ctx, r)
	if err != nil {
		s.noteUnbound(caller, err)
		return Binding{}, err
	}
	binding := Binding{Revision: bundle.Revision, BoundAt: time.Now().UTC(), Caller: caller}
	sealed := s.sealed()
	if err := sealed.write(binding, bundle); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return Binding{}, errorOf("CONFLICT", "a policy is bound already, by another daemon on this state directory")
		}
		return Binding{}, err
	}
	record := audit.Record{Type: audit.TypeBind, Caller: &caller, Message: "policy is bound, and stays", Daemon: &audit.Daemon{Revision: binding.Revision}}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.config.RecordTimeout)
	defer cancel()
	if binding.AuditSequence, err = s.log.Append(bounded, record); err != nil {
		if undo := sealed.remove(); undo != nil { // nobody has seen it in force
			return Binding{}, errors.Join(err, undo)
		}
		return Binding{}, errorOf("NOT_READY", "the audit log can't be written, so no policy is bound: "+sentence(err))
	}
	if err := s.engine.Bind(proven); err != nil {
		return Binding{}, err
	}
	s.binding.Store(&binding)
	s.interpreters.drain("policy was bound")
	s.chores.Go(s.proveStart)
	return binding, nil
}

// mayBind refuses who may not, and a daemon that has its policy otherwise.
func (s *Service) mayBind(caller policy.Caller) error {
	if !s.config.Late.On {
		return errorOf("CONFLICT", "this daemon had its policy at its start; serve --policy-late has one wait for it")
	}
	binders := s.config.Late.Binders
	if len(binders) == 0 {
		binders = []int{os.Geteuid()}
	}
	if caller.Via != "socket" || !slices.Contains(binders, caller.UID) {
		return errorOf("DENIED", fmt.Sprintf("uid %d may not bind the policy by this way; serve --policy-binder names who may, on the socket", caller.UID))
	}
	return nil
}

// provenBundle tests what is to be bound.
func (s *Service) provenBundle(ctx context.Context, r BindRequest) (engine.Bundle, engine.Proven, error) {
	files := make(map[string][]byte, len(r.Files))
	for name, text := range r.Files {
		files[name] = []byte(text)
	}
	bundle, err := engine.NewBundle(files)
	if err != nil {
		return bundle, engine.Proven{}, badField("files", sentence(err))
	}
	if r.Revision != "" && r.Revision != bundle.Revision {
		return bundle, engine.Proven{}, badField("revision", fmt.Sprintf("the files are %s", bundle.Revision))
	}
	proven, err := s.engine.Prove(ctx, bundle)
	if ctx.Err() != nil {
		return bundle, proven, context.Cause(ctx)
	}
	if err != nil {
		return bundle, proven, badField("files", "the bundle isn't activated: "+sentence(err))
	}
	return bundle, proven, nil
}

// noteUnbound records a binding that came to nothing.
func (s *Service) noteUnbound(caller policy.Caller, why error) {
	ctx, cancel := context.WithTimeout(s.life, s.config.RecordTimeout)
	defer cancel()
	r := audit.Record{Type: audit.TypeRefused, Caller: &caller, Message: "no policy was bound: " + sentence(why)}
	if _, err := s.log.Note(ctx, r); err != nil {
		s.logger.Error("audit", "type", r.Type, "error", err)
	}
}

// putPolicy binds the policy of a daemon that waits for it.
func (s *Service) putPolicy(x *exchange) error {
	if s.stopping() {
		return errStopping
	}
	data, err := s.body(x)
	if err != nil {
		return err
	}
	var r BindRequest
	if err := json.Unmarshal(data, &r, json.RejectUnknownMembers(true)); err != nil {
		return badField("", `want {"files": {PATH: TEXT}, "revision": DIGEST}: `+sentence(err))
	}
	x.parsed(len(data))
	binding, err := s.BindPolicy(x.r.Context(), x.caller, r)
	if err != nil {
		return err
	}
	x.answer(http.StatusOK, binding)
	return nil
}
