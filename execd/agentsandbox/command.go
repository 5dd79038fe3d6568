package agentsandbox

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"strings"
	"syscall"
	"time"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/policy"
)

// order is a command that passed the checks, in policy's words. Its network is its sandbox's.
func (f *Facade) order(ctx context.Context, caller policy.Caller, argv []string, env map[string]string, cwd string, timeout time.Duration) (policy.Request, error) {
	box, err := f.where(ctx, caller)
	if err != nil {
		return policy.Request{}, err
	}
	if timeout == 0 {
		timeout = f.config.LongestCommand
	}
	r := policy.Request{
		Action: policy.ActionExec, Caller: caller, Sandbox: box, NetworkInherited: true,
		Limits:  policy.Limits{TimeoutSeconds: max(timeout.Seconds(), 0.001), OutputBytes: f.config.OutputBytes},
		Command: policy.Command{Argv: argv, Env: env},
	}
	if r.Command.Cwd, err = f.inside(cwd); err != nil {
		return r, err
	}
	return r, r.Validate()
}

// inside is a path of a client's, which is relative to the base also when it begins with a slash. One that leads out of it is refused.
func (f *Facade) inside(name string) (string, error) {
	if strings.ContainsRune(name, 0) {
		return "", faultf(http.StatusBadRequest, codeArgument, "the path has a NUL")
	}
	clean := path.Clean(strings.TrimLeft(name, "/"))
	if clean == ".." || strings.HasPrefix(clean, "../") {
		return "", faultf(http.StatusForbidden, codeForbidden, "%.200q leads out of %s", name, f.config.Base)
	}
	return path.Join(f.config.Base, clean), nil
}

// walk walks a command within what may run at once, until its client goes away or the façade closes.
func (f *Facade) walk(ctx context.Context, r policy.Request, o execd.Options) (execd.Reply, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(f.life, func() { cancel(errClosing) })()
	leave, err := f.service.Admit(ctx)
	if err != nil {
		if o.Stdin != nil {
			o.Stdin.Close()
		}
		return execd.Reply{}, faultf(http.StatusServiceUnavailable, codeUnavailable, "the command got no place to run: %v", err)
	}
	defer leave()
	reply := f.service.Exec(ctx, r, o)
	return reply, noReply(reply)
}

// errTimedOut is a command whose time was over.
var errTimedOut = faultf(http.StatusGatewayTimeout, codeDeadline, "the command took longer than it may, and was killed with all that it had started")

// noReply is the answer to a command that has no end of its own to tell; nil where it has one.
func noReply(r execd.Reply) error {
	switch r.Outcome {
	case execd.OutcomeOK, execd.OutcomeError, execd.OutcomeSignaled, execd.OutcomeOOM:
		return nil
	case execd.OutcomeDenied:
		return faultf(http.StatusForbidden, codeForbidden, "%s", refusal(r.Reasons))
	case execd.OutcomeTimeout:
		return errTimedOut
	case execd.OutcomeNotStarted:
		no := faultf(http.StatusBadRequest, codePrecondition, "%s", r.Message)
		switch {
		case r.BadDirectory():
			no.Code = codeArgument
		case r.Errno == "ENOENT":
			no.Code, no.status = codeNotFound, http.StatusNotFound
		case r.Errno == "EACCES":
			no.Code, no.status = codeForbidden, http.StatusForbidden
		}
		return &notStarted{no, r.ExitStatus()}
	case execd.OutcomeMismatch:
		return faultf(http.StatusInternalServerError, codeInternal, "what is enforced isn't what was planned, so nothing was started: %s", r.Message)
	case execd.OutcomeOutputLimit:
		return faultf(http.StatusInsufficientStorage, codeExhausted, "the command wrote more than policy allows, and was killed")
	case execd.OutcomeCancelled:
		return faultf(http.StatusServiceUnavailable, codeAborted, "the command was ended: %s", r.Message)
	}
	return faultf(http.StatusInternalServerError, codeInternal, "%s: %s", r.Outcome, r.Message)
}

// notStarted is a program that couldn't be executed, with the status that a shell would give it.
type notStarted struct {
	*fault
	status int
}

// Unwrap lets it be answered as the fault that it is.
func (n *notStarted) Unwrap() error { return n.fault }

// exitOf is the status of a command that ended; signaled is that of one that died of a signal.
func exitOf(r execd.Reply, signaled func(signal int) int) int {
	switch {
	case r.ExitCode != nil:
		return *r.ExitCode
	case r.Signal != nil:
		return signaled(*r.Signal)
	}
	return signaled(int(syscall.SIGKILL))
}

// notices are lines for stderr about what the program couldn't say itself.
func notices(r execd.Reply) string {
	var text string
	if r.Outcome == execd.OutcomeOOM {
		text += "sandboxd: killed: out of memory\n"
	}
	for _, cut := range []struct {
		name string
		cut  bool
		all  int64
	}{{"stdout", r.Truncated.Stdout, r.Bytes.Stdout}, {"stderr", r.Truncated.Stderr, r.Bytes.Stderr}} {
		if cut.cut {
			text += fmt.Sprintf("sandboxd: %s is cut: the command wrote %d bytes\n", cut.name, cut.all)
		}
	}
	return text
}
