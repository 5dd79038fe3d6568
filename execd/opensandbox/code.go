package opensandbox

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/policy"
)

// codeRoutes is the part of execd's API that runs code in contexts.
func (f *Facade) codeRoutes() []route {
	return []route{
		{"POST", "/code", f.postCode},
		{"DELETE", "/code", f.interruptCode},
		{"POST", "/code/context", f.postCodeContext},
		{"GET", "/code/contexts", f.listCodeContexts},
		{"DELETE", "/code/contexts", f.deleteCodeContexts},
		{"GET", "/code/contexts/{id}", f.getCodeContext},
		{"DELETE", "/code/contexts/{id}", f.deleteCodeContext},
	}
}

// postCode runs a cell, and answers with its events.
func (f *Facade) postCode(x *exchange) error {
	var wire struct {
		Code    string `json:"code"`
		Context struct {
			ID       string `json:"id"`
			Language string `json:"language"`
		} `json:"context"`
		Timeout int64 `json:"timeout"`
	}
	if err := x.decode(execdBody, &wire); err != nil {
		return err
	}
	switch {
	case strings.TrimSpace(wire.Code) == "":
		return badBody("code", "empty")
	case wire.Timeout < 0:
		return badBody("timeout", "%d ms: want 0, which is none, or more", wire.Timeout)
	}
	c, err := f.contextOf(x, wire.Context.ID, wire.Context.Language)
	if err != nil {
		return err
	}
	request := f.cell(x.box, c, wire.Code, time.Duration(wire.Timeout)*time.Millisecond)
	if err := request.Validate(); err != nil {
		return asBadBody(err)
	}
	return f.runCell(x, c, request)
}

// contextOf is the context that a cell names, or the one of those that name none.
func (f *Facade) contextOf(x *exchange, id, language string) (*codeContext, error) {
	if id == "" {
		if err := checkLanguage("context.language", language); err != nil {
			return nil, err
		}
		return f.standardContext(x)
	}
	c, err := x.box.contexts.find(id)
	if err == nil && language != "" && language != c.language {
		err = badBody("context.language", "%.40q: the context's is %s", language, c.language)
	}
	return c, err
}

// cell is a cell of a context in policy's words.
func (f *Facade) cell(box *sandbox, c *codeContext, code string, timeout time.Duration) policy.Request {
	return policy.Request{
		Action: policy.ActionRun, Caller: box.caller, Sandbox: box.inner, NetworkInherited: true, SecurityContext: box.context, Limits: f.limits(box, timeout),
		Program: policy.Program{Language: c.language, Code: code, Inputs: []byte("null"), Env: c.env, Cwd: c.cwd},
	}
}

// cellSink gives a stream what a cell says.
type cellSink struct{ *stream }

// Result is of the cell's sink.
func (s cellSink) Result(results map[string]string) { s.result(results) }

// runCell runs a cell when it is its turn. It runs on when the client goes; it ends with its context.
func (f *Facade) runCell(x *exchange, c *codeContext, request policy.Request) error {
	if err := c.take(x.r.Context()); err != nil {
		return err
	}
	defer c.give()
	leave, err := f.service.Admit(x.r.Context())
	if err != nil {
		return notAdmitted(err)
	}
	defer leave()
	s := newStream(x.w, c.id, f.config.StallTimeout, c.life.Done())
	reply := c.inner.Run(c.life, request, execd.CellOptions{
		Sink: cellSink{s}, Grace: interruptGrace,
		Accepted: func(number uint64) {
			s.begin()
			s.count(number)
		},
	})
	if reply.Gone {
		x.box.contexts.remove(c)
	}
	if no := before(reply.Reply); no != nil && !x.w.Begun {
		if reply.Gone && reply.Outcome != execd.OutcomeMismatch {
			return c.gone()
		}
		return no
	}
	s.finishCell(cellEndingOf(reply))
	return nil
}

// take waits for the turn of a cell, unless too many wait.
func (c *codeContext) take(ctx context.Context) error {
	select {
	case c.asked <- struct{}{}:
	default:
		return faultf(http.StatusBadRequest, execdRuntime, "the context runs a cell, and %d wait, as many as may", cap(c.asked)-1)
	}
	select {
	case c.turn <- struct{}{}:
		return nil
	case <-c.life.Done():
		<-c.asked
		return c.gone()
	case <-ctx.Done():
		<-c.asked
		return context.Cause(ctx)
	}
}

// gone is the answer to a cell whose context has ended before it.
func (c *codeContext) gone() error {
	return faultf(http.StatusNotFound, execdContext, "the code context %s has ended", c.id)
}

func (c *codeContext) give() {
	<-c.turn
	<-c.asked
}

// interruptCode interrupts the cell that runs in a context. Where none does it is done.
func (f *Facade) interruptCode(x *exchange) error {
	id := x.r.URL.Query().Get("id")
	if id == "" {
		return faultf(http.StatusBadRequest, execdQuery, "id: missing")
	}
	c, err := x.box.contexts.find(id)
	if err != nil {
		return err
	}
	c.inner.Interrupt()
	x.empty()
	return nil
}
