package execd

import (
	"context"
	"time"

	"github.com/sandboxd/sandboxd/execd/audit"
)

// leaveBehind has what the leader left live on after the walk: in the sandbox, on the list of what is read back again and again, by its network's rules. It
// ends with the sandbox, at the latest.
func (w *walk) leaveBehind() {
	w.behind = true
	w.service.walks.Add(1) // this walk isn't done yet, so that nobody waits for none
	go func() {
		defer w.service.walks.Done()
		w.attend()
	}()
}

// attend waits for the end of what was left, and writes it down.
func (w *walk) attend() {
	ctx, cancel := context.WithCancel(w.box.life)
	defer cancel()
	defer context.AfterFunc(w.service.life, cancel)()
	go w.heedInterrupt(ctx.Done())
	exit := w.child.WaitLeft(ctx)
	w.proveEmpty(&exit)
	r := auditRecord{Type: audit.TypeLeft, Exec: w.id, Sandbox: w.request.Sandbox, Message: "what the program left behind has ended"}
	if !exit.TreeEmpty {
		r.Message = "what the program left behind isn't proven to be gone; it ends with its sandbox"
	}
	w.note(r)
	w.leaveBox()
}

// interruptWhenAsked asks the tree to end when the caller wants that, and kills it when it doesn't in time.
func (w *walk) interruptWhenAsked() {
	if w.options.Interrupt == nil {
		return
	}
	go w.heedInterrupt(w.clock.Done())
}

// heedInterrupt waits for the caller's wish, until over: asks then, and kills.
func (w *walk) heedInterrupt(over <-chan struct{}) {
	select {
	case <-w.options.Interrupt:
	case <-over:
		return
	}
	w.interrupted.Store(true)
	if err := w.child.Terminate(); err != nil {
		w.service.logger.Warn("interrupt", "exec", w.id, "error", err)
	}
	grace := time.NewTimer(w.options.InterruptGrace)
	defer grace.Stop()
	select {
	case <-grace.C:
		w.child.Kill()
	case <-over:
	}
}
