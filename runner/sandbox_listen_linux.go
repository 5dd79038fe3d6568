package runner

import (
	"context"
	"encoding/json/v2"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sandboxd/sandboxd/enforcer/cgroup"
)

// listen hears what the launcher says, until it says no more or ends. Then the sandbox is over, whatever the reason: everything in it is
// killed, and what is left of it on our side is cleaned up.
func (s *Sandbox) listen() {
	s.link.deadline(time.Time{}) // that of the start; if this fails, so does the first receive
	heard := make(chan error, 1)
	go func() {
		err := s.hear()
		if err := s.kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			s.config.Logger.Error("kill a launcher", "pid", s.PID(), "error", err)
		}
		heard <- err
	}()
	if s.peer != nil {
		s.peer.wait()
	} else if state, err := s.process.Wait(); err != nil {
		s.config.Logger.Error("wait for a launcher", "pid", s.PID(), "error", err)
	} else {
		s.ended = state
	}
	// The socket's end would tell as well, but not if somebody else held the launcher's end of it.
	s.link.deadline(time.Unix(1, 0))
	err := <-heard
	s.link.file.Close()
	if s.fence != nil {
		s.fence.Close()
	}
	if !s.closing.Load() {
		s.config.Logger.Error("a launcher has ended by itself", "pid", s.PID(), "error", err, "state", s.ended.String())
	}
	s.cutWorkers()
	s.mu.Lock()
	for _, w := range s.all {
		close(w.gone)
	}
	clear(s.all)
	for _, w := range s.idle {
		w.close()
	}
	s.idle = nil
	s.mu.Unlock()
	limit, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	s.cleanErr = errors.Join(s.removeGroups(limit), s.awaitLeft(limit))
	close(s.gone)
}

// hear takes the launcher's messages until its socket ends.
func (s *Sandbox) hear() error {
	for {
		data, fds, err := s.link.receive(1)
		if err != nil {
			return err
		}
		var reply launcherReply
		if err := json.Unmarshal(data, &reply, strict); err != nil {
			closeAll(fds)
			return err
		}
		switch {
		case reply.Started != nil:
			s.workerStarted(*reply.Started, fds)
		case reply.Ended != nil:
			closeAll(fds)
			s.workerEnded(*reply.Ended)
		default:
			closeAll(fds)
			return fmt.Errorf("%w: %s", ErrProtocol, data)
		}
	}
}

// workerStarted passes the answer on to who asked, if he still waits.
func (s *Sandbox) workerStarted(reply workerStarted, fds []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer, asked := s.asked[reply.Number]
	delete(s.asked, reply.Number)
	if !asked {
		closeAll(fds)
		return
	}
	started := startedWorker{reply: reply, pidfd: -1}
	if len(fds) == 1 {
		started.pidfd = fds[0]
	}
	if reply.PID != 0 {
		s.all[reply.Number] = &worker{number: reply.Number, gone: make(chan struct{})}
	}
	answer <- started // it has room
}

func (s *Sandbox) workerEnded(reply workerEnded) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.all[reply.Number]; w != nil {
		delete(s.all, reply.Number)
		w.status = &reply.Status
		close(w.gone)
	}
}

// removeGroups removes the sandbox's cgroups and those of its execs, which are empty when its PID namespace is: nothing inside sees or moves
// between cgroups.
func (s *Sandbox) removeGroups(ctx context.Context) error {
	if s.config.Cgroup == nil {
		return nil
	}
	s.groups.close()
	err := s.config.Cgroup.Destroy(ctx)
	for _, group := range []*cgroup.Group{s.workersGroup, s.root} { // gone by now; it closes ours
		if group != nil && group != s.config.Cgroup {
			err = errors.Join(err, group.Remove())
		}
	}
	return err
}
