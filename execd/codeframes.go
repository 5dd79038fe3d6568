package execd

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"time"

	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/runner/python"
)

// CellSink hears what a cell says, at its own pace: the interpreter waits meanwhile.
type CellSink interface {
	Sink
	// Result is one result: texts by their media type, base64 where that is no text. It comes after the output that was written before it.
	Result(map[string]string)
}

// CellError is the exception that a cell has ended with, in the interpreter's words.
type CellError struct {
	Name      string   `json:"ename"`
	Value     string   `json:"evalue"`
	Traceback []string `json:"traceback"`
}

// asking is a cell that the interpreter has.
type asking struct {
	number uint64
	sink   CellSink
	// sent is closed when the interpreter has taken the code, or can't any more.
	sent chan struct{}
	// done is closed when the interpreter says that the cell has ended, and failed with what, nil: with nothing.
	done   chan struct{}
	failed *CellError
	ended  bool
	// stop is closed when somebody wants its end.
	stop        chan struct{}
	interrupted bool
}

// foreign is how what an interpreter says is read: keys may repeat and surrogates be alone.
var foreign = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// listen hears the interpreter until it says no more: then it is of no more use.
func (c *CodeContext) listen() {
	defer close(c.said)
	pid := c.walk.child.PID()
	c.cells.Until(time.Now().Add(c.service.config.PrewarmTimeout))
	frame, err := c.cells.Next(pid)
	if err == nil && frame.Kind != python.FrameReady {
		err = fmt.Errorf("it said %q", frame.Kind)
	}
	if err != nil {
		c.kill(fmt.Errorf("%w: %w", errNotReady, err))
		return
	}
	c.cells.Until(time.Time{})
	close(c.ready)
	for {
		frame, err := c.cells.Next(pid)
		if err != nil {
			c.awaitEnd(err)
			return
		}
		c.hear(frame)
		if frame.Kind == python.FrameResult { // whoever has it: its sender waits
			if err := c.cells.Acknowledge(frame.Cell); err != nil {
				c.awaitEnd(err)
				return
			}
		}
	}
}

// awaitEnd ends an interpreter that can't be heard any more, unless it ends by itself: then the kernel says how.
func (c *CodeContext) awaitEnd(why error) {
	timer := time.NewTimer(resultGrace)
	defer timer.Stop()
	select {
	case <-c.life.Done():
	case <-timer.C:
		c.kill(fmt.Errorf("the interpreter can't be heard any more: %w", why))
	}
}

// hear takes a frame for the cell that it is about, if that runs. What was written before comes before.
func (c *CodeContext) hear(f python.Frame) {
	if f.Kind == python.FrameResult {
		c.walk.child.Flowed(c.life)
	}
	c.out.Lock()
	defer c.out.Unlock()
	a := c.current()
	if a == nil || a.number != f.Cell || a.ended {
		return
	}
	switch f.Kind {
	case python.FrameResult:
		var result map[string]string
		switch err := json.Unmarshal(f.Data, &result, foreign); {
		case f.Cut:
			a.sink.Output("stderr", fmt.Appendf(nil, "sandboxd: a result of more than %d bytes was left out\n", python.MostFrame))
		case err != nil:
			a.sink.Output("stderr", []byte("sandboxd: a result was left out that is no JSON object of texts\n"))
		default:
			a.sink.Result(result)
		}
	case python.FrameError:
		if a.failed != nil {
			return
		}
		a.failed = &CellError{}
		if err := json.Unmarshal(f.Data, a.failed, foreign); err != nil {
			a.failed = &CellError{Name: "UnknownError", Value: "what the interpreter said of its exception can't be read"}
		}
	case python.FrameDone:
		a.ended = true
		close(a.done)
	}
}

func (c *CodeContext) current() *asking {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asking
}

// begin has what is said from here on go to a cell, and first what was written since the last.
func (c *CodeContext) begin(a *asking) {
	c.out.Lock()
	defer c.out.Unlock()
	c.late.give(a.sink)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asking = a
}

// finish has nothing more go to it.
func (c *CodeContext) finish() {
	c.out.Lock()
	defer c.out.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asking = nil
}

// Decision is of the walk's sink.
func (c *CodeContext) Decision(policy.Decision) {}

// Output goes to the cell that runs, or waits for the next.
func (c *CodeContext) Output(stream string, chunk []byte) {
	c.out.Lock()
	defer c.out.Unlock()
	if a := c.current(); a != nil {
		a.sink.Output(stream, chunk)
		return
	}
	c.late.keep(stream, chunk)
}

// lateOutput is what was written while no cell ran, by threads and programs that one has left.
type lateOutput struct {
	pieces  []latePiece
	bytes   int
	dropped int
}

type latePiece struct {
	stream string
	data   []byte
}

// mostLate bounds it: nobody may ever ask for it.
const mostLate = 64 << 10

func (l *lateOutput) keep(stream string, data []byte) {
	if l.bytes+len(data) > mostLate {
		l.dropped += len(data)
		return
	}
	l.bytes += len(data)
	l.pieces = append(l.pieces, latePiece{stream, data})
}

func (l *lateOutput) give(to Sink) {
	for _, piece := range l.pieces {
		to.Output(piece.stream, piece.data)
	}
	if l.dropped > 0 {
		to.Output("stderr", fmt.Appendf(nil, "sandboxd: %d bytes more were written between cells, and dropped\n", l.dropped))
	}
	*l = lateOutput{}
}
