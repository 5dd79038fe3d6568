package execd

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/runner/python"
)

// compiledDriver is the driver of Python runs as an interpreter of our sandboxes compiles it. The first cold run asks for it, and those after it have it.
//
// An interpreter of its own makes it, by a run of ours: decided, confined, read back and recorded as any other, in a fresh sandbox, with nothing in it of
// any caller. No other may: what it gives is executed in the runs of all.
type compiledDriver struct {
	service *Service
	wanted  chan struct{}
	made    atomic.Pointer[python.Compiled]
}

// compileAgain is after a failure: policy may forbid such a run, and then each would be in vain.
const compileAgain = 10 * time.Minute

func newCompiledDriver(s *Service) *compiledDriver {
	return &compiledDriver{service: s, wanted: make(chan struct{}, 1)}
}

// get gives it, or none if there is none yet.
func (d *compiledDriver) get() python.Compiled {
	if made := d.made.Load(); made != nil {
		return *made
	}
	select {
	case d.wanted <- struct{}{}:
	default:
	}
	return python.Compiled{}
}

// make waits until it is asked for, and for a moment when nobody else wants anything, and has it made.
func (d *compiledDriver) make() {
	s := d.service
	for {
		select {
		case <-d.wanted:
		case <-s.life.Done():
			return
		}
		if s.idle(s.life) != nil {
			return
		}
		made, err := s.compileDriver(s.life)
		if err == nil {
			d.made.Store(&made)
			return
		}
		if s.life.Err() != nil {
			return
		}
		s.logger.Warn("Python: the driver isn't compiled ahead, each run does that itself", "error", err, "again", compileAgain)
		timer := time.NewTimer(compileAgain)
		select {
		case <-timer.C:
		case <-s.life.Done():
		}
		timer.Stop()
		select { // our own run has asked too
		case <-d.wanted:
		default:
		}
	}
}

func (s *Service) compileDriver(ctx context.Context) (python.Compiled, error) {
	reply := s.Exec(ctx, policy.Request{Action: policy.ActionRun, Caller: Self(), Program: python.CompileProgram()}, Options{})
	if reply.Outcome != OutcomeOK || reply.ReturnValueHow != python.HowValue || reply.Interpreter != InterpreterCold {
		return python.Compiled{}, fmt.Errorf("outcome %s: %s%s", reply.Outcome, reply.Message, reply.ReturnValueReason)
	}
	return python.ReadCompiled(reply.ReturnValue)
}
