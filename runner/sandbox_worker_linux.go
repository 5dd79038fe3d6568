package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// worker is one worker process as the daemon sees it. It has one exec at a time. Its files belong to who has the worker, and are closed by
// [Sandbox.dropWorker].
type worker struct {
	number uint64
	// conn is the daemon's end of the worker's SEQPACKET socket, non-blocking, so that deadlines work.
	conn *os.File
	// pidfd is the worker's, and pid its number in the daemon's PID namespace, as the kernel translates it from the pidfd.
	pidfd *os.File
	pid   int
	// inside is its number in the sandbox's PID namespace.
	inside int
	// gone is closed when the launcher has reaped it, or when the sandbox is gone. status is its end, to be read after that; nil when not known.
	gone   chan struct{}
	status *syscall.WaitStatus
}

// startedWorker is the launcher's answer.
type startedWorker struct {
	reply workerStarted
	pidfd int
}

// errSandboxGone is what whoever wants a worker of a sandbox that has ended gets.
var errSandboxGone = errors.New("sandbox: gone")

// worker gives an idle worker, or a new one, or waits for one while MaxWorkers are busy. The caller must give it back with [Sandbox.putWorker]
// or [Sandbox.dropWorker].
func (s *Sandbox) worker(ctx context.Context) (*worker, error) {
	select {
	case s.slots <- struct{}{}:
	case <-s.gone:
		return nil, errSandboxGone
	case <-ctx.Done():
		return nil, fmt.Errorf("sandbox: all %d workers are busy: %w", cap(s.slots), ctx.Err())
	}
	select {
	case <-s.gone:
		<-s.slots
		return nil, errSandboxGone
	default:
	}
	if w := s.takeIdle(); w != nil {
		return w, nil
	}
	w, err := s.startWorker(ctx)
	if err != nil {
		<-s.slots
		return nil, err
	}
	return w, nil
}

// Warm starts a worker, unless one is idle: the first exec then doesn't wait for it.
func (s *Sandbox) Warm(ctx context.Context) error {
	w, err := s.worker(ctx)
	if err != nil {
		return err
	}
	s.putWorker(w)
	return nil
}

// takeIdle is the warmest idle worker that lives.
func (s *Sandbox) takeIdle() *worker {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.idle) > 0 {
		last := len(s.idle) - 1
		w := s.idle[last]
		s.idle = s.idle[:last]
		select {
		case <-w.gone:
			w.close()
		default:
			return w
		}
	}
	return nil
}

// startWorker has the launcher start one, and waits for its answer.
func (s *Sandbox) startWorker(ctx context.Context) (*worker, error) {
	s.starting.RLock()
	defer s.starting.RUnlock()
	ours, theirs, err := socketpair()
	if err != nil {
		return nil, err
	}
	answer := make(chan startedWorker, 1)
	s.mu.Lock()
	s.number++
	number := s.number
	s.asked[number] = answer
	s.mu.Unlock()
	err = s.link.send(launcherOrder{Start: number}, int(theirs.Fd()))
	theirs.Close()
	fault("sandbox.worker")
	if err == nil {
		var w *worker
		if w, err = s.awaitWorker(ctx, number, answer); err == nil {
			s.mu.Lock()
			w.conn = ours
			s.mu.Unlock()
			return w, nil
		}
	}
	ours.Close()
	return nil, fmt.Errorf("sandbox: start a worker: %w", err)
}

// awaitWorker waits for the answer. When it gives up, the worker, if it comes, finds its socket closed and ends.
func (s *Sandbox) awaitWorker(ctx context.Context, number uint64, answer <-chan startedWorker) (*worker, error) {
	limit := time.NewTimer(startLimit)
	defer limit.Stop()
	var err error
	select {
	case started := <-answer:
		return s.adopt(started)
	case <-s.gone:
		err = errSandboxGone
	case <-ctx.Done():
		err = ctx.Err()
	case <-limit.C:
		err = fmt.Errorf("no answer in %s", startLimit)
	}
	s.mu.Lock()
	delete(s.asked, number)
	s.mu.Unlock()
	select {
	case started := <-answer: // it came as we gave up
		if started.pidfd >= 0 {
			unix.Close(started.pidfd)
		}
	default:
	}
	return nil, err
}

// adopt makes a worker of an answer. Its pid is the kernel's translation, not the launcher's word.
func (s *Sandbox) adopt(started startedWorker) (*worker, error) {
	if started.reply.PID == 0 {
		return nil, &LauncherError{Step: "worker", Errno: started.reply.Errno, Message: started.reply.Message}
	}
	if started.pidfd < 0 {
		return nil, fmt.Errorf("%w: a worker without a pidfd", ErrProtocol)
	}
	pidfd := os.NewFile(uintptr(started.pidfd), "pidfd")
	pid := pidOf(started.pidfd)
	if pid == 0 {
		pidfd.Close()
		return nil, errors.New("the worker ended at once")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.all[started.reply.Number]
	if w == nil { // it has ended already
		pidfd.Close()
		return nil, errors.New("the worker ended at once")
	}
	w.pidfd, w.pid, w.inside = pidfd, pid, started.reply.PID
	return w, nil
}

// putWorker takes an idle worker back: its last exec's tree is proven empty.
func (s *Sandbox) putWorker(w *worker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-w.gone:
		w.close()
	default:
		s.idle = append(s.idle, w)
	}
	<-s.slots
}

// dropWorker kills a worker that must not be used again. If it leaves a tree, that is the sandbox's to end.
func (s *Sandbox) dropWorker(w *worker) {
	// ESRCH: it is gone already.
	err := unix.PidfdSendSignal(int(w.pidfd.Fd()), unix.SIGKILL, nil, 0)
	if errors.Is(err, unix.EPERM) && s.config.Plan.Attached != nil {
		err = s.through(int(w.pidfd.Fd()), unix.SIGKILL)
	}
	if err != nil && !errors.Is(err, unix.ESRCH) {
		s.config.Logger.Error("kill a worker", "pid", w.pid, "error", err)
	}
	w.close()
	<-s.slots
}

func (w *worker) close() {
	w.conn.Close()
	w.pidfd.Close()
}
