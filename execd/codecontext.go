package execd

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/runner/python"
)

// CodeContext is an interpreter that is kept: it runs one cell of code after another, and what one leaves is there for the next.
//
//	OpenContext  a run of no code, walked by Exec to where the interpreter waits for its first cell
//	Run          decide ─▶ the plan must be the interpreter's ─▶ the interpreter is read back ─▶ record ─▶ the code is handed over ─▶ … ─▶ outcome
//
// It ends when it is closed, with its sandbox, or by itself. Between cells it has no clock: like what a program leaves behind, it lives as long as its sandbox.
type CodeContext struct {
	service *Service
	cells   *python.Cells
	// walk is the interpreter's, known once ready is closed: it waits for cells.
	walk  *walk
	ready chan struct{}
	// life is the interpreter's, and kill ends it.
	life context.Context
	kill context.CancelCauseFunc
	// said is closed when the interpreter's channel has ended, ended when the interpreter has, and all that it has said was heard. reply says how, then.
	said  chan struct{}
	ended chan struct{}
	reply Reply
	// turn is had by the cell that runs. It guards count.
	turn  chan struct{}
	count uint64

	// out is held while something of the interpreter is passed on. It guards late.
	out  sync.Mutex
	late lateOutput

	mu     sync.Mutex // guards asking; taken after out
	asking *asking
}

// The reasons for which an interpreter ends that doesn't end by itself.
var (
	errContextClosed = errors.New("the code context was closed")
	errNotReady      = errors.New("the interpreter didn't come to wait for its first cell")
	errCellIgnores   = errors.New("the cell went on after it was interrupted, so that its interpreter was ended")
)

// OpenContext starts an interpreter, a run of an empty program in a sandbox that is kept: nil, with what came of it, where it doesn't come to wait for cells.
// The context lives until ctx ends, at the latest.
func (s *Service) OpenContext(ctx context.Context, r policy.Request) (*CodeContext, Reply) {
	c := &CodeContext{
		service: s, ready: make(chan struct{}), said: make(chan struct{}), ended: make(chan struct{}), turn: make(chan struct{}, 1),
	}
	c.life, c.kill = context.WithCancelCause(ctx)
	go c.exec(r)
	select {
	case <-c.ready:
		return c, Reply{}
	case <-c.ended:
		return nil, c.reply
	}
}

// exec walks the interpreter to its end.
func (c *CodeContext) exec(r policy.Request) {
	defer close(c.ended)
	c.reply = c.service.Exec(c.life, r, Options{Unkept: true, Sink: c, context: c})
	c.kill(nil)
	if c.walk != nil {
		timer := time.AfterFunc(resultGrace, c.cells.Close) // nobody of its tree is left who could say more
		<-c.said
		timer.Stop()
	}
	if c.cells != nil {
		c.cells.Close()
	}
}

// Close ends the interpreter, and returns when it has ended.
func (c *CodeContext) Close() {
	c.kill(errContextClosed)
	<-c.ended
}

// Ended is closed when the interpreter has ended.
func (c *CodeContext) Ended() <-chan struct{} { return c.ended }

// keptProgram is the invocation of an interpreter that is kept.
func (w *walk) keptProgram() (*program, error) {
	cells, err := python.NewCells(firstExtra)
	if err != nil {
		return nil, err
	}
	w.options.context.cells = cells
	p := w.request.Program
	made := &program{language: p.Language, extra: cells.Extra}
	made.Argv, made.Env, made.Cwd, made.Extra = cells.Argv, runEnvironment(p.Language, p.Env), directory(p.Cwd), len(cells.Extra)
	return made, nil
}

// startClock begins the time of what is released. A kept interpreter has none of its own: each of its cells has.
func (w *walk) startClock() {
	if w.options.context != nil {
		w.clock, w.stopClock = context.WithCancel(w.ctx)
		return
	}
	w.clock, w.stopClock = context.WithTimeoutCause(w.ctx, w.limit()+w.grace(), errDeadline)
}

// listen begins to hear a kept interpreter, which was released and looked at.
func (w *walk) listen() {
	if c := w.options.context; c != nil {
		c.walk = w
		go c.listen()
	}
}
