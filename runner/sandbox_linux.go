package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/enforcer/cgroup"
	"github.com/sandboxd/sandboxd/enforcer/network/fence"
	"github.com/sandboxd/sandboxd/policy"
)

// Config is one sandbox to start.
type Config struct {
	// Binary is from [OpenBinary]; it may be shared by any number of sandboxes.
	Binary *os.File
	Host   enforcer.Host
	Plan   enforcer.SandboxPlan
	// Lower is the detached mount that the plan's layer lies on, from [Sandbox.WorkMount] of another; nil where it has none. It stays the caller's to close.
	Lower *os.File
	// Cgroup is the sandbox's group. Launcher and workers are started in a leaf below it; the sandbox removes both at its end. nil: none.
	Cgroup *cgroup.Group
	// MaxWorkers is how many execs may run at once, > 0.
	MaxWorkers int
	// Logger is told of what goes wrong where no caller is there to hear it.
	Logger *slog.Logger
}

func (c Config) validate() error {
	switch {
	case c.Binary == nil:
		return errors.New("sandbox: no binary")
	case c.MaxWorkers <= 0:
		return fmt.Errorf("sandbox: MaxWorkers %d", c.MaxWorkers)
	case c.Logger == nil:
		return errors.New("sandbox: no logger")
	}
	return nil
}

// Sandbox is a running sandbox: a launcher, its workers, and what these run.
type Sandbox struct {
	config  Config
	state   enforcer.SandboxState
	verdict policy.Verdict
	process *os.Process
	// peer is the launcher in place of process, where somebody else has started it.
	peer *peer
	link *link
	// fence is the sandbox's, nil where its plan has none. It is closed with the sandbox.
	fence *fence.Fence
	// root is the group that launcher, workers and execs have in common, and workersGroup the leaf of the first two; nil without Config.Cgroup.
	root, workersGroup *cgroup.Group
	// groups below root wait for execs.
	groups groups
	// execs counts those that run.
	execs execs
	// slots has room for MaxWorkers: who holds one may have a worker.
	slots chan struct{}

	// starting is held, shared, while a worker is being started: the launcher has descriptors then that a read-back would take for leaks.
	starting sync.RWMutex

	// mu guards the workers.
	mu     sync.Mutex
	number uint64             // of the last worker that was asked for
	idle   []*worker          // the last is the warmest
	all    map[uint64]*worker // those that the launcher has answered for and not yet reaped
	asked  map[uint64]chan<- startedWorker

	// closing says that the launcher's end is wanted, or told to whoever started it.
	closing atomic.Bool
	// gone is closed when no process of the sandbox is left. To be read after that: how the launcher ended, and what removing the groups met.
	gone     chan struct{}
	ended    *os.ProcessState
	cleanErr error
}

// MismatchError says that a sandbox isn't what its plan says. It has been killed.
type MismatchError struct {
	Verdict policy.Verdict
}

func (e *MismatchError) Error() string {
	text := "sandbox: read-back doesn't match the plan"
	for _, row := range e.Verdict.Failed() {
		text += "; " + row.Control + ": want " + row.Want + ", got " + row.Got
	}
	return text
}

// PID is the launcher's, in the daemon's PID namespace. It is the sandbox's until Gone is closed.
func (s *Sandbox) PID() int {
	if s.peer != nil {
		return s.peer.pid
	}
	return s.process.Pid
}

// Plan is what the sandbox was made from.
func (s *Sandbox) Plan() enforcer.SandboxPlan { return s.config.Plan }

// WorkMount is a copy of the sandbox's /work, detached, for another to lie a layer on. It needs root.
func (s *Sandbox) WorkMount() (*os.File, error) {
	for _, m := range s.State().Mounts {
		if m.Target == "/work" && m.Type == "tmpfs" {
			return enforcer.CloneMount(s.PID(), m.Target, m.Dev)
		}
	}
	return nil, errors.New("sandbox: /work is no tmpfs of its own")
}

// Verdict is the read-back at its start.
func (s *Sandbox) Verdict() policy.Verdict { return s.verdict }

// State is what was read back at its start.
func (s *Sandbox) State() enforcer.SandboxState { return s.state }

// Network is the sandbox's fence: its sockets are the only way out that it has. nil where the host can't fence ([enforcer.Host.Fence]). It is closed when
// the sandbox is gone.
func (s *Sandbox) Network() *fence.Fence { return s.fence }

// Gone is closed when no process of the sandbox is left.
func (s *Sandbox) Gone() <-chan struct{} { return s.gone }

// Close kills everything in the sandbox and waits until the kernel says that its PID namespace is empty, or ctx ends. It may be called often.
//
// One SIGKILL is enough, and one wait is the proof: when the first process of a PID namespace ends, the kernel kills every other process in
// it and doesn't let the first one be reaped before all are (zap_pid_ns_processes; pid_namespaces(7)).
func (s *Sandbox) Close(ctx context.Context) error {
	s.closing.Store(true)
	if err := s.kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("sandbox: kill the launcher: %w", err)
	}
	select {
	case <-s.gone:
		return s.cleanErr
	case <-ctx.Done():
		return fmt.Errorf("sandbox: launcher %d is killed, and the kernel hasn't ended all of its namespace yet: %w", s.PID(), ctx.Err())
	}
}

// Verify reads the sandbox back once more, and says whether it still is what its plan says.
func (s *Sandbox) Verify() (policy.Verdict, error) {
	s.starting.Lock()
	defer s.starting.Unlock()
	for wait := time.Millisecond; ; wait *= 2 {
		_, verdict, err := s.observe(s.state.Hostname)
		if err != nil || wait > verifyPatience || !startingWorker(verdict) {
			return verdict, err
		}
		time.Sleep(wait)
	}
}

// verifyPatience bounds the last wait for a launcher that has a descriptor too many.
const verifyPatience = 500 * time.Millisecond

// startingWorker says that the descriptors are all that isn't as planned: a launcher that has just answered for a worker is about to close what
// it answered with.
func startingWorker(v policy.Verdict) bool {
	failed := v.Failed()
	return len(failed) == 1 && failed[0].Control == "launcher.descriptors"
}

// observe reads back and checks. said is the hostname as the launcher gave it, for when the daemon can't read it.
func (s *Sandbox) observe(said string) (enforcer.SandboxState, policy.Verdict, error) {
	if s.peer != nil {
		return s.observeAttached(said)
	}
	state, err := enforcer.ObserveSandbox(s.process.Pid, s.fence)
	if err != nil {
		return state, policy.Verdict{}, err
	}
	// Read by number, so look again by pidfd: if the launcher lives now, the number was its own all along.
	if alive := s.process.Signal(syscall.Signal(0)); alive != nil {
		return state, policy.Verdict{}, fmt.Errorf("launcher %d: %w", s.process.Pid, alive)
	}
	if !state.HostnameRead {
		state.Hostname = said
	}
	verdict := enforcer.CheckSandbox(s.config.Plan, s.config.Host, state)
	rows, err := binaryRows(s.config.Binary, state)
	verdict.Rows = append(verdict.Rows, rows...)
	return state, verdict, err
}
