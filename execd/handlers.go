package execd

import (
	"context"
	"net/http"
	"strings"

	"github.com/sandboxd/sandboxd/execd/spool"
	"github.com/sandboxd/sandboxd/policy"
)

// ndjson is the media type of a stream of events.
const ndjson = "application/x-ndjson"

// asked is what the body of an exec or a run asks for.
type asked struct {
	request policy.Request
	options policy.ExecOptions
	// inputs are those of a run that are too long for memory, else nil.
	inputs *spool.Text
}

func (s *Service) postExec(x *exchange) error {
	return s.start(x, func() (asked, error) { return s.shortBody(x, ParseExec) })
}

func (s *Service) postRun(x *exchange) error {
	return s.start(x, func() (asked, error) {
		if 0 <= x.r.ContentLength && x.r.ContentLength <= spool.InMemory {
			return s.shortBody(x, ParseRun)
		}
		return s.longBody(x)
	})
}

// shortBody reads a body whole.
func (s *Service) shortBody(x *exchange, parse func([]byte) (policy.Request, policy.ExecOptions, error)) (a asked, err error) {
	data, err := s.body(x)
	if err != nil {
		return a, err
	}
	a.request, a.options, err = parse(data)
	x.parsed(len(data))
	return a, err
}

// start is exec and run: a place in the queue before the body is read, so that what waits costs little; then the walk.
func (s *Service) start(x *exchange, read func() (asked, error)) error {
	if err := s.open(); err != nil {
		return err
	}
	ticket, err := s.queue.enter()
	if err != nil {
		return err
	}
	defer ticket.leave()
	rows, err := x.flag("rows")
	if err != nil {
		return err
	}
	body, err := read()
	if err != nil {
		return err
	}
	defer body.close()
	request, wanted := body.request, body.options
	if err := s.queue.outputs.inlines(wanted.InlineOutputs); err != nil {
		return err
	}
	request.Caller = x.caller
	if request.Sandbox != "" {
		if _, err := s.sandboxes.find(request.Sandbox, x.caller); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(x.r.Context())
	defer cancel()
	if err := ticket.run(ctx, request.Limits, inlineWeight*wanted.InlineOutputs); err != nil {
		return err
	}
	if err := s.open(); err != nil { // it may have waited
		return err
	}
	options := OptionsOf(wanted, rows)
	options.Inputs, options.LongValue = body.inputs, true
	if !wanted.Stream && !strings.Contains(x.r.Header.Get("Accept"), ndjson) {
		reply := s.Exec(ctx, request, options)
		defer reply.Close()
		x.answer(statusOf(reply.Outcome), reply)
		return nil
	}
	stream := newStream(x.w, s.config.WriteTimeout, cancel)
	options.Sink = stream
	reply := s.Exec(ctx, request, options)
	defer reply.Close()
	stream.finish(reply)
	return nil
}

// open says whether requests are served at all.
func (s *Service) open() error {
	if s.stopping() {
		return errStopping
	}
	if err := s.log.Err(); err != nil {
		return errorOf("NOT_READY", "the audit log can't be written, so nothing is released: "+sentence(err))
	}
	if s.config.Attach.on() && s.sandboxes.sharedID() == "" {
		e := errorOf("NOT_READY", sentence(errNoLauncher))
		e.RetryAfterSeconds = 1
		return e
	}
	return nil
}

// statusOf is the status of a reply: whatever ran is 200, however it ended.
func statusOf(outcome Outcome) int {
	switch outcome {
	case OutcomeDenied:
		return http.StatusForbidden
	case OutcomeMismatch, OutcomeInfra:
		return http.StatusInternalServerError
	}
	return http.StatusOK
}

func (s *Service) postDecide(x *exchange) error {
	if err := s.open(); err != nil {
		return err
	}
	ticket, err := s.queue.enter()
	if err != nil {
		return err
	}
	defer ticket.leave()
	data, err := s.body(x)
	if err != nil {
		return err
	}
	request, err := ParseDecide(data)
	x.parsed(len(data))
	if err != nil {
		return err
	}
	request.Caller = x.caller
	reply, err := s.Decide(x.r.Context(), request)
	if err != nil {
		return err
	}
	x.answer(http.StatusOK, reply)
	return nil
}

func (s *Service) getStatus(x *exchange) error {
	x.answer(http.StatusOK, s.Status())
	return nil
}

// Health is the answer of /healthz and /readyz.
type Health struct {
	Status string `json:"status"`
}

func (s *Service) getHealth(x *exchange) error {
	x.answer(http.StatusOK, Health{"ok"})
	return nil
}

func (s *Service) getReady(x *exchange) error {
	if troubles := s.troubles(); len(troubles) > 0 {
		return errorOf("NOT_READY", strings.Join(troubles, "; "))
	}
	x.answer(http.StatusOK, Health{"ready"})
	return nil
}
