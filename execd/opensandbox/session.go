package opensandbox

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/execd"
)

// session is a shell whose directory and exported variables go on from run to run. Each run is a command of its own, walked like any other: what goes on is
// what it hands over at its end.
type session struct {
	id string
	// life ends when the session is deleted, or its sandbox ends.
	life context.Context
	end  context.CancelCauseFunc
	// turn is had by the run that is going on.
	turn chan struct{}

	mu sync.Mutex // guards what follows
	// cwd is absolute, or empty: home. env has NAME=value entries.
	cwd string
	env []string
}

// errSessionDeleted ends what runs in a session that is deleted.
var errSessionDeleted = errors.New("the session was deleted")

func newSession(box *sandbox, id, cwd string) *session {
	s := &session{id: id, cwd: cwd, turn: make(chan struct{}, 1)}
	s.life, s.end = context.WithCancelCause(box.life)
	return s
}

// sessionScript runs a command as a shell goes on from the last: what was exported comes by standard input, whose end the command then sees, and at the end
// directory and exported variables go out by descriptor 3. Nothing of it is in the sandbox's files, or its environment before the command begins.
const sessionScript = `while IFS= read -r -d '' __sandboxd; do export -- "$__sandboxd"; done 2>/dev/null
exec {__sandboxd_aside}>&3 3>&-
trap '{ printf "%s\0" "$PWD"; for __sandboxd in $(compgen -e); do printf "%s=%s\0" "$__sandboxd" "${!__sandboxd}"; done; printf "\0"; } >&"$__sandboxd_aside" 2>/dev/null' EXIT
__sandboxd=$1
set --
eval "$__sandboxd"`

// mostState bounds what a run may hand over.
const mostState = 256 << 10

