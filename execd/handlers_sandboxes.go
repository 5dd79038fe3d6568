package execd

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/policy"
)

// Sandbox is what a caller sees of a sandbox.
type Sandbox struct {
	ID        string    `json:"id"`
	CreatedAt time.Time `json:"createdAt"`
	// Image is what its root is made from; absent: the host's own system directories.
	Image *policy.Image `json:"image,omitempty"`
	// Paused says that nothing runs in it, as its owner wants.
	Paused bool `json:"paused,omitzero"`
	// Verdict is the read-back of its namespaces, root and launcher at its start.
	Verdict Proof `json:"verdict"`
}

// SandboxList is all of a caller's.
type SandboxList struct {
	Sandboxes []Sandbox `json:"sandboxes"`
}

func sandboxOf(box *sandbox) Sandbox {
	made := Sandbox{ID: box.id, CreatedAt: box.created.UTC(), Paused: box.paused.Load(), Verdict: proofOf(box.Verdict(), box.Verdict().Digest(), false)}
	if box.root.image != nil {
		made.Image = &policy.Image{Name: box.imageName, Digest: box.root.image.Digest}
	}
	return made
}

// postSandbox makes a sandbox that lives until it is deleted, if policy allows.
func (s *Service) postSandbox(x *exchange) error {
	if err := s.open(); err != nil {
		return err
	}
	var data []byte
	if x.r.ContentLength != 0 {
		var err error
		if data, err = s.body(x); err != nil {
			return err
		}
	}
	request, err := ParseSandbox(data)
	if err != nil {
		return err
	}
	request.Caller = x.caller
	made, err := s.MakeSandbox(x.r.Context(), request)
	if err != nil {
		return err
	}
	x.answer(http.StatusCreated, made)
	return nil
}

// MakeSandbox makes a sandbox that lives until it is deleted, if policy allows: that, with what was read back, is on the disk when it returns. The caller in
// the request must be the kernel's word, or that of who has checked a key.
func (s *Service) MakeSandbox(ctx context.Context, r policy.Request) (Sandbox, error) {
	return s.makeSandbox(ctx, r, nil)
}

// makeSandbox is that, over a sandbox or over none.
func (s *Service) makeSandbox(ctx context.Context, r policy.Request, over *sandbox) (Sandbox, error) {
	if err := s.open(); err != nil {
		return Sandbox{}, err
	}
	r, found, err := s.withImage(r)
	if err != nil {
		return Sandbox{}, err
	}
	decision := s.engine.Decide(ctx, r)
	record := audit.Record{
		Type: audit.TypeDecision, Caller: &r.Caller, Request: audit.Describe(r), Decision: recordedDecision(decision),
	}
	if !decision.Allow {
		if _, err := s.log.Append(ctx, record); err != nil {
			return Sandbox{}, err
		}
		denied := errorOf("DENIED", "policy says no")
		denied.Reasons = decision.Reasons
		return Sandbox{}, denied
	}
	root := rootOf(found, decision)
	root.over = over
	box, err := s.sandboxes.create(ctx, r.Caller, root, r.Image.Name)
	if err != nil {
		return Sandbox{}, asRefused(err)
	}
	verdict, err := s.letOutOf(box, decision.Effective.Network)
	if err != nil {
		_ = s.sandboxes.delete(context.WithoutCancel(ctx), box.id, r.Caller) // why it couldn't be made is the one to tell
		return Sandbox{}, asRefused(err)
	}
	record.Type, record.Sandbox, record.Message, record.Verdict = audit.TypeSandbox, box.id, "made", recordedVerdict(verdict, verdict.Digest())
	if _, err := s.log.Append(ctx, record); err != nil {
		_ = s.sandboxes.delete(context.WithoutCancel(ctx), box.id, r.Caller) // the log's error is the one to tell
		return Sandbox{}, err
	}
	return sandboxOf(box), nil
}

// letOutOf puts the network of a sandbox that was just made in force, and gives what was read back of the whole.
func (s *Service) letOutOf(box *sandbox, spec policy.NetworkSpec) (policy.Verdict, error) {
	rules, err := s.rulesFor(box, spec)
	if err != nil || spec.DenyAll() {
		return box.Verdict(), err
	}
	if _, err := box.outlet.set(rules); err != nil {
		return policy.Verdict{}, err
	}
	verdict, err := verifyNetwork(box, rules)
	if err == nil && !verdict.Held() {
		err = &mismatchError{errors.New("read-back of the network: " + failedRows(verdict))}
	}
	return verdict, err
}

// asRefused answers what this host can't hold as a denial.
func asRefused(err error) error {
	var denied *deniedError
	if errors.As(asDenied(err), &denied) {
		e := errorOf("DENIED", denied.Error())
		e.Reasons = denied.reasons
		return e
	}
	return err
}

func (s *Service) listSandboxes(x *exchange) error {
	list := SandboxList{Sandboxes: []Sandbox{}}
	for _, box := range s.sandboxes.of(x.caller) {
		list.Sandboxes = append(list.Sandboxes, sandboxOf(box))
	}
	x.answer(http.StatusOK, list)
	return nil
}

func (s *Service) getSandbox(x *exchange) error {
	box, err := s.sandboxes.find(x.r.PathValue("id"), x.caller)
	if err != nil {
		return err
	}
	x.answer(http.StatusOK, sandboxOf(box))
	return nil
}

// deleteSandbox kills what runs in a sandbox and answers when it is empty. It goes on when the caller doesn't wait.
func (s *Service) deleteSandbox(x *exchange) error {
	if err := s.DeleteSandbox(x.r.Context(), x.r.PathValue("id"), x.caller); err != nil {
		return err
	}
	x.w.WriteHeader(http.StatusNoContent)
	return nil
}

// DeleteSandbox kills what runs in a sandbox of this caller and returns when it is empty and that is recorded. The end of ctx doesn't stop it.
func (s *Service) DeleteSandbox(ctx context.Context, id string, caller policy.Caller) error {
	ctx = context.WithoutCancel(ctx)
	if err := s.sandboxes.delete(ctx, id, caller); err != nil {
		return asRefused(err)
	}
	record := audit.Record{Type: audit.TypeSandbox, Sandbox: id, Caller: &caller, Message: "deleted"}
	ctx, cancel := context.WithTimeout(ctx, s.config.RecordTimeout)
	defer cancel()
	_, err := s.log.Append(ctx, record)
	return err
}

// FindSandbox gives a sandbox to its owner. The error says that there is none, none of this caller's, or that it has ended or drifted.
func (s *Service) FindSandbox(id string, caller policy.Caller) (Sandbox, error) {
	box, err := s.sandboxes.find(id, caller)
	if err != nil {
		return Sandbox{}, err
	}
	return sandboxOf(box), nil
}
