package opensandbox

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/policy"
)

// terminal is a session of a shell, or of one command, at a terminal. It outlives the connections of its clients, of which it has one at a time. The shell is
// an exec like any other; it begins with the first client, and again with the next one where it has ended.
type terminal struct {
	id, cwd, command string
	// life ends when the session is deleted, or its sandbox ends.
	life   context.Context
	end    context.CancelCauseFunc
	replay *replay

	mu sync.Mutex // guards what follows
	// seat is where the shell runs, nil where none does; over is closed when it has ended, and how says how.
	seat *execd.Terminal
	// pipes says that it has no terminal, but pipes: as its first client wanted it.
	pipes bool
	over  chan struct{}
	how   ending
	// client is the one that is there.
	client *seatedClient
	// absence ends a session whose client has been away for too long.
	absence *time.Timer
}

// seatedClient is one client's place; evict has it leave.
type seatedClient struct {
	evict context.CancelCauseFunc
	// left is closed when it has. leaving says that it is about to, and is guarded by the session's mu.
	left    chan struct{}
	leaving bool
}

// mostTerminals is how many of these sessions a sandbox may have: each keeps up to mostReplay bytes.
const mostTerminals = 32

// What ends a session of a terminal.
var (
	errAway      = errors.New("its client was away for too long")
	errTakenOver = errors.New("another client has taken the session over")
)

// terminalRoutes are those of sessions at a terminal.
func (f *Facade) terminalRoutes() []route {
	with := func(handle func(*exchange, *terminal) error) func(*exchange) error {
		return func(x *exchange) error {
			x.box.mu.Lock()
			t := x.box.terminals[x.values["id"]]
			x.box.mu.Unlock()
			if t == nil {
				return faultf(http.StatusNotFound, execdContext, "there is no session of a terminal %.64q", x.values["id"])
			}
			return handle(x, t)
		}
	}
	return []route{
		{"POST", "/pty", f.postTerminal},
		{"GET", "/pty/{id}", with(f.getTerminal)},
		{"DELETE", "/pty/{id}", with(f.deleteTerminal)},
		{"GET", "/pty/{id}/ws", with(f.attachTerminal)},
	}
}

// postTerminal makes a session. Nothing runs yet.
func (f *Facade) postTerminal(x *exchange) error {
	var wire struct {
		Cwd     string `json:"cwd"`
		Command string `json:"command"`
	}
	data, err := x.body(execdBody)
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(data)) > 0 {
		if err := decode(execdBody, data, &wire); err != nil {
			return err
		}
	}
	t := &terminal{id: newUUID(), cwd: absolute(wire.Cwd), command: wire.Command, replay: newReplay()}
	if err := f.terminalRequest(x.box, t, "bash", false).Validate(); err != nil {
		return asBadBody(err)
	}
	t.life, t.end = context.WithCancelCause(x.box.life)
	x.box.mu.Lock()
	defer x.box.mu.Unlock()
	if len(x.box.terminals) >= mostTerminals {
		return faultf(http.StatusBadRequest, execdRuntime, "the sandbox has %d sessions of terminals, as many as it may; delete some", mostTerminals)
	}
	x.box.terminals[t.id] = t
	t.away(f)
	context.AfterFunc(t.life, func() { f.removeTerminal(x.box, t) })
	x.answer(http.StatusCreated, map[string]string{"session_id": t.id})
	return nil
}

// removeTerminal takes a session that has ended away.
func (f *Facade) removeTerminal(box *sandbox, t *terminal) {
	t.replay.close()
	t.mu.Lock()
	t.absence.Stop()
	t.mu.Unlock()
	box.mu.Lock()
	defer box.mu.Unlock()
	delete(box.terminals, t.id)
}

// away gives an absent client time to come back.
func (t *terminal) away(f *Facade) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.absence = time.AfterFunc(f.config.StallTimeout, func() {
		t.mu.Lock()
		gone := t.client == nil
		t.mu.Unlock()
		if gone {
			t.end(errAway)
		}
	})
}