// postSession makes a session; it may come without a body.
func (f *Facade) postSession(x *exchange) error {
	var wire struct {
		Cwd string `json:"cwd"`
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
	s := newSession(x.box, newID(), absolute(wire.Cwd))
	if err := x.box.addSession(s, f.config.SessionsKept); err != nil {
		return err
	}
	x.answer(http.StatusOK, map[string]string{"session_id": s.id})
	return nil
}

func (box *sandbox) addSession(s *session, most int) error {
	box.mu.Lock()
	defer box.mu.Unlock()
	if len(box.sessions) >= most {
		return faultf(http.StatusBadRequest, execdRuntime, "the sandbox has %d sessions, as many as it may; delete some", most)
	}
	box.sessions[s.id] = s
	return nil
}

func (x *exchange) findSession() (*session, error) {
	x.box.mu.Lock()
	defer x.box.mu.Unlock()
	if s := x.box.sessions[x.values["id"]]; s != nil {
		return s, nil
	}
	return nil, faultf(http.StatusNotFound, execdContext, "there is no session %.64q", x.values["id"])
}

// deleteSession ends what runs in it, too.
func (f *Facade) deleteSession(x *exchange) error {
	s, err := x.findSession()
	if err != nil {
		return err
	}
	x.box.mu.Lock()
	delete(x.box.sessions, s.id)
	x.box.mu.Unlock()
	s.end(errSessionDeleted)
	x.empty()
	return nil
}

// runSession runs a command in a session.
func (f *Facade) runSession(x *exchange) error {
	s, err := x.findSession()
	if err != nil {
		return err
	}
	var wire struct {
		Command string `json:"command"`
		Cwd     string `json:"cwd"`
		Timeout int64  `json:"timeout"`
	}
	if err := x.decode(execdBody, &wire); err != nil {
		return err
	}
	switch {
	case strings.TrimSpace(wire.Command) == "":
		return badBody("command", "empty")
	case wire.Timeout < 0:
		return badBody("timeout", "%d ms: want 0, which is none, or more", wire.Timeout)
	}
	return f.inSession(x, s, wire.Command, absolute(wire.Cwd), time.Duration(wire.Timeout)*time.Millisecond, nil, s.id, nil)
}

// inSession runs a command in a session when it is its turn, and answers with its events. adjust may tighten what is walked.
func (f *Facade) inSession(x *exchange, s *session, command, cwd string, timeout time.Duration, envs map[string]string, id string, adjust func(*job)) error {
	if err := s.take(x.r.Context()); err != nil {
		return err
	}
	defer s.give()
	j, state, err := f.sessionJob(x, s, command, cwd, timeout, envs)
	if err != nil {
		return err
	}
	if adjust != nil {
		adjust(&j)
	}
	return f.foreground(x, j, id, state.keep)
}

// take waits for the session's turn.
func (s *session) take(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-s.life.Done():
		return faultf(http.StatusNotFound, execdContext, "the session was deleted")
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *session) give() { <-s.turn }

// sessionJob is the command of a run, and what takes what it hands over.
func (f *Facade) sessionJob(x *exchange, s *session, command, cwd string, timeout time.Duration, envs map[string]string) (job, *handedOver, error) {
	s.mu.Lock()
	if cwd == "" {
		cwd = s.cwd
	}
	env := strings.Join(s.env, "\x00")
	s.mu.Unlock()
	if env != "" {
		env += "\x00"
	}
	j := job{content: command, life: s.life, request: f.request(x.box, []string{"bash", "-c", sessionScript, "bash", command}, cwd, timeout, envs)}
	j.request.Command.Stdin = []byte(env)
	if err := j.request.Validate(); err != nil {
		return j, nil, asBadBody(err)
	}
	state, err := newHandedOver(s, envs)
	if err != nil {
		return j, nil, err
	}
	j.aside = state.theirs
	return j, state, nil
}

// handedOver is what a run of a session hands over, on its way.
type handedOver struct {
	session *session
	// once are variables of this run alone.
	once         map[string]string
	ours, theirs *os.File
	read         chan []byte
}

func newHandedOver(s *session, once map[string]string) (*handedOver, error) {
	ours, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	h := &handedOver{session: s, once: once, ours: ours, theirs: theirs, read: make(chan []byte, 1)}
	go func() {
		var data []byte
		buffer := make([]byte, 16<<10)
		for len(data) <= mostState && !bytes.HasSuffix(data, []byte("\x00\x00")) {
			n, err := ours.Read(buffer)
			data = append(data, buffer[:n]...)
			if err != nil {
				break
			}
		}
		h.read <- data
	}()
	return h, nil
}

// drop takes nothing of what was handed over.
func (h *handedOver) drop() {
	h.theirs.Close()
	_ = h.ours.SetReadDeadline(time.Now()) // a pipe has deadlines
	<-h.read
	h.ours.Close()
}

// handoverGrace is how long what a run has handed over may take to be read, once the run has ended: it is in the pipe then.
const handoverGrace = time.Second

// keep takes what was handed over into the session: all of it, or nothing of a run that was killed.
func (h *handedOver) keep(execd.Reply) {
	_ = h.ours.SetReadDeadline(time.Now().Add(handoverGrace)) // a pipe has deadlines
	data := <-h.read
	h.ours.Close()
	whole, found := bytes.CutSuffix(data, []byte("\x00\x00"))
	if !found || len(data) > mostState {
		return
	}
	entries := strings.Split(string(whole), "\x00")
	h.session.mu.Lock()
	defer h.session.mu.Unlock()
	if strings.HasPrefix(entries[0], "/") {
		h.session.cwd = entries[0]
	}
	h.session.env = nil
	for _, entry := range entries[1:] {
		name, _, _ := strings.Cut(entry, "=")
		if _, once := h.once[name]; !once && isName(name) && !shellsOwn[name] {
			h.session.env = append(h.session.env, entry)
		}
	}
}

// shellsOwn are variables that each shell sets for itself.
var shellsOwn = map[string]bool{"_": true, "SHLVL": true, "PWD": true, "OLDPWD": true, envsVariable: true}
