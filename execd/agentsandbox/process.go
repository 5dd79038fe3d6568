package agentsandbox

import (
	"context"
	"errors"
	"net/http"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/policy"
)

// wrongMessage is a message that isn't what a call takes.
func wrongMessage(err error) error {
	return faultf(http.StatusBadRequest, codeArgument, "%v", err)
}

// commandOf is the command of a config, with the time that the client waits for it.
func (f *Facade) commandOf(x *exchange, c processConfig) (policy.Request, error) {
	if len(c.command) == 0 {
		return policy.Request{}, faultf(http.StatusBadRequest, codeArgument, "config.command: empty, want at least the program")
	}
	timeout, err := x.timeout()
	if err != nil {
		return policy.Request{}, err
	}
	return f.order(x.r.Context(), x.caller, c.command, c.env, c.cwd, timeout)
}

// signaledExit is the status of one that died of a signal, as this protocol has it.
func signaledExit(int) int { return -1 }

// execute runs a command to its end.
func (f *Facade) execute(x *exchange, message []byte) error {
	var wire startRequest
	if err := wire.decode("ExecuteRequest", message, false); err != nil {
		return wrongMessage(err)
	}
	r, err := f.commandOf(x, wire.config)
	if err != nil {
		return err
	}
	reply, err := f.walk(x.r.Context(), r, execd.Options{})
	if err != nil {
		return err
	}
	stdout, stderr := reply.Output()
	return x.send(executeResponse(exitOf(reply, signaledExit), stdout, append(stderr, notices(reply)...)))
}

// process is one that runs, by Start.
type process struct {
	// stop asks it to end, kill ends it.
	stop func()
	kill context.CancelCauseFunc

	// terminal is where it runs; nil: it has pipes.
	terminal *execd.Terminal

	mu sync.Mutex // guards stdin, which is nil when nothing more is to come
	// stdin is the writing end of its pipe.
	stdin *os.File
}

// processes are those that run.
type processes struct {
	mu   sync.Mutex // guards what follows
	last int32
	all  map[int32]*process
}

// add makes one known, by a number that is ours: those of the kernel are the sandbox's own.
func (s *processes) add(p *process) int32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if s.last++; s.last <= 0 {
			s.last = 1
		}
		if s.all[s.last] == nil {
			s.all[s.last] = p
			return s.last
		}
	}
}

func (s *processes) remove(id int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, id)
}

func (s *processes) find(id int32) (*process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.all[id]; p != nil {
		return p, nil
	}
	return nil, faultf(http.StatusNotFound, codeNotFound, "there is no process %d, or it has ended", id)
}

// errKilled is a process whose client wanted its end.
var errKilled = faultf(http.StatusConflict, codeAborted, "SIGKILL was sent to it")

// start runs a command and streams what it writes, at the client's pace. It ends with the client.
func (f *Facade) start(x *exchange, message []byte) error {
	var wire startRequest
	if err := wire.decode("StartRequest", message, true); err != nil {
		return wrongMessage(err)
	}
	r, err := f.commandOf(x, wire.config)
	if err != nil {
		return err
	}
	ctx, kill := context.WithCancelCause(x.r.Context())
	defer kill(nil)
	interrupt := make(chan struct{})
	p := &process{stop: sync.OnceFunc(func() { close(interrupt) }), kill: kill}
	options := execd.Options{Unkept: true, Interrupt: interrupt, InterruptGrace: f.config.LongestCommand}
	if wire.terminal != nil {
		columns, rows, err := wire.terminal.checked(80, 24)
		if err != nil {
			return wrongMessage(err)
		}
		r.Command.Terminal = true
		p.terminal = execd.NewTerminal(columns, rows)
		options.Terminal = p.terminal
	} else if options.Stdin, p.stdin, err = os.Pipe(); err != nil {
		return err
	}
	id := f.processes.add(p)
	defer f.processes.remove(id)
	defer p.endInput()
	s := &stream{x: x, gone: func() { kill(http.ErrAbortHandler) }}
	options.Sink = s
	options.Accepted = func(string, int64) { s.send(initEvent(id)) }
	reply, err := f.walk(ctx, r, options)
	s.mu.Lock()
	defer s.mu.Unlock() // nobody writes any more
	if reply.Outcome == execd.OutcomeCancelled && errors.Is(context.Cause(ctx), errKilled) {
		return x.send(exitEvent(signaledExit(0)))
	}
	if err != nil {
		return err
	}
	if notice := notices(reply); notice != "" {
		if err := x.send(outputEvent("stderr", []byte(notice))); err != nil {
			return err
		}
	}
	return x.send(exitEvent(exitOf(reply, signaledExit)))
}