func (f *Facade) getTerminal(x *exchange, t *terminal) error {
	t.mu.Lock()
	running := t.seat != nil
	t.mu.Unlock()
	x.answer(http.StatusOK, struct {
		SessionID string `json:"session_id"`
		Running   bool   `json:"running"`
		Offset    int64  `json:"output_offset"`
	}{t.id, running, t.replay.written()})
	return nil
}

// deleteTerminal ends a session and the tree of its shell, and answers when nothing of it is left.
func (f *Facade) deleteTerminal(x *exchange, t *terminal) error {
	t.end(errSessionDeleted)
	f.removeTerminal(x.box, t)
	t.mu.Lock()
	over := t.over
	t.mu.Unlock()
	if over != nil {
		<-over
	}
	x.empty()
	return nil
}

// terminalRequest is a session's program in policy's words. What it leaves behind ends with it: there is a tree for each terminal, and none besides.
func (f *Facade) terminalRequest(box *sandbox, t *terminal, shell string, pipes bool) policy.Request {
	argv := []string{shell}
	if shell == "bash" {
		argv = append(argv, "--norc", "--noprofile")
	}
	if t.command != "" {
		argv = append(argv, "-c", t.command)
	}
	r := f.request(box, argv, t.cwd, 0, nil)
	r.Command.LeaveChildren, r.Command.Terminal = false, !pipes
	if _, has := r.Command.Env["TERM"]; !has && !pipes {
		r.Command.Env["TERM"] = "xterm-256color"
	}
	return r
}

// startTerminal has the shell run, if it doesn't, and returns when it is released: nil, or why it isn't. mu is not held.
func (f *Facade) startTerminal(box *sandbox, t *terminal, pipes bool) error {
	t.mu.Lock()
	if t.seat != nil || t.life.Err() != nil {
		t.mu.Unlock()
		return context.Cause(t.life)
	}
	t.seat, t.pipes, t.over = execd.NewTerminal(80, 24), pipes, make(chan struct{})
	if pipes {
		t.seat = execd.NewPipes()
	}
	seat, over := t.seat, t.over
	t.mu.Unlock()
	accepted := make(chan struct{})
	f.running.Go(func() {
		how := f.runTerminal(box, t, seat, pipes, sync.OnceFunc(func() { close(accepted) }))
		t.mu.Lock()
		defer t.mu.Unlock()
		t.seat, t.how = nil, how
		close(over)
		t.replay.wake()
	})
	select {
	case <-accepted:
		return nil
	case <-over:
		select {
		case <-accepted: // it was both
			return nil
		default:
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		return errors.New(t.how.trace)
	}
}

// runTerminal walks the shell: bash, or sh where that isn't there.
func (f *Facade) runTerminal(box *sandbox, t *terminal, seat *execd.Terminal, pipes bool, accepted func()) ending {
	leave, err := f.service.Admit(t.life)
	if err != nil {
		return ending{code: refusedCode, trace: asFault(notAdmitted(err)).Message}
	}
	defer leave()
	var reply execd.Reply
	for _, shell := range []string{"bash", "sh"} {
		started := f.start(t.life)
		reply = f.service.Exec(t.life, f.terminalRequest(box, t, shell, pipes), execd.Options{
			Unkept: true, Sink: terminalSink{t.replay}, Terminal: seat, Accepted: func(string, int64) { started() },
			Running: accepted,
		})
		started()
		if reply.Outcome != execd.OutcomeNotStarted || reply.Errno != "ENOENT" || reply.BadDirectory() {
			break
		}
	}
	return endingOf(reply, false)
}

// terminalSink takes what a terminal's program writes.
type terminalSink struct{ replay *replay }

// Decision is of the walk's sink.
func (terminalSink) Decision(policy.Decision) {}

// Output is a piece.
func (s terminalSink) Output(stream string, chunk []byte) { s.replay.write(chunk, stream == "stderr") }
