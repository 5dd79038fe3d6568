package opensandbox

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/policy"
)

// codeContext is a code context of a sandbox: an interpreter of its own, that runs one cell after another.
type codeContext struct {
	id       string
	language string
	created  time.Time
	// env and cwd are what it was started with.
	env   map[string]string
	cwd   string
	inner *execd.CodeContext
	// life ends with it.
	life context.Context
	end  context.CancelCauseFunc
	// turn is had by the cell that runs, and asked has a place for it and for each that waits.
	turn  chan struct{}
	asked chan struct{}
}

// codeContexts are those of one sandbox.
type codeContexts struct {
	most int
	// opening is had by who starts a default one.
	opening chan struct{}

	mu  sync.Mutex // guards what follows
	all map[string]*codeContext
	// starting are places for those that will be in all.
	starting int
	// standard is the one of cells that name none; nil: there is none now.
	standard *codeContext
}

func newCodeContexts(most int) *codeContexts {
	return &codeContexts{most: most, opening: make(chan struct{}, 1), all: map[string]*codeContext{}}
}

// errContextDeleted ends what runs in a context that is deleted.
var errContextDeleted = errors.New("the code context was deleted")

// checkLanguage refuses languages that have no interpreter here.
func checkLanguage(field, language string) error {
	switch language {
	case policy.LanguagePython:
		return nil
	case "":
		return badBody(field, "missing: want %q", policy.LanguagePython)
	}
	return faultf(http.StatusBadRequest, execdLacks, "%s: %.40q has no code contexts here; %s has, and whatever the image has is run by commands and sessions", field, language, policy.LanguagePython)
}

// wireContext is a context in answers.
type wireContext struct {
	ID       string `json:"id"`
	Language string `json:"language"`
}

func (c *codeContext) wire() wireContext { return wireContext{c.id, c.language} }

// postCodeContext starts an interpreter.
func (f *Facade) postCodeContext(x *exchange) error {
	var wire struct {
		Language string `json:"language"`
		Cwd      string `json:"cwd"`
	}
	if err := x.decode(execdBody, &wire); err != nil {
		return err
	}
	if err := checkLanguage("language", wire.Language); err != nil {
		return err
	}
	c, err := f.openContext(x, absolute(wire.Cwd))
	if err != nil {
		return err
	}
	x.answer(http.StatusOK, c.wire())
	return nil
}

// openContext starts the interpreter of a context, through the gate and to where it waits.
func (f *Facade) openContext(x *exchange, cwd string) (*codeContext, error) {
	all := x.box.contexts
	if err := all.reserve(); err != nil {
		return nil, err
	}
	c := &codeContext{
		id: newID(), language: policy.LanguagePython, created: time.Now(), env: f.environment(x.box, nil), cwd: cwd,
		turn: make(chan struct{}, 1), asked: make(chan struct{}, f.config.CellsQueued+1),
	}
	c.life, c.end = context.WithCancelCause(x.box.life)
	if err := f.startContext(x, c); err != nil {
		c.end(err)
		all.give(nil)
		return nil, err
	}
	all.give(c)
	f.running.Go(func() {
		<-c.inner.Ended()
		c.end(nil)
		all.remove(c)
	})
	return c, nil
}

func (f *Facade) startContext(x *exchange, c *codeContext) error {
	request := f.cell(x.box, c, "", 0)
	if err := request.Validate(); err != nil {
		return asBadBody(err)
	}
	leave, err := f.service.Admit(x.r.Context())
	if err != nil {
		return notAdmitted(err)
	}
	defer leave()
	started := f.start(x.r.Context())
	defer started()
	var reply execd.Reply
	if c.inner, reply = f.service.OpenContext(c.life, request); c.inner == nil {
		return notOpened(reply)
	}
	return nil
}

// notOpened is the answer to a context whose interpreter didn't come to be.
func notOpened(r execd.Reply) error {
	if no := before(r); no != nil {
		return no
	}
	switch {
	case r.Outcome == execd.OutcomeDenied:
		return faultf(http.StatusBadRequest, codeDenied, "%s", reasonsText(r.Reasons))
	case r.Outcome == execd.OutcomeNotStarted && r.Errno == "ENOENT":
		return faultf(http.StatusBadRequest, execdLacks, "the sandbox has no python3 on its PATH: make it of an image that has one, or name the directory in the create's env")
	}
	how := endingOf(r, false)
	return faultf(http.StatusInternalServerError, execdRuntime, "the interpreter has ended before its first cell: %s", how.trace)
}

// reserve keeps a place for one that is started.
func (s *codeContexts) reserve() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all)+s.starting >= s.most {
		return faultf(http.StatusBadRequest, execdRuntime, "the sandbox has %d code contexts, as many as it may; delete some", s.most)
	}
	s.starting++
	return nil
}

// give gives the place to one that was started, or back.
func (s *codeContexts) give(c *codeContext) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starting--
	if c != nil {
		s.all[c.id] = c
	}
}

func (s *codeContexts) remove(c *codeContext) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, c.id)
	if s.standard == c {
		s.standard = nil
	}
}

func (s *codeContexts) find(id string) (*codeContext, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.all[id]; c != nil {
		return c, nil
	}
	return nil, faultf(http.StatusNotFound, execdContext, "there is no code context %.64q: it was deleted, or its interpreter has ended", id)
}

// of lists those of a language, oldest first; empty: of all.
func (s *codeContexts) of(language string) []*codeContext {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []*codeContext{}
	for _, c := range s.all {
		if language == "" || c.language == language {
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(a, b *codeContext) int {
		if order := a.created.Compare(b.created); order != 0 {
			return order
		}
		return strings.Compare(a.id, b.id)
	})
	return list
}

// standardContext is the one of cells that name none, which is started when there is none.
func (f *Facade) standardContext(x *exchange) (*codeContext, error) {
	all := x.box.contexts
	select {
	case all.opening <- struct{}{}:
		defer func() { <-all.opening }()
	case <-x.r.Context().Done():
		return nil, context.Cause(x.r.Context())
	}
	all.mu.Lock()
	c := all.standard
	all.mu.Unlock()
	if c != nil {
		return c, nil
	}
	c, err := f.openContext(x, "")
	if err != nil {
		return nil, err
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.all[c.id] == c { // else it has ended already
		all.standard = c
	}
	return c, nil
}

func (f *Facade) listCodeContexts(x *exchange) error {
	list := []wireContext{}
	for _, c := range x.box.contexts.of(x.r.URL.Query().Get("language")) {
		list = append(list, c.wire())
	}
	x.answer(http.StatusOK, list)
	return nil
}

func (f *Facade) getCodeContext(x *exchange) error {
	c, err := x.box.contexts.find(x.values["id"])
	if err != nil {
		return err
	}
	x.answer(http.StatusOK, c.wire())
	return nil
}

func (f *Facade) deleteCodeContext(x *exchange) error {
	c, err := x.box.contexts.find(x.values["id"])
	if err != nil {
		return err
	}
	f.endContext(x.box, c)
	x.empty()
	return nil
}

func (f *Facade) deleteCodeContexts(x *exchange) error {
	language := x.r.URL.Query().Get("language")
	if language == "" {
		return faultf(http.StatusBadRequest, execdQuery, "language: missing")
	}
	for _, c := range x.box.contexts.of(language) {
		f.endContext(x.box, c)
	}
	x.empty()
	return nil
}

// endContext ends a context, and what runs in it, and returns when nothing of it is left.
func (f *Facade) endContext(box *sandbox, c *codeContext) {
	box.contexts.remove(c)
	c.end(errContextDeleted)
	<-c.inner.Ended()
}
