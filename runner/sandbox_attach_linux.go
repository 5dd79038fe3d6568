package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/enforcer/network/fence"
	"github.com/sandboxd/sandboxd/enforcer/procfs"
	"github.com/sandboxd/sandboxd/policy"
)

// Attachment is a launcher that somebody else started and that has connected. Attach owns Socket, PidFD and Fence from then on.
type Attachment struct {
	// Socket is the accepted connection, non-blocking. PID and PidFD are its peer's, by the kernel's word (SO_PEERCRED, SO_PEERPIDFD).
	Socket *os.File
	PID    int
	PidFD  *os.File
	// Spec is what the launcher is to be, Private the daemon's directories that it must not see.
	Spec    enforcer.AttachedSpec
	Private []string
	// Fence is what holds the network that launcher and daemon share; nil: the filter alone does.
	Fence *fence.Fence
}

// peer is a launcher that isn't our child: the kernel tells of its end by its pidfd, and of how it ended nobody.
type peer struct {
	pid     int
	pidfd   *os.File
	private []string
	uid     int
	// left are processes that it had started and that lived when it ended, by number and start time.
	left map[int]uint64
}

// wait returns when the launcher has ended.
func (p *peer) wait() {
	polls := []unix.PollFd{{Fd: int32(p.pidfd.Fd()), Events: unix.POLLIN}}
	for {
		if n, err := unix.Poll(polls, -1); n > 0 || err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

func (p *peer) ended() bool { return ended(int(p.pidfd.Fd())) }

// Attach makes a sandbox of a launcher that has connected: it becomes the daemon's own binary, is read, and what was found is held against what it
// is to be. Config.Plan is ignored. On an error the launcher has been told to end.
func Attach(ctx context.Context, c Config, a Attachment) (*Sandbox, error) {
	s := &Sandbox{config: c, slots: make(chan struct{}, c.MaxWorkers), all: map[uint64]*worker{}, asked: map[uint64]chan<- startedWorker{},
		gone: make(chan struct{}), fence: a.Fence, peer: &peer{pid: a.PID, pidfd: a.PidFD, private: a.Private, uid: a.Spec.UID}}
	err := c.validate()
	if err == nil {
		s.link, err = newLink(a.Socket)
	}
	if err != nil {
		a.Socket.Close()
		a.PidFD.Close()
		if a.Fence != nil {
			a.Fence.Close()
		}
		return nil, err
	}
	err = s.greet(ctx, a.Spec)
	s.closing.Store(err != nil)
	go s.listen()
	if err == nil {
		return s, nil
	}
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), startLimit)
	defer cancel()
	return nil, errors.Join(err, s.Close(clean))
}

// greet has the launcher become ours, and reads it.
func (s *Sandbox) greet(ctx context.Context, spec enforcer.AttachedSpec) error {
	if err := s.link.deadline(time.Now().Add(startLimit)); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { s.link.deadline(time.Unix(1, 0)) })
	defer stop()
	if err := s.link.send(launcherOrder{Execute: true}, int(s.config.Binary.Fd())); err != nil {
		return fmt.Errorf("sandbox: send the launcher's binary: %w", err)
	}
	reply, fds, err := s.firstWord()
	closeAll(fds)
	if err != nil {
		return err
	}
	if reply.Ready == nil {
		return fmt.Errorf("%w: the launcher isn't ready", ErrProtocol)
	}
	found, err := enforcer.ObserveAttached(s.peer.pid, s.config.Host.Opaque, s.fence)
	if err != nil {
		return err
	}
	found.Hostname = reply.Ready.Hostname
	s.config.Plan = enforcer.BuildAttached(s.config.Host, spec, found)
	if s.state, s.verdict, err = s.observeAttached(reply.Ready.Hostname); err != nil {
		return err
	}
	if err := s.alone(); err != nil {
		return err
	}
	if !s.verdict.Held() {
		return &MismatchError{Verdict: s.verdict}
	}
	return nil
}

