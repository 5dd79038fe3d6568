package runner

import (
	"context"
	"syscall"
	"time"

	"github.com/sandboxd/sandboxd/policy"
)

// Wait waits for the leader's end, then for the tree's. When ctx ends first, the tree is killed. It ends the exec: nothing is left of it, or the
// Exit says what may be.
func (c *Child) Wait(ctx context.Context) Exit {
	stop := context.AfterFunc(ctx, c.Kill)
	defer stop()
	exit := Exit{}
	clean := false
	err := c.untilExit()
	fault("child.exit")
	switch {
	case err != nil:
		c.abandon(&exit)
	case c.heard.exit == nil: // no child was made
		exit.TreeEmpty, exit.TreeEvidence, clean = true, policy.EvidenceReport, true
	default:
		exit.Known, exit.Status, exit.Rusage = true, c.heard.status(), c.heard.exit.rusage
		if exit.Left = c.spare(); !exit.Left {
			clean = c.untilEmpty(&exit)
		}
	}
	if !c.released.IsZero() {
		if c.waiting { // it ended before anybody wanted its output
			c.waiting = false
			c.flow()
		}
		exit.CPUBefore = c.cpuBefore
		exit.Duration = c.heard.at.Sub(c.released)
		exit.Stdout, exit.Stderr = c.stdout.finish(exit.Left), c.stderr.finish(exit.Left)
	}
	if exit.Left {
		exit.TreeEvidence = policy.EvidenceKernel
		return exit
	}
	fault("child.empty")
	c.end(&exit)
	c.giveBack(c.worker, clean)
	return exit
}

// Abort ends a child at its gate, or wherever it is. What it started is gone when the Exit says that the tree is empty.
func (c *Child) Abort() Exit {
	c.gate.file.Close() // the child reads the end of file and exits by itself
	c.Kill()
	return c.Wait(context.Background())
}

// untilEmpty ends what is left of the tree and gives the proof. It says whether the worker is idle, and may be used again.
func (c *Child) untilEmpty(exit *Exit) bool {
	c.ending()
	if c.leave {
		c.orderEnd() // else its worker would let them live
	}
	if c.group != nil {
		exit.TreeEmpty, exit.TreeEvidence = c.emptyGroup(), policy.EvidenceKernel
	}
	for !c.heard.empty {
		if c.next() != nil {
			return false
		}
	}
	exit.Reaped = c.heard.reaped
	if c.group == nil {
		exit.TreeEmpty, exit.TreeEvidence = true, policy.EvidenceReport
		if none, err := childless(c.worker.pid); err == nil {
			exit.TreeEmpty, exit.TreeEvidence = none, policy.EvidenceKernel
		}
	}
	return exit.TreeEmpty
}

// ending bounds the wait for the tree of a leader that has ended, as if it had been killed now: its worker kills what is left.
func (c *Child) ending() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.giveUp.IsZero() {
		c.giveUp = time.Now().Add(killBound)
		c.worker.conn.SetReadDeadline(time.Now().Add(stuckAfter))
	}
}

// abandon ends an exec whose worker is gone, or says nothing although the leader was killed long ago. What a group can't prove, nobody can.
func (c *Child) abandon(exit *Exit) {
	c.heard.at = time.Now()
	c.Kill()
	if c.group != nil {
		exit.TreeEmpty, exit.TreeEvidence = c.emptyGroup(), policy.EvidenceKernel
	}
}

// end closes everything of the exec. Kill does nothing from here on.
func (c *Child) end(exit *Exit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over {
		close(c.done)
	}
	c.over = true
	exit.Killed, exit.Stuck = c.killed, c.stuck && !exit.TreeEmpty
	exit.OutputLimit, exit.CPULimit = c.killed && c.why == killOutput, c.killed && c.why == killCPU
	exit.MemoryLimit, exit.Uncounted = c.killed && c.why == killMemory, c.killed && c.why == killUncounted
	if c.group != nil {
		exit.OOMKills, _ = c.group.OOMKills()
		if c.cpuLimit > 0 {
			exit.CPUTime, _ = c.countCPU()
		}
		// Empty, and so it stays: the worker, who alone could put somebody there, has no child and waits for the next exec.
		if exit.TreeEmpty && c.heard.empty && c.place.groups.keep(c.group) {
			c.group = nil
		}
	}
	exit.Calls, exit.CallsCut = c.listener.end()
	c.scrap()
	c.worker.conn.SetReadDeadline(time.Time{})
}

// scrap closes the daemon's ends.
func (c *Child) scrap() {
	closeFD(c.pidfd)
	c.pidfd = -1
	if c.gate != nil {
		c.gate.close()
	}
	if c.stdin != nil {
		c.stdin.stop(!c.released.IsZero())
	}
	c.listener.close()
	for _, r := range []*reader{c.stdout, c.stderr} {
		if r != nil {
			r.file.Close()
		}
	}
	if c.group != nil {
		_ = c.group.Remove() // fails when it isn't empty: TreeEmpty says so
		c.group = nil
	}
}

// heard is what a worker has said of one exec.
type heard struct {
	// target and cwd are link texts; byPath says that the target is executed by its path.
	target, cwd string
	byPath      bool
	// failure says that no child was made.
	failure *StepError
	// exit is the leader's end, and at when it was told.
	exit *exitMessage
	at   time.Time
	// empty says that the worker is idle, after reaping so many.
	empty  bool
	reaped int
}

func (h *heard) status() syscall.WaitStatus { return syscall.WaitStatus(h.exit.status) }
