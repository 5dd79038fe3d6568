package execd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/enforcer/landlock"
	"github.com/sandboxd/sandboxd/enforcer/mount"
	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/runner/python"
)

// waiter is an interpreter that is started ahead: a walk of its own, which has come past execve and stays there.
type waiter struct {
	walk *walk
	set  Prewarm
	io   *python.Waiter
	// exe and threads are what was read when it came to wait. Nothing of it changes while it does.
	exe     string
	threads int
	bytes   int64 // of memory that it alone has
}

// aheadRequest is what an interpreter is started as: a run of its imports, with nothing else of another's but what confines it.
func aheadRequest(r policy.Request, imports []string) policy.Request {
	code := ""
	if len(imports) > 0 {
		code = "import " + strings.Join(imports, ", ")
	}
	return policy.Request{
		Action: policy.ActionRun, Caller: Self(), SecurityContext: r.SecurityContext, Network: r.Network, Limits: r.Limits,
		Program: policy.Program{Language: policy.LanguagePython, Code: code, Inputs: []byte("{}")},
	}
}

// commonPlan is what the plans of a decision have in common, for all fresh sandboxes: the digest without the ids, which are each sandbox's own, and those
// ids that were asked for.
func (s *Service) commonPlan(d policy.Decision) (string, error) {
	if !d.Allow {
		return "", &deniedError{d.Reasons}
	}
	plan, err := enforcer.Build(d, s.host, s.pattern, s.profiles)
	if err != nil {
		return "", err
	}
	c := d.Effective.SecurityContext
	ids := policy.Canonical(policy.SecurityContext{RunAsUser: c.RunAsUser, RunAsGroup: c.RunAsGroup, SupplementalGroups: c.SupplementalGroups})
	return plan.ConfinementDigest() + string(ids), nil
}

// startAhead walks an interpreter to where it waits for its job. It is decided, confined, read back and recorded as any exec: what is released is our driver
// and the configured imports, and no code of any caller.
func (s *Service) startAhead(on *shelf, set Prewarm) (_ *waiter, err error) {
	w, err := s.enter(s.life, aheadRequest(on.request, set.Imports), Options{})
	if err != nil {
		return nil, err
	}
	w.ahead = &waiter{walk: w, set: set}
	defer func() {
		if cause := recover(); cause != nil {
			s.logger.Error("bug: panic in a walk; please report this", "exec", w.id, "panic", cause, "stack", string(debug.Stack()))
			err = fmt.Errorf("internal error; please report this: %v", cause)
		}
		if err != nil {
			w.discard(err)
		}
	}()
	same := func() error {
		plan, err := s.commonPlan(w.decision)
		if err == nil && plan != on.plan {
			err = errors.New("policy puts something else in force for what is started ahead than for the runs that ask for it")
		}
		return err
	}
	for _, arrow := range []func() error{w.decide, same, w.build, w.prepare, w.check, w.record, w.releaseAhead} {
		if err := arrow(); err != nil {
			return nil, err
		}
	}
	return w.ahead, nil
}

// aheadProgram is the invocation of an interpreter that waits.
func (w *walk) aheadProgram() (made *program, err error) {
	var writable []string
	for _, m := range w.box.Plan().Root.Mounts {
		if m.Type == mount.TypeTmpfs && m.Target != landlock.ProbeDir && !slices.Contains(m.Options, "ro") {
			writable = append(writable, m.Target)
		}
	}
	io, err := python.Ahead(w.ahead.set.Imports, writable, firstExtra)
	if err != nil {
		return nil, err
	}
	w.ahead.io = io
	made = &program{extra: io.Extra}
	made.Argv, made.Env, made.Cwd, made.Extra = io.Argv, runEnvironment(policy.LanguagePython, nil), workDir, len(io.Extra)
	return made, nil
}

