package runner

import (
	"context"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// listen hears what the launcher says until it says no more. Then the sandbox is over, whatever the reason: everything in it is killed, and
// what is left of it on our side is cleaned up.
func (s *Sandbox) listen() {
	err := s.hear()
	s.link.file.Close()
	if err := s.process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.config.Logger.Error("kill a launcher", "pid", s.process.Pid, "error", err)
	}
	state, waitErr := s.process.Wait()
	if waitErr != nil {
		s.config.Logger.Error("wait for a launcher", "pid", s.process.Pid, "error", waitErr)
	}
	if !errors.Is(err, io.EOF) && !errors.Is(err, unix.ECONNRESET) { // reset: killed with something of ours unread
		s.config.Logger.Error("sandbox: launcher", "pid", s.process.Pid, "error", err, "state", state)
	}
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
	s.cleanErr = s.removeGroups(limit)
	close(s.gone)
}

// hear takes the launcher's messages until its socket ends.
func (s *Sandbox) hear() error {
	if err := s.link.deadline(time.Time{}); err != nil {
		return err
	}
	for {
		data, fds, err := s.link.receive()
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
			s.started(*reply.Started, fds)
		case reply.Ended != nil:
			closeAll(fds)
			s.ended(*reply.Ended)
		default:
			closeAll(fds)
			return fmt.Errorf("%w: %s", ErrProtocol, data)
		}
	}
}

// started passes the answer on to who asked, if he still waits.
func (s *Sandbox) started(reply workerStarted, fds []int) {
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

func (s *Sandbox) ended(reply workerEnded) {
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
	err := s.config.Cgroup.Destroy(ctx)
	if s.workersGroup != nil {
		err = errors.Join(err, s.workersGroup.Remove()) // gone by now; it closes ours
	}
	return err
}
