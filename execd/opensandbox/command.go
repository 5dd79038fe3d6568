package opensandbox

import (
	"context"
	"encoding/json/jsontext"
	"maps"
	"net/http"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/policy"
)

// wireCommand is the body of POST /command.
type wireCommand struct {
	Command    *string           `json:"command"`
	Argv       []string          `json:"argv"`
	Cwd        string            `json:"cwd"`
	Background bool              `json:"background"`
	Timeout    int64             `json:"timeout"`
	UID        *int64            `json:"uid"`
	GID        *int64            `json:"gid"`
	Envs       map[string]string `json:"envs"`
	Pty        jsontext.Value    `json:"pty"`
}

// job is a command that passed the checks: what is to be walked, and what it is called.
type job struct {
	request policy.Request
	content string
	// life is what it ends with; nil: its sandbox's. aside is one more descriptor of its program.
	life  context.Context
	aside *os.File
	// shell says that it is a text for bash, or for sh where that isn't there.
	shell bool
}

// interruptGrace is how long a tree has for ending by itself.
const interruptGrace = 3 * time.Second

// postCommand runs a command: in the foreground its events are the answer.
func (f *Facade) postCommand(x *exchange) error {
	var wire wireCommand
	if err := x.decode(execdBody, &wire); err != nil {
		return err
	}
	j, err := f.parseCommand(x.box, wire)
	if err != nil {
		return err
	}
	if wire.Background {
		return f.background(x, j)
	}
	return f.foreground(x, j, "", nil)
}

// parseCommand checks a command.
func (f *Facade) parseCommand(box *sandbox, w wireCommand) (job, error) {
	j := job{}
	switch {
	case (w.Command != nil) == (len(w.Argv) > 0):
		return j, badBody("command", "want exactly one of command and argv")
	case w.Command != nil && strings.TrimSpace(*w.Command) == "":
		return j, badBody("command", "empty")
	case w.Command == nil && w.Argv[0] == "":
		return j, badBody("argv", "the program is empty")
	case w.Timeout < 0:
		return j, badBody("timeout", "%d ms: want 0, which is none, or more", w.Timeout)
	case w.GID != nil && w.UID == nil:
		return j, badBody("gid", "uid is missing")
	}
	argv := w.Argv
	if j.content = quoted(argv); w.Command != nil {
		j.content, j.shell, argv = *w.Command, true, []string{"bash", "-c", *w.Command}
	}
	context := box.context
	if w.UID != nil {
		context.RunAsUser = w.UID
		context.RunAsGroup = w.GID
	}
	j.request = f.request(box, argv, w.Cwd, time.Duration(w.Timeout)*time.Millisecond, w.Envs)
	j.request.SecurityContext = context
	if err := j.request.Validate(); err != nil {
		return j, asBadBody(err)
	}
	return j, nil
}

// request is a command of a sandbox in policy's words. Its network is the sandbox's, and what it leaves behind lives until that ends.
func (f *Facade) request(box *sandbox, argv []string, cwd string, timeout time.Duration, envs map[string]string) policy.Request {
	return policy.Request{
		Action: policy.ActionExec, Caller: box.caller, Sandbox: box.inner, NetworkInherited: true, SecurityContext: box.context, Limits: f.limits(box, timeout),
		Command: policy.Command{Argv: argv, Env: f.environment(box, envs), Cwd: absolute(cwd), LeaveChildren: true},
	}
}

// environment is that of a program: the sandbox's, what its programs have set for those after them, and what was asked for this one.
func (f *Facade) environment(box *sandbox, envs map[string]string) map[string]string {
	env := map[string]string{}
	maps.Copy(env, box.env)
	maps.Copy(env, f.variables(box.life, box))
	env[envsVariable] = envsFile
	maps.Copy(env, envs)
	return env
}

// limits are those of a program that may run so long; 0: as long as any may.
func (f *Facade) limits(box *sandbox, timeout time.Duration) policy.Limits {
	limits := box.limits
	if limits.TimeoutSeconds = timeout.Seconds(); timeout == 0 {
		limits.TimeoutSeconds = f.config.LongestCommand.Seconds()
	}
	return limits
}

// The file that persisted variables are appended to, and the variable that names it.
const (
	envsVariable = "EXECD_ENVS"
	envsFile     = home + "/.execd-envs"
)

// absolute is a directory as commands mean it: ~ is their home, and so is where a relative one begins.
func absolute(cwd string) string {
	switch {
	case cwd == "" || cwd[0] == '/':
		return cwd
	case cwd == "~":
		return home
	}
	return path.Join(home, strings.TrimPrefix(cwd, "~/"))
}

