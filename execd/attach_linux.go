package execd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/enforcer/network/fence"
	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/runner"
)

// errNoLauncher is what a request finds while nobody has connected.
var errNoLauncher = errors.New("no launcher is connected")

// attachAgain is how long after a launcher that wasn't fit the next may come, and attachSeldom how long at most after many.
const (
	attachAgain  = 200 * time.Millisecond
	attachSeldom = 2 * time.Second
)

// attachLaunchers takes launchers, one after the other, until the service ends. While there is none, the service isn't ready.
func (s *Service) attachLaunchers() {
	said, pause := "", attachAgain
	for s.life.Err() == nil {
		s.sandboxes.troubled(fmt.Errorf("%w; it is waited for at %s, as uid %d", errNoLauncher, s.config.Attach.Socket, s.config.Attach.UID))
		err := s.attachNext()
		if s.life.Err() != nil {
			return
		}
		if err == nil {
			said, pause = "", attachAgain
			continue
		}
		s.sandboxes.troubled(err)
		if said != err.Error() { // once, however often it is tried
			said = err.Error()
			s.logger.Error("launcher", "error", err)
		}
		select {
		case <-s.life.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, attachSeldom)
	}
}

// attachNext is one launcher's life: the network is closed, then the socket is there, then the launcher is read and held against what it is to be, and then
// it is the sandbox until it ends.
func (s *Service) attachNext() error {
	held, plan, err := s.holdNetwork()
	if err != nil {
		return err
	}
	who, err := s.awaitLauncher()
	if err != nil {
		if held != nil {
			held.Close()
		}
		return err
	}
	ctx, cancel := context.WithTimeout(s.life, s.config.SandboxTimeout)
	defer cancel()
	box := &sandbox{id: newID(), created: time.Now(), kept: true, shared: true, owner: Self(), release: func() {}}
	who.Spec, who.Private, who.Fence = s.config.Attach.spec(plan), s.privateDirs(), held
	box.Sandbox, err = runner.Attach(ctx, runner.Config{Binary: s.binary, Host: s.host, MaxWorkers: s.config.MaxWorkers, Logger: s.logger}, who)
	if err != nil {
		s.recordUnfit(err)
		return fmt.Errorf("a launcher that isn't fit: %w", err)
	}
	if err := s.adopt(box); err != nil {
		return err
	}
	select {
	case <-box.Gone():
		s.logger.Warn("the launcher is gone", "sandbox", box.id)
		s.sandboxes.retire(box)
	case <-s.life.Done():
	}
	return nil
}

// holdNetwork makes what holds the network that the launcher will share, before anybody can connect: the fence by uid, or the socket of the relay as a
// proxy, or nothing, where the filter alone refuses all.
func (s *Service) holdNetwork() (*fence.Fence, fence.Plan, error) {
	var plan fence.Plan
	switch {
	case s.host.PodFence:
		plan = s.podPlan
	case s.config.Attach.ProxyPort != 0:
		plan = fence.Proxy(uint16(s.config.Attach.ProxyPort))
	default:
		return nil, plan, nil
	}
	fds, err := fence.Apply(plan, fence.Here)
	if err != nil {
		return nil, plan, err
	}
	held, err := fence.Hold(plan, fds)
	return held, plan, err
}

// awaitLauncher listens until a launcher has connected. The socket is gone when it returns.
func (s *Service) awaitLauncher() (runner.Attachment, error) {
	path := s.config.Attach.Socket
	if err := socketDir(filepath.Dir(path), true); err != nil {
		return runner.Attachment{}, err
	}
	if err := clearPath(path); err != nil {
		return runner.Attachment{}, err
	}
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		return runner.Attachment{}, fmt.Errorf("launcher's socket: %w", err)
	}
	defer func() { _ = l.Close() }() // which takes the path away
	// It isn't the file's mode that decides, but the kernel's word on who connects.
	if err := unix.Chmod(path, 0o666); err != nil {
		return runner.Attachment{}, fmt.Errorf("launcher's socket: %w", err)
	}
	stop := context.AfterFunc(s.life, func() { _ = l.Close() })
	defer stop()
	refuse := s.refuseConnections()
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return runner.Attachment{}, fmt.Errorf("launcher's socket: %w", err)
		}
		who, caller, err := launcherOf(conn, s.config.Attach.UID)
		conn.Close() // its descriptor is another by now
		if err == nil {
			return who, nil
		}
		refuse(caller, sentence(err))
	}
}