// stream is the sink of a command's walk. When the client is gone, so is the command.
type stream struct {
	x    *exchange
	gone func()
	mu   sync.Mutex // guards the connection's writing
}

// Decision is of the walk's sink.
func (s *stream) Decision(policy.Decision) {}

// Output is a piece of a stream.
func (s *stream) Output(name string, chunk []byte) {
	const most = 1 << 20
	for len(chunk) > most {
		s.send(outputEvent(name, chunk[:most]))
		chunk = chunk[most:]
	}
	s.send(outputEvent(name, chunk))
}

func (s *stream) send(message []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.x.send(message); err != nil {
		s.gone()
	}
}

// endInput is the end of file of its stdin.
func (p *process) endInput() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stdin != nil {
		p.stdin.Close()
		p.stdin = nil
	}
}

// writeStdin writes to a process, for as long as it takes to read that.
func (f *Facade) writeStdin(x *exchange, message []byte) error {
	var wire processRequest
	if err := wire.decode("WriteStdinRequest", message); err != nil {
		return wrongMessage(err)
	}
	p, err := f.processes.find(wire.id)
	if err != nil {
		return err
	}
	if p.terminal != nil {
		return f.typeIn(x, p, wire)
	}
	if wire.eof {
		p.endInput()
		return x.send(nil)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stdin == nil {
		return faultf(http.StatusConflict, codePrecondition, "the stdin of process %d has had its end of file", wire.id)
	}
	_ = p.stdin.SetWriteDeadline(time.Now().Add(f.config.StallTimeout))
	if _, err := p.stdin.Write(wire.input); err != nil {
		return faultf(http.StatusConflict, codeAborted, "process %d didn't take all of it: %v", wire.id, err)
	}
	return x.send(nil)
}

// endOfFile is the key that says so at a terminal.
const endOfFile = 4

// typeIn types at a process's terminal.
func (f *Facade) typeIn(x *exchange, p *process, wire processRequest) error {
	if wire.eof {
		wire.input = []byte{endOfFile}
	}
	if err := p.terminal.Write(wire.input, f.config.StallTimeout); err != nil {
		return faultf(http.StatusConflict, codeAborted, "process %d didn't take all of it: %v", wire.id, err)
	}
	return x.send(nil)
}

// The signals of the protocol; SIGINT is a key's, and so a terminal's.
const (
	signalInt  = 2
	signalKill = 9
	signalTerm = 15
)

// sendSignal asks a process and all that it has started to end, or ends them.
func (f *Facade) sendSignal(x *exchange, message []byte) error {
	var wire processRequest
	if err := wire.decode("SendSignalRequest", message); err != nil {
		return wrongMessage(err)
	}
	p, err := f.processes.find(wire.id)
	if err != nil {
		return err
	}
	switch {
	case wire.number == signalKill:
		p.kill(errKilled)
	case wire.number == signalTerm:
		p.stop()
	case wire.number == signalInt && p.terminal != nil:
		if err := p.terminal.Signal(unix.SIGINT); err != nil {
			return faultf(http.StatusConflict, codeAborted, "process %d: %v", wire.id, err)
		}
	default:
		return faultf(http.StatusBadRequest, codeArgument, "signal %d isn't sent; SIGTERM (15) asks a process to end, SIGKILL (9) ends it, and SIGINT (2) goes to one at a terminal", wire.number)
	}
	return x.send(nil)
}

// resizeTTY changes the size of a process's terminal.
func (f *Facade) resizeTTY(x *exchange, message []byte) error {
	var wire processRequest
	if err := wire.decode("ResizeTTYRequest", message); err != nil {
		return wrongMessage(err)
	}
	p, err := f.processes.find(wire.id)
	if err != nil {
		return err
	}
	if p.terminal == nil {
		return faultf(http.StatusConflict, codePrecondition, "process %d has no terminal", wire.id)
	}
	columns, rows, err := wire.size.checked(0, 0)
	if err != nil || columns == 0 || rows == 0 {
		return faultf(http.StatusBadRequest, codeArgument, "a terminal of %d columns and %d rows: want 1 to 65535 of each", wire.size.columns, wire.size.rows)
	}
	if err := p.terminal.Resize(columns, rows); err != nil {
		return faultf(http.StatusConflict, codeAborted, "process %d: %v", wire.id, err)
	}
	return x.send(nil)
}