// alone adds that no process of the launcher's uid is there but itself: one that an earlier launcher left behind could pass for one. It says nothing where
// the daemon has that uid too.
func (s *Sandbox) alone() error {
	if s.peer.uid == os.Geteuid() {
		return nil
	}
	others, err := enforcer.OfUser(s.peer.uid, s.peer.pid)
	if err != nil {
		return err
	}
	got := "none"
	if len(others) > 0 {
		got = fmt.Sprint(others)
	}
	s.verdict.Rows = append(s.verdict.Rows, policy.Row{Control: "launcher.others of its uid", Want: "none", Got: got, Held: got == "none", Evidence: policy.EvidenceKernel})
	return nil
}

// observeAttached is observe of a launcher that isn't our child.
func (s *Sandbox) observeAttached(said string) (enforcer.SandboxState, policy.Verdict, error) {
	state, err := enforcer.ObserveAttached(s.peer.pid, s.config.Host.Opaque, s.fence)
	if err != nil {
		return state, policy.Verdict{}, err
	}
	// Read by number, so look again by pidfd: if the launcher lives now, the number was its own all along.
	if s.peer.ended() {
		return state, policy.Verdict{}, fmt.Errorf("launcher %d: %w", s.peer.pid, os.ErrProcessDone)
	}
	state.Hostname = said
	verdict := enforcer.CheckAttached(s.config.Plan, s.config.Host, state, s.peer.private)
	verdict.Rows = append(verdict.Rows, policy.Row{Control: "launcher.executable", Want: "the daemon's sealed binary", Got: "the daemon's sealed binary", Held: true,
		Evidence: policy.EvidenceReport})
	return state, verdict, nil
}

// kill ends the launcher, and with it all that it has started. One that isn't our child is told to by the end of its socket: to kill it would leave what
// it has started to nobody.
func (s *Sandbox) kill() error {
	if s.peer == nil {
		return s.process.Kill()
	}
	var failed error
	err := s.link.raw.Control(func(fd uintptr) { failed = unix.Shutdown(int(fd), unix.SHUT_RDWR) })
	if err != nil || errors.Is(failed, unix.ENOTCONN) { // the socket is closed, by us or by it
		return os.ErrProcessDone
	}
	return os.NewSyscallError("shutdown", failed)
}

// through has the launcher send a signal.
func (s *Sandbox) through(pidfd int, signal unix.Signal) error {
	return s.link.send(launcherOrder{Signal: int(signal)}, pidfd)
}

// cutWorkers ends the sockets of workers whose launcher has ended without them, so that each kills its tree and ends.
func (s *Sandbox) cutWorkers() {
	if s.peer == nil {
		return
	}
	s.peer.left = map[int]uint64{}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.all {
		if w.conn == nil || w.pid == 0 {
			continue
		}
		tree, _ := procfs.Descendants(w.pid) // who isn't read here is killed by its worker all the same
		for _, pid := range append(tree, w.pid) {
			if began, err := startTime(pid); err == nil {
				s.peer.left[pid] = began
			}
		}
		if raw, err := w.conn.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) }) // ENOTCONN: it is gone
		}
	}
}

func startTime(pid int) (uint64, error) {
	process, err := procfs.Open(pid)
	if err != nil {
		return 0, err
	}
	defer process.Close()
	if process.Ended() {
		return 0, os.ErrProcessDone
	}
	return process.StartTime()
}

// awaitLeft waits until nothing is left that a launcher of somebody else's had started.
func (s *Sandbox) awaitLeft(ctx context.Context) error {
	if s.peer == nil {
		return nil
	}
	defer s.peer.pidfd.Close()
	for {
		for pid, began := range s.peer.left {
			if now, err := startTime(pid); err != nil || now != began {
				delete(s.peer.left, pid)
			}
		}
		if len(s.peer.left) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("sandbox: processes %v are left of launcher %d: %w", s.peer.left, s.peer.pid, ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}