// launcherOf is who has connected, by the kernel's word.
func launcherOf(conn *net.UnixConn, uid int) (who runner.Attachment, caller policy.Caller, err error) {
	if caller, err = peerOf(conn); err != nil {
		return who, caller, err
	}
	switch {
	case caller.UID != uid:
		return who, caller, fmt.Errorf("uid %d connected to the launcher's socket, which is uid %d's", caller.UID, uid)
	case caller.PID == 0:
		return who, caller, errors.New("the launcher is in a PID namespace that isn't seen from here: have the containers share one (shareProcessNamespace: true)")
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return who, caller, err
	}
	pidfd := -1
	if failed := raw.Control(func(fd uintptr) {
		pidfd, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEERPIDFD)
		if errors.Is(err, unix.ENOPROTOOPT) { // before 6.5: by number, which is still its own if it is there after
			pidfd, err = unix.PidfdOpen(caller.PID, 0)
		}
	}); failed != nil || err != nil {
		return who, caller, errors.Join(failed, err)
	}
	socket := -1
	if failed := raw.Control(func(fd uintptr) { socket, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 3) }); failed != nil || err != nil {
		unix.Close(pidfd)
		return who, caller, errors.Join(failed, err)
	}
	return runner.Attachment{Socket: os.NewFile(uintptr(socket), "launcher"), PID: caller.PID, PidFD: os.NewFile(uintptr(pidfd), "pidfd")}, caller, nil
}

// adopt makes a launcher that is fit the daemon's sandbox, once that is on the disk.
func (s *Service) adopt(box *sandbox) error {
	record := audit.Record{Type: audit.TypeSandbox, Sandbox: box.id, Verdict: recordedVerdict(box.Verdict(), box.Verdict().Digest()),
		Message: fmt.Sprintf("a launcher has connected: process %d of uid %d", box.PID(), s.config.Attach.UID)}
	ctx, cancel := context.WithTimeout(s.life, s.config.RecordTimeout)
	defer cancel()
	if _, err := s.log.Append(ctx, record); err != nil {
		return errors.Join(err, box.Close(ctx))
	}
	s.sandboxes.share(box)
	s.logger.Info("a launcher has connected", "sandbox", box.id, "pid", box.PID(), "tier", s.host.Tier())
	if box.outlet != nil && box.outlet.fence.Plan().Variant == fence.VariantPod {
		box.outlet.watch() // what goes out past the relay goes out past it also while nothing is let out
	}
	s.chores.Go(s.proveStart)
	return nil
}

// recordUnfit writes down why a launcher isn't the sandbox.
func (s *Service) recordUnfit(cause error) {
	record := audit.Record{Type: audit.TypeMismatch, Message: "a launcher that isn't fit: " + sentence(cause)}
	var mismatch *runner.MismatchError
	if errors.As(cause, &mismatch) {
		record.Verdict = recordedVerdict(mismatch.Verdict, mismatch.Verdict.Digest())
	}
	ctx, cancel := context.WithTimeout(s.life, s.config.RecordTimeout)
	defer cancel()
	if _, err := s.log.Append(ctx, record); err != nil {
		s.logger.Error("audit", "type", record.Type, "error", err)
	}
}

// privateDirs are the daemon's directories that a launcher must not see.
func (s *Service) privateDirs() []string {
	var all []string
	for _, directory := range []string{s.config.StateDir, s.config.auditDir(), s.config.PolicyDir, s.config.ProfileDir} {
		if directory != "" {
			all = append(all, resolved(directory))
		}
	}
	return all
}

// openAttached makes what a dry run is built against while no launcher has shown what it is like.
func (s *Service) openAttached() {
	var held fence.Plan
	switch {
	case s.host.PodFence:
		held = s.podPlan
	case s.config.Attach.ProxyPort != 0:
		held = fence.Proxy(uint16(s.config.Attach.ProxyPort))
	}
	s.pattern = enforcer.BuildAttached(s.host, s.config.Attach.spec(held), enforcer.SandboxState{})
}

// probeAttached asks the host what it can do, the fence by uid above all: owned by the daemon where the kernel knows that, since nobody else may change
// it then.
func (s *Service) probeAttached() (err error) {
	c, why := enforcer.HostConfig{Attached: true}, ""
	if s.config.Attach.UID == os.Geteuid() {
		s.host, err = enforcer.ProbeHost(c)
		s.host.PodFenceWhy = "launcher and daemon have one uid, and a fence by uid can't tell them apart"
		return err
	}
	for _, persist := range []bool{true, false} {
		if s.podPlan, err = s.config.Attach.podFence(enforcer.IPv6(), persist); err != nil {
			return err
		}
		c.PodFence = s.podPlan
		if s.host, err = enforcer.ProbeHost(c); err != nil || s.host.PodFence {
			return err
		}
		if persist {
			why = s.host.PodFenceWhy
		}
	}
	if s.host.PodFenceWhy != why {
		s.host.PodFenceWhy += "; as a table with an owner: " + why
	}
	return nil
}