// quoted is an argv as a person would type it.
func quoted(argv []string) string {
	var texts []string
	for _, text := range argv {
		if text == "" || strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%") != "" {
			text = "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, " ")
}

// foreground answers with the events of a command. It runs on when the client goes; it ends with the sandbox. id is what its first event says, its own where
// that is empty; ended hears of its end before the client does, in any case.
func (f *Facade) foreground(x *exchange, j job, id string, ended func(execd.Reply)) error {
	leave, err := f.service.Admit(x.r.Context())
	if err != nil {
		if j.aside != nil {
			j.aside.Close()
		}
		if ended != nil {
			ended(execd.Reply{})
		}
		return notAdmitted(err)
	}
	defer leave()
	c := x.box.commands.begin(j.content, nil)
	if j.life == nil {
		j.life = x.box.life
	}
	if id == "" {
		id = c.id
	}
	s := newStream(x.w, id, f.config.StallTimeout, j.life.Done())
	reply := f.walk(j.life, j, c, s, s.begin)
	if ended != nil {
		ended(reply)
	}
	how := endingOf(reply, c.interrupted())
	if no := before(reply); no != nil && !x.w.Begun {
		x.box.commands.forget(c)
		return no
	}
	x.box.commands.end(c, how)
	s.finish(how)
	return nil
}

// walk walks a command, with sh where there is no bash.
func (f *Facade) walk(ctx context.Context, j job, c *command, sink execd.Sink, accepted func()) execd.Reply {
	started := f.start(ctx)
	defer started()
	options := execd.Options{
		Unkept: true, Sink: sink, Aside: j.aside, Interrupt: c.stop, InterruptGrace: interruptGrace,
		Accepted: func(string, int64) { started(); accepted() },
	}
	reply := f.service.Exec(ctx, j.request, options)
	if j.shell && reply.Outcome == execd.OutcomeNotStarted && reply.Errno == "ENOENT" && !reply.BadDirectory() {
		j.request.Command.Argv = append([]string{"sh"}, j.request.Command.Argv[1:]...)
		return f.service.Exec(ctx, j.request, options)
	}
	return reply
}

// start waits until a command may start. Many that come at once start a few at a time, and then run beside each other: all at once would make each other
// late for the bounds of a start. started lets the next.
func (f *Facade) start(ctx context.Context) (started func()) {
	select {
	case f.starts <- struct{}{}:
		return sync.OnceFunc(func() { <-f.starts })
	case <-ctx.Done():
		return func() {} // the walk says so
	}
}

// background starts a command, answers that it has, and lets it run.
func (f *Facade) background(x *exchange, j job) error {
	log, err := newOutputLog(f.config.Dir, f.config.LogBytes)
	if err != nil {
		return err
	}
	leave, err := f.service.Admit(x.r.Context())
	if err != nil {
		log.close()
		return notAdmitted(err)
	}
	c := x.box.commands.begin(j.content, log)
	box, accepted, ended := x.box, make(chan struct{}), make(chan execd.Reply, 1)
	f.running.Go(func() {
		defer leave()
		reply := f.walk(box.life, j, c, log, func() { close(accepted) })
		log.end()
		box.commands.end(c, endingOf(reply, c.interrupted()))
		ended <- reply
	})
	s := newStream(x.w, c.id, f.config.StallTimeout, x.box.life.Done())
	select {
	case <-accepted:
		s.finish(ending{})
		return nil
	case reply := <-ended:
		select {
		case <-accepted: // it was both
			s.finish(ending{})
			return nil
		default:
		}
		if no := before(reply); no != nil {
			return no
		}
		s.finish(endingOf(reply, false))
		return nil
	}
}

// findCommand is the command of an id.
func (x *exchange) findCommand(id string) (*command, error) {
	if c := x.box.commands.find(id); c != nil {
		return c, nil
	}
	return nil, faultf(http.StatusNotFound, "COMMAND_NOT_FOUND", "there is no command %.64q", id)
}

// deleteCommand interrupts a command.
func (f *Facade) deleteCommand(x *exchange) error {
	id := x.r.URL.Query().Get("id")
	if id == "" {
		return faultf(http.StatusBadRequest, execdQuery, "id: missing")
	}
	c, err := x.findCommand(id)
	if err != nil {
		return err
	}
	if !c.interrupt() {
		return faultf(http.StatusNotFound, "COMMAND_NOT_FOUND", "the command %s has ended", id)
	}
	x.empty()
	return nil
}

// wireCommandStatus is a command as it is.
type wireCommandStatus struct {
	ID         string     `json:"id"`
	Content    string     `json:"content"`
	Running    bool       `json:"running"`
	ExitCode   *int       `json:"exit_code,omitzero"`
	Error      string     `json:"error,omitempty"`
	StartedAt  time.Time  `json:"started_at"`
	FinishedAt *time.Time `json:"finished_at,omitzero"`
}

func (c *command) status() wireCommandStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := wireCommandStatus{ID: c.id, Content: c.content, Running: c.ended.IsZero(), StartedAt: c.started.UTC()}
	if !s.Running {
		at, code := c.ended.UTC(), c.how.code
		if s.FinishedAt, s.ExitCode = &at, &code; code != 0 {
			s.Error = c.how.trace
		}
	}
	return s
}

func (f *Facade) getCommandStatus(x *exchange) error {
	c, err := x.findCommand(x.values["id"])
	if err != nil {
		return err
	}
	x.answer(http.StatusOK, c.status())
	return nil
}

// headerCursor says where what was answered of a log ends.
const headerCursor = "Execd-Commands-Tail-Cursor"

// getCommandLogs answers with the output of a background command from an offset on.
func (f *Facade) getCommandLogs(x *exchange) error {
	c, err := x.findCommand(x.values["id"])
	if err != nil {
		return err
	}
	if c.log == nil {
		return faultf(http.StatusNotFound, "COMMAND_NOT_FOUND", "the command %s ran in the foreground: its output went to who ran it", c.id)
	}
	return x.answerLog(c.log)
}

// answerLog answers with a log from the cursor in the query on. One that isn't a number is 0.
func (x *exchange) answerLog(log *outputLog) error {
	cursor, _ := strconv.ParseInt(x.r.URL.Query().Get("cursor"), 10, 64)
	data, end, err := log.from(cursor)
	if err != nil {
		return faultf(http.StatusInternalServerError, execdRuntime, "the log can't be read: %v", err)
	}
	header := x.w.Header()
	header.Set("Content-Type", "text/plain; charset=utf-8")
	header.Set("Content-Length", strconv.Itoa(len(data)))
	header.Set(headerCursor, strconv.FormatInt(end, 10))
	x.bounded(func() {
		x.w.WriteHeader(http.StatusOK)
		_, _ = x.w.Write(data) // a client that has gone has no use for it
	})
	return nil
}
