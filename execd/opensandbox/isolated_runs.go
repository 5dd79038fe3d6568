package opensandbox

import (
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/execd"
)

// wireIsolatedRun is the body of a run.
type wireIsolatedRun struct {
	Code       string            `json:"code"`
	Envs       map[string]string `json:"envs"`
	Timeout    int64             `json:"timeout_seconds"`
	Background bool              `json:"background"`
}

func (f *Facade) runIsolated(x *exchange, s *isolated) error {
	var wire wireIsolatedRun
	if err := x.decode(execdBody, &wire); err != nil {
		return err
	}
	switch {
	case strings.TrimSpace(wire.Code) == "":
		return badBody("code", "empty")
	case wire.Timeout < 0:
		return badBody("timeout_seconds", "%d: want 0, which is none, or more", wire.Timeout)
	}
	s.mu.Lock()
	s.lastRun = time.Now()
	s.mu.Unlock()
	s.rest(f, x.box)
	timeout := time.Duration(wire.Timeout) * time.Second
	adjust := func(j *job) {
		env := s.spec.Passthrough.passed(x.box.env)
		maps.DeleteFunc(j.request.Command.Env, func(name, _ string) bool {
			_, own := x.box.env[name]
			_, through := env[name]
			_, run := wire.Envs[name]
			return own && !through && !run
		})
		s.tighten(j)
	}
	if wire.Background {
		return f.isolatedBackground(x, s, wire, timeout, adjust)
	}
	return f.inSession(x, s.state, wire.Code, "", timeout, wire.Envs, "", adjust)
}

// isolatedBackground starts a run and answers with its id. It takes no turn of the session's, and what it exports is its own.
func (f *Facade) isolatedBackground(x *exchange, s *isolated, wire wireIsolatedRun, timeout time.Duration, adjust func(*job)) error {
	j, state, err := f.sessionJob(x, s.state, wire.Code, "", timeout, wire.Envs)
	if err != nil {
		return err
	}
	adjust(&j)
	log, err := newOutputLog(f.config.Dir, f.config.LogBytes)
	if err != nil {
		state.drop()
		return err
	}
	leave, err := f.service.Admit(x.r.Context())
	if err != nil {
		state.drop()
		log.close()
		return notAdmitted(err)
	}
	c := s.runs.begin(wire.Code, log)
	accepted, ended := make(chan struct{}), make(chan execd.Reply, 1)
	f.running.Go(func() {
		defer leave()
		reply := f.walk(s.state.life, j, c, log, func() { close(accepted) })
		state.drop()
		log.end()
		s.runs.end(c, endingOf(reply, false))
		ended <- reply
	})
	select {
	case <-accepted:
	case reply := <-ended:
		if no := before(reply); no != nil {
			return no
		}
	}
	x.answer(http.StatusAccepted, struct {
		SessionID string    `json:"session_id"`
		RunID     string    `json:"run_id"`
		StartedAt time.Time `json:"started_at"`
	}{s.id, c.id, c.started.UTC()})
	return nil
}

func (s *isolated) findRun(id string) (*command, error) {
	if c := s.runs.find(id); c != nil {
		return c, nil
	}
	return nil, faultf(http.StatusNotFound, execdContext, "there is no run %.64q", id)
}

func (f *Facade) getIsolatedRun(x *exchange, s *isolated) error {
	c, err := s.findRun(x.values["run"])
	if err != nil {
		return err
	}
	status := c.status()
	x.answer(http.StatusOK, struct {
		SessionID  string     `json:"session_id"`
		RunID      string     `json:"run_id"`
		Running    bool       `json:"running"`
		ExitCode   *int       `json:"exit_code,omitzero"`
		Error      string     `json:"error,omitempty"`
		StartedAt  time.Time  `json:"started_at"`
		FinishedAt *time.Time `json:"finished_at,omitzero"`
	}{s.id, status.ID, status.Running, status.ExitCode, status.Error, status.StartedAt, status.FinishedAt})
	return nil
}

func (f *Facade) getIsolatedLogs(x *exchange, s *isolated) error {
	c, err := s.findRun(x.values["run"])
	if err != nil {
		return err
	}
	return x.answerLog(c.log)
}
