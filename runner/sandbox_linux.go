package runner

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/enforcer/cgroup"
	"github.com/sandboxd/sandboxd/policy"
)

// Config is one sandbox to start.
type Config struct {
	// Binary is from [OpenBinary]; it may be shared by any number of sandboxes.
	Binary *os.File
	Host   enforcer.Host
	Plan   enforcer.SandboxPlan
	// Cgroup is the sandbox's group, which the launcher is started in; the sandbox removes it at its end. nil: none.
	Cgroup *cgroup.Group
	// MaxWorkers is how many execs may run at once, > 0.
	MaxWorkers int
	Logger     *slog.Logger
}

// Sandbox is a running sandbox.
type Sandbox struct {
	config  Config
	verdict policy.Verdict
	gone    chan struct{}
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

// Start makes a sandbox, reads it back and checks it.
func Start(ctx context.Context, c Config) (*Sandbox, error) { return nil, errors.ErrUnsupported }

// PID is the launcher's, in the daemon's PID namespace.
func (s *Sandbox) PID() int { return 0 }

// Plan is what the sandbox was made from.
func (s *Sandbox) Plan() enforcer.SandboxPlan { return s.config.Plan }

// Verdict is the read-back at its start.
func (s *Sandbox) Verdict() policy.Verdict { return s.verdict }

// State is what was read back at its start.
func (s *Sandbox) State() enforcer.SandboxState { return enforcer.SandboxState{} }

// Gone is closed when no process of the sandbox is left.
func (s *Sandbox) Gone() <-chan struct{} { return s.gone }

// Close kills everything in the sandbox and waits until the kernel says that its PID namespace is empty.
func (s *Sandbox) Close(ctx context.Context) error { return errors.ErrUnsupported }
