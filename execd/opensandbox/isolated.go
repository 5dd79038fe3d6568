package opensandbox

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json/jsontext"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/policy"
)

// isolated is an isolated session: each of its runs is a command, confined as every command is, and tighter where that was asked for.
type isolated struct {
	id      string
	created time.Time
	spec    wireIsolated
	// state goes on from run to run, as a shell session's does.
	state *session
	// runs are those in the background.
	runs *commands

	mu      sync.Mutex // guards what follows
	lastRun time.Time
	idle    *time.Timer
}

// wireIsolated is what an isolated session was made with; answers echo it.
type wireIsolated struct {
	Workspace     *wireWorkspace   `json:"workspace,omitzero"`
	Overlays      []wireOverlay    `json:"overlays,omitempty"`
	Profile       string           `json:"profile,omitempty"`
	ExtraWritable []string         `json:"extra_writable,omitempty"`
	Binds         []jsontext.Value `json:"binds,omitempty"`
	ShareNet      *bool            `json:"share_net,omitzero"`
	Passthrough   *wirePassthrough `json:"env_passthrough,omitzero"`
	UID           *int64           `json:"uid,omitzero"`
	GID           *int64           `json:"gid,omitzero"`
	UIDMode       string           `json:"uid_mode,omitempty"`
	IdleSeconds   int64            `json:"idle_timeout_seconds,omitzero"`
}

type wireWorkspace struct {
	Path string `json:"path"`
	Mode string `json:"mode,omitempty"`
}

type wireOverlay struct {
	Path    string `json:"path"`
	Mode    string `json:"mode,omitempty"`
	Persist *bool  `json:"persist,omitzero"`
}

type wirePassthrough struct {
	Mode string   `json:"mode"`
	Keys []string `json:"keys"`
}

// The modes of a workspace.
const (
	modeReadWrite = "rw"
	modeReadOnly  = "ro"
)

// refuse is an option that can't be kept here.
func refuse(field, why string) error {
	return faultf(http.StatusBadRequest, execdLacks, "%s: %s", field, why)
}

// check refuses what can't be kept, and gives the one directory that the session is about.
func (w *wireIsolated) check() (wireWorkspace, error) {
	var at []wireWorkspace
	if w.Workspace != nil {
		at = append(at, *w.Workspace)
	}
	for _, overlay := range w.Overlays {
		if overlay.Persist != nil {
			return wireWorkspace{}, refuse("overlays.persist", "copies on write aren't served; want mode rw or ro")
		}
		at = append(at, wireWorkspace{overlay.Path, overlay.Mode})
	}
	switch {
	case len(at) == 0:
		return wireWorkspace{}, badBody("workspace", "want a workspace, or overlays")
	case len(at) > 1:
		return wireWorkspace{}, refuse("overlays", "one directory a session is served")
	case w.Profile != "" && w.Profile != "strict" && w.Profile != "balanced":
		return wireWorkspace{}, badBody("profile", "%.40q: want strict or balanced", w.Profile)
	case len(w.Binds) > 0:
		return wireWorkspace{}, refuse("binds", "not served: a session sees what its sandbox sees")
	case w.UIDMode != "" && w.UIDMode != "setpriv":
		return wireWorkspace{}, refuse("uid_mode", "setpriv is served: ids change, and are read back, before a command's first instruction")
	case w.GID != nil && w.UID == nil:
		return wireWorkspace{}, badBody("gid", "uid is missing")
	case w.IdleSeconds < 0:
		return wireWorkspace{}, badBody("idle_timeout_seconds", "%d: want 0, which is none, or more", w.IdleSeconds)
	case w.Passthrough != nil && w.Passthrough.Mode != "allow" && w.Passthrough.Mode != "deny":
		return wireWorkspace{}, badBody("env_passthrough.mode", "%.40q: want allow or deny", w.Passthrough.Mode)
	}
	space := at[0]
	if space.Mode == "" {
		space.Mode = modeReadWrite
	}
	switch {
	case !path.IsAbs(space.Path):
		return space, badBody("workspace.path", "%.200q: want an absolute path", space.Path)
	case space.Mode == "overlay":
		return space, refuse("workspace.mode", "overlay isn't served; want rw or ro")
	case space.Mode != modeReadWrite && space.Mode != modeReadOnly:
		return space, badBody("workspace.mode", "%.40q: want rw or ro", space.Mode)
	case space.Mode == modeReadOnly && len(w.ExtraWritable) > 0:
		return space, refuse("extra_writable", "a read-only session writes nowhere")
	}
	for _, extra := range w.ExtraWritable {
		if !beneath(extra, "/work") && !beneath(extra, "/tmp") {
			return space, refuse("extra_writable", extra+": a sandbox writes beneath /work and /tmp")
		}
	}
	return space, nil
}

func beneath(name, directory string) bool {
	name = path.Clean(name)
	return name == directory || strings.HasPrefix(name, directory+"/")
}

