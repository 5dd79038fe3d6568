package execd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sandboxd/sandboxd/policy"
)

// CellOptions are what the caller of a cell wants.
type CellOptions struct {
	// Sink hears what the cell says.
	Sink CellSink
	// Accepted hears of the cell's number in its context, from 1, when decision and proof are on the disk and before the code is handed over.
	Accepted func(number uint64)
	// Grace is how long a cell has to end by itself that is interrupted, or whose time is over. Then its interpreter is ended.
	Grace time.Duration
}

// CellReply is what came of a cell.
type CellReply struct {
	// Reply is the cell's own: of its decision, its proof and its record. Nothing is known of what it alone has used but the time.
	Reply
	// Error is what it has ended with, nil: with nothing, or its interpreter has ended with it.
	Error *CellError
	// Gone says that the interpreter has ended, and End how.
	Gone bool
	End  Reply
}

// Run walks one cell of code: a run in the interpreter that is there. It waits for its turn, and is decided when it has come: the policy in force then counts,
// and a cell is refused under which the interpreter would be confined in any other way than it is.
func (c *CodeContext) Run(ctx context.Context, r policy.Request, o CellOptions) (reply CellReply) {
	if err := c.take(ctx); err != nil {
		reply.Outcome, reply.Message = OutcomeCancelled, sentence(err)
		c.ending(&reply)
		return reply
	}
	defer func() { <-c.turn }()
	s := c.service
	w, err := s.enter(ctx, r, Options{Sink: o.Sink, cellOf: c})
	if err != nil {
		return CellReply{Reply: w.reply(OutcomeInfra).because(err)}
	}
	s.walked.Add(1)
	s.active.Add(1)
	defer s.active.Add(-1)
	defer c.ending(&reply)
	defer s.leave(w)
	defer w.recover(&reply.Reply)

	if err := w.decide(); err != nil { // what is in force now
		return CellReply{Reply: w.fail(err)}
	}
	if err := w.build(); err != nil { // the sandbox, and the plan of a run in it
		return CellReply{Reply: w.fail(err)}
	}
	if err := w.checkInterpreter(); err != nil { // which must be the interpreter's, and hold of it
		return CellReply{Reply: w.fail(err)}
	}
	if err := w.record(); err != nil { // on the disk
		return CellReply{Reply: w.fail(err)}
	}
	c.count++
	if o.Accepted != nil {
		o.Accepted(c.count)
	}
	return w.ask(o)
}

// take waits for the turn.
func (c *CodeContext) take(ctx context.Context) error {
	select {
	case c.turn <- struct{}{}:
	case <-c.ended:
		return errNoInterpreter
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case <-c.ended:
		<-c.turn
		return errNoInterpreter
	default:
		return nil
	}
}

// ending says of a reply whether the interpreter has ended.
func (c *CodeContext) ending(reply *CellReply) {
	select {
	case <-c.ended:
		reply.Gone, reply.End = true, c.reply
	default:
	}
}

// Interrupt asks the cell that runs to end, and says whether one does.
func (c *CodeContext) Interrupt() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asking == nil {
		return false
	}
	if !c.asking.interrupted {
		c.asking.interrupted = true
		close(c.asking.stop)
	}
	return true
}

// errNoInterpreter says that there is none to read back.
var errNoInterpreter = errors.New("the context's interpreter has ended")

// checkInterpreter holds the plan of a cell against that of its interpreter, and the interpreter as the kernel shows it just now against both.
func (w *walk) checkInterpreter() error {
	of := w.options.cellOf.walk
	if w.box != of.box || !w.plan.Equal(of.plan) {
		return &deniedError{[]policy.Reason{{
			Rule: "host.context", Field: "context",
			Message: "What policy puts in force now isn't what the context's interpreter was started under, and nothing that runs is confined anew: delete the context, and make another.",
		}}}
	}
	verdict, there := w.service.lookAtExec(of)
	if !there {
		return errNoInterpreter
	}
	w.verdict = verdict
	w.verdict.Degraded = append(w.verdict.Degraded, w.box.Verdict().Degraded...)
	return w.holds()
}

// ask hands the code over, and waits for its end, or the interpreter's.
func (w *walk) ask(o CellOptions) CellReply {
	c := w.options.cellOf
	if err := w.heedSandbox(); err != nil {
		return CellReply{Reply: w.fail(err)}
	}
	w.released = true
	a := &asking{number: c.count, sink: o.Sink, sent: make(chan struct{}), done: make(chan struct{}), stop: make(chan struct{})}
	c.begin(a)
	began := time.Now()
	go func() {
		defer close(a.sent)
		if err := c.cells.Send(a.number, w.request.Program.Code); err != nil {
			c.kill(fmt.Errorf("the interpreter took no code: %w", err))
		}
	}()
	late := w.awaitCell(a, o.Grace)
	if a.isDone() && !c.walk.child.Flowed(c.life) {
		<-c.ended // what it wrote last comes with its end
	}
	c.finish()
	return w.cellReply(a, late, time.Since(began))
}

// isDone says whether the interpreter has said so.
func (a *asking) isDone() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// awaitCell waits until the cell or the interpreter has ended, and says whether the cell's time was over before. Who is to end is interrupted first.
func (w *walk) awaitCell(a *asking, grace time.Duration) (late bool) {
	c := w.options.cellOf
	limit := time.NewTimer(w.limit())
	defer limit.Stop()
	patience := time.NewTimer(0)
	<-patience.C
	defer patience.Stop()
	done, stop, over := a.sent, a.stop, w.ctx.Done() // an end counts when all of the code is taken
	for {
		select {
		case <-done:
			if done == a.done {
				return late
			}
			done = a.done
		case <-c.ended:
			return late
		case <-limit.C:
			late = true
			c.walk.child.Break()
			patience.Reset(grace)
		case <-stop:
			stop = nil
			c.walk.child.Break()
			patience.Reset(grace)
		case <-patience.C:
			c.kill(errCellIgnores)
		case <-over:
			over = nil
			c.kill(context.Cause(w.ctx))
		}
	}
}

// cellReply ends the walk of a cell that was handed over.
func (w *walk) cellReply(a *asking, late bool, took time.Duration) CellReply {
	c := w.options.cellOf
	outcome, message := OutcomeOK, ""
	switch {
	case late:
		outcome, message = OutcomeTimeout, fmt.Sprintf("the %g s of the cell are over", w.limit().Seconds())
	case !a.isDone():
		outcome, message = c.reply.Outcome, "the interpreter has ended: "+string(c.reply.Outcome)
		switch outcome {
		case OutcomeOK:
			outcome = OutcomeError
		case OutcomeCancelled:
			message = sentence(context.Cause(c.life))
		}
	case a.failed != nil:
		outcome = OutcomeError
	}
	if c.isInterrupted(a) && outcome != OutcomeOK && !late {
		outcome = OutcomeCancelled
	}
	reply := w.reply(outcome)
	reply.Message, reply.DurationSeconds, reply.TimedOut = message, took.Seconds(), late
	reply.TreeEmpty, reply.TreeLeft = false, true
	if !a.isDone() {
		reply.TreeEmpty, reply.TreeLeft = c.reply.TreeEmpty, c.reply.TreeLeft
	}
	return CellReply{Reply: w.answer(reply, nil), Error: a.failed}
}

func (c *CodeContext) isInterrupted(a *asking) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return a.interrupted
}
