package execd

import (
	"context"
	"errors"
	"fmt"

	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/policy"
)

// ErrPaused says that nothing runs in a sandbox, as its owner wants it.
var ErrPaused = errors.New("the sandbox is paused; resume it first")

// PauseSandbox has everything stand still that runs in a sandbox of this caller, and nothing start there, until it is resumed. It answers when all does stand
// still: an error, and all goes on, where it doesn't. Time limits run on, and end what they would have ended.
func (s *Service) PauseSandbox(ctx context.Context, id string, caller policy.Caller) error {
	box, err := s.sandboxes.join(id, caller)
	if err != nil {
		return err
	}
	defer s.sandboxes.putBack(box)
	box.pausing.Lock()
	defer box.pausing.Unlock()
	if box.paused.Swap(true) {
		return ErrPaused
	}
	// A program that is released from here on stops itself by heedPause: it is in the list before it looks, and we look after saying so.
	for _, w := range s.running.all(func(w *walk) bool { return w.box == box }) {
		if whole, err := w.child.Freeze(); err != nil || !whole && (w.child.Lives() || w.child.Left()) {
			return errors.Join(fmt.Errorf("pause: exec %s doesn't stand still", w.id), err, s.thaw(box))
		}
	}
	if err := s.recordSandbox(ctx, box, caller, "paused"); err != nil {
		return errors.Join(err, s.thaw(box))
	}
	return nil
}

// ResumeSandbox lets all go on.
func (s *Service) ResumeSandbox(ctx context.Context, id string, caller policy.Caller) error {
	box, err := s.sandboxes.join(id, caller)
	if err != nil {
		return err
	}
	defer s.sandboxes.putBack(box)
	box.pausing.Lock()
	defer box.pausing.Unlock()
	if !box.paused.Load() {
		return errorOf("CONFLICT", "the sandbox isn't paused")
	}
	if err := s.recordSandbox(ctx, box, caller, "resumed"); err != nil {
		return err
	}
	return s.thaw(box)
}

// thaw lets what stands still go on; pausing is held.
func (s *Service) thaw(box *sandbox) error {
	box.paused.Store(false)
	var wrong []error
	for _, w := range s.running.all(func(w *walk) bool { return w.box == box }) {
		if w.drift.Load() == nil { // what has drifted stays as it is
			wrong = append(wrong, w.child.Thaw())
		}
	}
	return errors.Join(wrong...)
}

// heedPause stops a program that was released while its sandbox was being paused.
func (w *walk) heedPause() {
	if !w.box.paused.Load() {
		return
	}
	w.box.pausing.Lock()
	defer w.box.pausing.Unlock()
	if !w.box.paused.Load() {
		return
	}
	if _, err := w.child.Freeze(); err != nil {
		w.service.logger.Warn("pause", "exec", w.id, "error", err)
		w.child.Kill() // nothing runs in a sandbox that is paused
	}
}

func (s *Service) recordSandbox(ctx context.Context, box *sandbox, caller policy.Caller, what string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.config.RecordTimeout)
	defer cancel()
	_, err := s.log.Append(ctx, audit.Record{Type: audit.TypeSandbox, Sandbox: box.id, Caller: &caller, Message: what})
	return err
}