// newUUID is a random UUID (RFC 9562, version 4).
func newUUID() string {
	var id [16]byte
	rand.Read(id[:])
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return asUUID(hex.EncodeToString(id[:]))
}

// isolatedRoutes is the isolated API. What names files is in files_routes.go.
func (f *Facade) isolatedRoutes() []route {
	with := func(handle func(*exchange, *isolated) error) func(*exchange) error {
		return func(x *exchange) error {
			s, err := x.findIsolated()
			if err != nil {
				return err
			}
			return handle(x, s)
		}
	}
	return []route{
		{"GET", "/v1/isolated/capabilities", f.getCapabilities},
		{"POST", "/v1/isolated/session", f.postIsolated},
		{"GET", "/v1/isolated/sessions", f.listIsolated},
		{"GET", "/v1/isolated/session/{id}", with(f.getIsolated)},
		{"DELETE", "/v1/isolated/session/{id}", with(f.deleteIsolated)},
		{"POST", "/v1/isolated/session/{id}/run", with(f.runIsolated)},
		{"GET", "/v1/isolated/session/{id}/runs/{run}", with(f.getIsolatedRun)},
		{"GET", "/v1/isolated/session/{id}/runs/{run}/logs", with(f.getIsolatedLogs)},
		{"POST", "/v1/isolated/session/{id}/commit", noOverlay},
		{"GET", "/v1/isolated/session/{id}/diff", noOverlay},
	}
}

func noOverlay(*exchange) error {
	return faultf(http.StatusServiceUnavailable, execdLacks, "there are no overlays here: what a session writes is written")
}

func (x *exchange) findIsolated() (*isolated, error) {
	x.box.mu.Lock()
	defer x.box.mu.Unlock()
	if s := x.box.isolated[x.values["id"]]; s != nil {
		return s, nil
	}
	return nil, faultf(http.StatusNotFound, execdContext, "there is no isolated session %.64q", x.values["id"])
}

// postIsolated makes a session. Nothing runs yet: what confines it is asked for, and read back, with each run.
func (f *Facade) postIsolated(x *exchange) error {
	var wire wireIsolated
	if err := x.decode(execdBody, &wire); err != nil {
		return err
	}
	space, err := wire.check()
	if err != nil {
		return err
	}
	s := &isolated{id: newUUID(), created: time.Now(), lastRun: time.Now(), spec: wire, runs: newCommands(f.config.CommandsKept)}
	s.state = newSession(x.box, s.id, space.Path)
	x.box.mu.Lock()
	if len(x.box.isolated) >= f.config.SessionsKept {
		x.box.mu.Unlock()
		return faultf(http.StatusBadRequest, execdRuntime, "the sandbox has %d isolated sessions, as many as it may; delete some", f.config.SessionsKept)
	}
	x.box.isolated[s.id] = s
	x.box.mu.Unlock()
	s.rest(f, x.box)
	x.answer(http.StatusCreated, struct {
		SessionID string    `json:"session_id"`
		CreatedAt time.Time `json:"created_at"`
		wireIsolated
	}{s.id, s.created.UTC(), wire})
	return nil
}

// rest has the session end by itself when nothing is run in it for as long as it was made for.
func (s *isolated) rest(f *Facade, box *sandbox) {
	if s.spec.IdleSeconds == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.idle != nil {
		s.idle.Stop()
	}
	s.idle = time.AfterFunc(time.Duration(s.spec.IdleSeconds)*time.Second, func() { f.removeIsolated(box, s) })
}

// left is how many seconds until then; nil where it isn't made for that.
func (s *isolated) left() *int64 {
	if s.spec.IdleSeconds == 0 {
		return nil
	}
	left := max(int64(time.Until(s.lastRun.Add(time.Duration(s.spec.IdleSeconds)*time.Second))/time.Second), 0)
	return &left
}

// removeIsolated ends a session, and what runs in it.
func (f *Facade) removeIsolated(box *sandbox, s *isolated) {
	box.mu.Lock()
	delete(box.isolated, s.id)
	box.mu.Unlock()
	s.mu.Lock()
	if s.idle != nil {
		s.idle.Stop()
	}
	s.mu.Unlock()
	s.state.end(errSessionDeleted)
	s.runs.close()
}

func (f *Facade) deleteIsolated(x *exchange, s *isolated) error {
	f.removeIsolated(x.box, s)
	x.empty()
	return nil
}

func (f *Facade) getIsolated(x *exchange, s *isolated) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	x.answer(http.StatusOK, struct {
		Status    string    `json:"status"`
		CreatedAt time.Time `json:"created_at"`
		LastRunAt time.Time `json:"last_run_at"`
		Idle      *int64    `json:"idle_remaining_seconds,omitzero"`
		wireIsolated
	}{"active", s.created.UTC(), s.lastRun.UTC(), s.left(), s.spec})
	return nil
}

