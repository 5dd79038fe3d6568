package runner

import (
	"context"
	"errors"
	"os"
)

// worker is one worker process as the daemon sees it. It has one exec at a time.
type worker struct {
	// conn is the daemon's end of the worker's SEQPACKET socket, non-blocking, so that deadlines work.
	conn *os.File
	// pidfd is the worker's, and pid its number in the daemon's PID namespace, as the kernel translates it from the pidfd.
	pidfd *os.File
	pid   int
	// inside is its number in the sandbox's PID namespace.
	inside int
	// gone is closed when the launcher has reaped it, or when the launcher is gone.
	gone chan struct{}
}

// worker gives an idle worker, or a new one, or waits for one when MaxWorkers are busy. The caller must give it back with [Sandbox.putWorker]
// or [Sandbox.dropWorker].
func (s *Sandbox) worker(ctx context.Context) (*worker, error) { return nil, errors.ErrUnsupported }

// putWorker takes an idle worker back: its last exec's tree is proven empty.
func (s *Sandbox) putWorker(w *worker) {}

// dropWorker kills a worker that must not be used again. Its tree, if there is one left, is the sandbox's to kill.
func (s *Sandbox) dropWorker(w *worker) {}