// releaseAhead lets the interpreter begin, looks again once it is past execve, and waits until it waits.
func (w *walk) releaseAhead() error {
	if err := w.heedSandbox(); err != nil {
		return err
	}
	w.released = true
	if err := w.child.Release(); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(w.ctx, w.service.config.GateTimeout, errExecve)
	defer cancel()
	if err := w.child.Started(ctx); err != nil {
		return err
	}
	if err := w.checkStarted(); err != nil {
		return err
	}
	w.service.running.add(w)
	if err := w.heedSandbox(); err != nil {
		return err
	}
	stop := context.AfterFunc(w.ctx, func() { _ = w.ahead.io.Result.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := w.ahead.io.Ready(time.Now().Add(w.service.config.PrewarmTimeout)); err != nil {
		return err
	}
	return w.settle()
}

// settle takes down what an interpreter that waits is like, and refuses one that has more than what it was given.
func (w *walk) settle() error {
	state, err := w.observeStarted()
	if err != nil {
		return err
	}
	a := w.ahead
	a.exe, a.threads = state.ExeID, len(state.Threads)
	if a.bytes, err = privateMemory(w.child.PID()); err != nil {
		return err
	}
	if failed := (policy.Verdict{Rows: a.rows(state)}).Failed(); len(failed) > 0 {
		return errors.New("its imports left something that a job would find: " + failedRows(policy.Verdict{Rows: failed}))
	}
	return nil
}

// look is the kernel's word, just now, that an interpreter is what it was started as and has done nothing but wait.
func (a *waiter) look() (policy.Verdict, error) {
	w := a.walk
	state, err := enforcer.ObserveStarted(w.child.PID(), w.service.host)
	if err != nil {
		return policy.Verdict{Tier: w.plan.Tier, Rows: []policy.Row{unread(err)}}, err
	}
	verdict := enforcer.CheckStarted(w.plan, w.child.Expect(), state)
	verdict.Rows = append(verdict.Rows, a.rows(state)...)
	if !w.child.Lives() { // it was read by number
		return verdict, os.ErrProcessDone
	}
	return verdict, nil
}

// rows are what is known of an interpreter that waits besides its confinement: it is alone, it is the same program with as many threads, it has
// the descriptors that it was given and no other, and it has said nothing.
func (a *waiter) rows(state enforcer.State) []policy.Row {
	var rows []policy.Row
	add := func(control, want, got string) {
		rows = append(rows, policy.Row{Control: "waiting." + control, Want: want, Got: got, Held: want == got, Evidence: policy.EvidenceKernel})
	}
	child := a.walk.child
	processes := "unread"
	if tree, err := child.Tree(); err == nil {
		processes = fmt.Sprint(tree)
	}
	add("processes", fmt.Sprint([]int{child.PID()}), processes)
	add("exe", a.exe, state.ExeID)
	add("threads", strconv.Itoa(a.threads), strconv.Itoa(len(state.Threads)))
	given := maps.Clone(child.Expect().FDs)
	for fd := range given {
		if fd == firstExtra || fd >= firstExtra+child.Expect().Extra { // the driver's text, which it has closed; and what execve closes
			delete(given, fd)
		}
	}
	for _, fd := range slices.Sorted(maps.Keys(state.FDs)) {
		want, was := given[fd]
		if !was {
			want = "closed"
		}
		delete(given, fd)
		add("fd."+strconv.Itoa(fd), want, state.FDs[fd])
	}
	for _, fd := range slices.Sorted(maps.Keys(given)) {
		add("fd."+strconv.Itoa(fd), given[fd], "closed")
	}
	output := "empty"
	if err := child.Silent(); err != nil {
		output = sentence(err)
	}
	add("output", "empty", output)
	return rows
}

// spoilt says why one that waits is of no use: it has ended, or something of it or of its sandbox holds no longer. nil: it may be.
func (a *waiter) spoilt() error {
	w := a.walk
	switch found, own := w.box.drift.Load(), w.drift.Load(); {
	case isGone(w.box):
		return ErrGone
	case found != nil:
		return found
	case own != nil:
		return own
	case !w.child.Lives():
		return fmt.Errorf("%w while it waited", os.ErrProcessDone)
	}
	return nil
}

// discard ends the walk of an interpreter that gets no job, and says so in the record.
func (w *walk) discard(why error) {
	defer w.service.leave(w)
	exit := w.end()
	if w.ahead.io != nil {
		w.ahead.io.Close()
	}
	r := w.baseRecord(audit.TypePrewarm)
	if mismatch := (*mismatchError)(nil); errors.As(why, &mismatch) {
		r.Type = audit.TypeMismatch
		r.Verdict = recordedVerdict(w.verdict, w.verdictDigest())
	}
	r.Prewarm = w.prewarmed()
	r.Message = sentence(why)
	if exit != nil && len(exit.Stderr.Data) > 0 && !errors.Is(why, errOfNoUse) {
		w.service.logger.Warn("interpreter", "exec", w.id, "error", why, "stderr", lastLine(string(exit.Stderr.Data)))
	}
	w.note(r)
}

// prewarmed is what a record says of an interpreter that was started ahead.
func (w *walk) prewarmed() *audit.Prewarm {
	return &audit.Prewarm{Exec: w.id, Sequence: w.sequence, Imports: w.ahead.set.Imports}
}

// lastLine is what a traceback ends with.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// privateMemory is what a process has of memory that isn't a file's: it is its own alone.
func privateMemory(pid int) (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	var size, resident, shared int64
	if _, err := fmt.Sscan(string(data), &size, &resident, &shared); err != nil {
		return 0, fmt.Errorf("statm: %w", err)
	}
	return (resident - shared) * int64(os.Getpagesize()), nil
}