func (f *Facade) listIsolated(x *exchange) error {
	type summary struct {
		SessionID string    `json:"session_id"`
		Status    string    `json:"status"`
		CreatedAt time.Time `json:"created_at"`
		LastRunAt time.Time `json:"last_run_at"`
		Idle      *int64    `json:"idle_remaining_seconds,omitzero"`
	}
	x.box.mu.Lock()
	all := slices.Collect(maps.Values(x.box.isolated))
	x.box.mu.Unlock()
	slices.SortFunc(all, func(a, b *isolated) int { return a.created.Compare(b.created) })
	list := []summary{}
	for _, s := range all {
		s.mu.Lock()
		list = append(list, summary{s.id, "active", s.created.UTC(), s.lastRun.UTC(), s.left()})
		s.mu.Unlock()
	}
	x.answer(http.StatusOK, map[string]any{"sessions": list})
	return nil
}

// tighten makes a command of the session's sandbox one of the session.
func (s *isolated) tighten(j *job) {
	r := &j.request
	if space, err := s.spec.check(); err != nil || space.Mode == modeReadOnly {
		r.Command.ReadOnly = true
	}
	if s.spec.ShareNet != nil && !*s.spec.ShareNet {
		r.NetworkInherited, r.Network = false, policy.NetworkSpec{DefaultAction: policy.NetworkDeny}
	}
	if s.spec.UID != nil {
		r.SecurityContext.RunAsUser, r.SecurityContext.RunAsGroup = s.spec.UID, s.spec.GID
	}
	r.Command.LeaveChildren = false // a run's tree ends with it
}

// passed are the sandbox's own variables that a session lets through. Those that every command has anyway are no variables of the sandbox's.
func (p *wirePassthrough) passed(env map[string]string) map[string]string {
	if p == nil {
		return env
	}
	through := map[string]string{}
	for name, value := range env {
		if slices.Contains(p.Keys, name) == (p.Mode == "allow") {
			through[name] = value
		}
	}
	return through
}

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

// wireCapabilities says what confines a session, by what was read back of a command just now.
type wireCapabilities struct {
	Available bool           `json:"available"`
	Isolator  string         `json:"isolator,omitempty"`
	Message   string         `json:"message,omitempty"`
	Setpriv   bool           `json:"setpriv_available"`
	UserNS    bool           `json:"userns_available"`
	Commit    bool           `json:"commit_supported"`
	Diff      bool           `json:"diff_supported"`
	Hardening *wireHardening `json:"hardening,omitzero"`
}

type wireHardening struct {
	InitMode     string    `json:"init_mode"`
	SignalShield bool      `json:"signal_shield"`
	CapDrop      wireLayer `json:"cap_drop"`
	Seccomp      wireLayer `json:"seccomp"`
	Landlock     wireLayer `json:"landlock"`
	EBPF         wireLayer `json:"ebpf"`
}

type wireLayer struct {
	State   string `json:"state"`
	Message string `json:"message,omitempty"`
}

// getCapabilities runs the smallest command there is, confined as all are, and tells what the kernel said of it at its gate.
func (f *Facade) getCapabilities(x *exchange) error {
	ctx, cancel := context.WithCancel(x.r.Context())
	defer cancel()
	leave, err := f.service.Admit(ctx)
	if err != nil {
		return notAdmitted(err)
	}
	defer leave()
	r := f.request(x.box, []string{"true"}, "", time.Minute, nil)
	r.Command.LeaveChildren = false
	reply := f.service.Exec(ctx, r, execd.Options{Rows: true})
	if reply.Outcome != execd.OutcomeOK || !reply.Verdict.Held {
		message := reply.Message
		if len(reply.Reasons) > 0 {
			message = reasonsText(reply.Reasons)
		}
		x.answer(http.StatusOK, wireCapabilities{Message: "a command of the sandbox didn't run: " + string(reply.Outcome) + ": " + message})
		return nil
	}
	x.answer(http.StatusOK, wireCapabilities{
		Available: true, Isolator: "sandboxd", Setpriv: true,
		Hardening: &wireHardening{
			InitMode:     "pid1", // each sandbox has its launcher for that, and no command is it
			SignalShield: layer(reply.Verdict.Rows, "signals", "namespaces.pid", "namespace.pid", "landlock.scope.signal", "uid").State == "active",
			CapDrop:      layer(reply.Verdict.Rows, "capabilities", "cap"),
			Seccomp:      layer(reply.Verdict.Rows, "seccomp", "seccomp"),
			Landlock:     layer(reply.Verdict.Rows, "Landlock", "landlock"),
			EBPF:         wireLayer{"unsupported", "not used: what is confined is confined by the mechanisms above"},
		},
	})
	return nil
}

// layer is active where rows about it were read back and all of them hold.
func layer(rows []policy.Row, name string, prefixes ...string) wireLayer {
	found, held := false, true
	for _, row := range rows {
		if slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(row.Control, prefix) }) {
			found, held = true, held && row.Held
		}
	}
	switch {
	case !found:
		return wireLayer{"unsupported", "nothing about " + name + " was read back"}
	case !held:
		return wireLayer{"degraded", "what was read back of " + name + " isn't as planned"}
	}
	return wireLayer{State: "active"}
}
