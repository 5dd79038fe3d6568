package runner

import (
	"context"
	"errors"

	"github.com/sandboxd/sandboxd/enforcer"
)

// Child is one exec: a process at its gate, then released, then ended. It ends with Wait or Abort, one of which must be called.
type Child struct {
}

// Prepare starts a child and brings it to the gate, confined as the plan says. Nothing of the target runs.
func (s *Sandbox) Prepare(ctx context.Context, p enforcer.Plan, inv enforcer.Invocation, io IO) (*Child, error) {
	return nil, errors.ErrUnsupported
}

// PID is the child's, in the daemon's PID namespace.
func (c *Child) PID() int { return 0 }

// Expect is what the daemon knows of this child.
func (c *Child) Expect() enforcer.Expect { return enforcer.Expect{} }

// Release lets the child go on: one byte.
func (c *Child) Release() error { return errors.ErrUnsupported }

// Started waits for execve: nil when it passed its point of no return, *StepError when it failed.
func (c *Child) Started(ctx context.Context) error { return errors.ErrUnsupported }

// Wait waits for the leader's end, then for the tree's. When ctx ends first, the tree is killed.
func (c *Child) Wait(ctx context.Context) Exit { return Exit{} }

// Kill kills the whole tree. Wait then returns.
func (c *Child) Kill() {}

// Abort ends a child at its gate.
func (c *Child) Abort() {}
