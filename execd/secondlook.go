package execd

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/policy"
)

// observeStarted reads a child that runs. One that is ending has lost parts that can be read before it counts as ended, so an error gets a
// short while to turn out as an end.
func (w *walk) observeStarted() (enforcer.State, error) { return w.observeProcess(w.child.PID()) }

// observeProcess is observeStarted for any process of the tree.
func (w *walk) observeProcess(pid int) (state enforcer.State, err error) {
	for patience := time.Millisecond; ; patience *= 2 {
		state, err = enforcer.ObserveStarted(pid, w.service.host)
		if err == nil || errors.Is(err, os.ErrProcessDone) || patience > time.Second {
			return state, err
		}
		if !w.pause(patience) {
			return state, os.ErrProcessDone // it is killed for that
		}
	}
}

// pause waits, and says whether the clock still runs.
func (w *walk) pause(patience time.Duration) bool {
	select {
	case <-time.After(patience):
		return true
	case <-w.clock.Done():
		return false
	}
}

// checkStarted is the second look. A process that has ended by now has nothing left to hold.
func (w *walk) checkStarted() error {
	state, err := w.observeStarted()
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	if err != nil {
		w.verdict.Rows = append(w.verdict.Rows, unread(err))
		return &mismatchError{fmt.Errorf("read-back after execve: %w", err)}
	}
	verdict := enforcer.CheckStarted(w.plan, w.child.Expect(), state)
	if verdict.Held() {
		return nil
	}
	w.verdict.Rows = append(w.verdict.Rows, verdict.Failed()...)
	return &mismatchError{errors.New("read-back after execve: " + failedRows(verdict))}
}

// unread is the row of a state that the kernel didn't give: what isn't known doesn't hold.
func unread(err error) policy.Row {
	return policy.Row{Control: "readback", Want: "the kernel's word", Got: sentence(err), Evidence: policy.EvidenceKernel}
}
