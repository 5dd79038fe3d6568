package runner

import (
	"context"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/enforcer/network/fence"
)

// startLimit bounds the making of a sandbox, which takes milliseconds, and the start of a worker.
const startLimit = 10 * time.Second

// namespaceFlags are clone(2)'s, by the names in /proc/PID/ns.
var namespaceFlags = map[string]uintptr{
	"ipc": unix.CLONE_NEWIPC, "mnt": unix.CLONE_NEWNS, "net": unix.CLONE_NEWNET, "pid": unix.CLONE_NEWPID, "user": unix.CLONE_NEWUSER, "uts": unix.CLONE_NEWUTS,
}

// Start makes a sandbox, reads it back and checks it. On an error nothing of it is left: [*LauncherError] when a step of its making failed,
// [*MismatchError] when the read-back isn't as planned.
func Start(ctx context.Context, c Config) (*Sandbox, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	s := &Sandbox{config: c, slots: make(chan struct{}, c.MaxWorkers), all: map[uint64]*worker{}, asked: map[uint64]chan<- startedWorker{},
		gone: make(chan struct{})}
	// Cleaning up has its own bound: it is needed all the more when ctx has ended.
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), startLimit)
	defer cancel()
	if err := s.spawn(); err != nil {
		return nil, errors.Join(err, s.removeGroups(clean))
	}
	fault("sandbox.spawned")
	err := s.setUp(ctx)
	s.closing.Store(err != nil)
	go s.listen()
	if err == nil {
		return s, nil
	}
	closeErr := s.Close(clean)
	if errors.Is(err, io.EOF) && closeErr == nil { // it ended without a word
		err = fmt.Errorf("%w: %s", err, s.ended)
	}
	return nil, errors.Join(err, closeErr)
}

// spawn starts the launcher in its new namespaces, with an empty environment and no descriptor but its socket.
func (s *Sandbox) spawn() error {
	attributes, err := s.attributes()
	if err != nil {
		return err
	}
	ours, theirs, err := socketpair()
	if err != nil {
		return err
	}
	defer theirs.Close()
	if s.link, err = newLink(ours); err != nil {
		ours.Close()
		return err
	}
	null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	if err != nil {
		ours.Close()
		return err
	}
	defer null.Close()
	socket, err := above(theirs, s.config.Binary)
	if err != nil {
		ours.Close()
		return err
	}
	defer socket.Close()
	if s.process, err = s.forkLauncher(null, socket, attributes); err != nil {
		ours.Close()
		return fmt.Errorf("sandbox: start the launcher: %w", err)
	}
	return nil
}

func (s *Sandbox) forkLauncher(null, socket *os.File, attributes *syscall.SysProcAttr) (*os.Process, error) {
	if errno := refusal("sandbox.fork"); errno != 0 {
		return nil, errno
	}
	return os.StartProcess("/proc/self/fd/"+strconv.Itoa(int(s.config.Binary.Fd())), []string{Name, "launcher"}, &os.ProcAttr{
		Dir: "/", Env: append(append([]string{}, sabotageEnv()...), faultEnv()...), Files: []*os.File{null, null, null, socket}, Sys: attributes,
	})
}

// above is a copy of a file with a higher number than another one. In the child, os.StartProcess moves its own descriptors to the numbers right above
// the highest that it was given, over whatever is there: the binary that is to be executed by its number must not be.
func above(file, other *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, int(other.Fd())+1)
	if err != nil {
		return nil, fmt.Errorf("F_DUPFD_CLOEXEC: %w", err)
	}
	return os.NewFile(uintptr(fd), file.Name()), nil
}

// attributes are clone(2)'s and what follows it. As an ordinary user the launcher is the one id of its user namespace, and not root there; the
// capabilities that it needs to make the sandbox would not survive its execve if they weren't ambient.
func (s *Sandbox) attributes() (*syscall.SysProcAttr, error) {
	plan := s.config.Plan
	attributes := &syscall.SysProcAttr{Setsid: true}
	for _, name := range plan.Namespaces {
		if name == "cgroup" {
			continue // the launcher's own step, when it is in its group: clone(2) would take the daemon's for the root
		}
		flag, ok := namespaceFlags[name]
		if !ok {
			return nil, fmt.Errorf("sandbox: namespace %q", name)
		}
		attributes.Cloneflags |= flag
	}
	if plan.UserNamespace() {
		attributes.UidMappings = []syscall.SysProcIDMap{{ContainerID: plan.Worker.UID, HostID: plan.Outside.UID, Size: 1}}
		attributes.GidMappings = []syscall.SysProcIDMap{{ContainerID: plan.Worker.GID, HostID: plan.Outside.GID, Size: 1}}
		attributes.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_NET_BIND_SERVICE, unix.CAP_NET_RAW, unix.CAP_SETPCAP}
		if plan.Image != "" { // overlayfs works in a directory of mode 0, with what whoever mounted it had then
			attributes.AmbientCaps = append(attributes.AmbientCaps, unix.CAP_DAC_OVERRIDE)
		}
	}
	if s.config.Cgroup != nil {
		first, err := s.makeGroups()
		if err != nil {
			return nil, err
		}
		attributes.UseCgroupFD, attributes.CgroupFD = true, first.FD()
	}
	return attributes, nil
}

// setUp hands the plan over, waits until the launcher has made it, and reads it back.
func (s *Sandbox) setUp(ctx context.Context) error {
	if err := s.mayBeKilled(); err != nil {
		return err
	}
	if err := s.link.deadline(time.Now().Add(startLimit)); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { s.link.deadline(time.Unix(1, 0)) })
	ready, err := s.handOver()
	if !stop() && ctx.Err() != nil {
		return fmt.Errorf("sandbox: %w", ctx.Err())
	}
	if err != nil {
		return err
	}
	if err := s.link.deadline(time.Time{}); err != nil {
		return err
	}
	if err := s.settle(); err != nil {
		return err
	}
	fault("sandbox.made")
	s.state, s.verdict, err = s.observe(ready.Hostname)
	if err != nil {
		return err
	}
	if !s.verdict.Held() {
		return &MismatchError{Verdict: s.verdict}
	}
	return nil
}

func (s *Sandbox) handOver() (*launcherReady, error) {
	plan, err := planFile(s.config.Plan)
	if err != nil {
		return nil, err
	}
	defer plan.Close()
	fds := []int{int(plan.Fd())}
	if root, there := s.config.Plan.Mounted("/"); there && root.RootUID != 0 {
		owners, err := ownersNamespace(s.config.Binary, root.RootUID, root.RootGID)
		if err != nil {
			return nil, fmt.Errorf("sandbox: %w", err)
		}
		defer owners.Close()
		fds = append(fds, int(owners.Fd()))
	}
	if s.config.Plan.Layered() {
		if s.config.Lower == nil {
			return nil, fmt.Errorf("sandbox: a layer is planned, and there is nothing that it lies on")
		}
		fds = append(fds, int(s.config.Lower.Fd()))
	}
	if err := s.link.send(launcherOrder{Plan: true}, fds...); err != nil {
		return nil, fmt.Errorf("sandbox: send the plan: %w", err)
	}
	fault("sandbox.sent")
	if s.config.Plan.Network.Variant != "" {
		reply, fds, err := s.firstWord()
		if err != nil {
			return nil, err
		}
		if !reply.Fence {
			closeAll(fds)
			return nil, fmt.Errorf("%w: the launcher's first word isn't its fence", ErrProtocol)
		}
		if s.fence, err = fence.Hold(s.config.Plan.Network, fds); err != nil {
			return nil, fmt.Errorf("sandbox: %w", err)
		}
		fault("sandbox.fenced")
	}
	reply, fds, err := s.firstWord()
	if err != nil {
		return nil, err
	}
	closeAll(fds)
	if reply.Ready == nil {
		return nil, fmt.Errorf("%w: the launcher isn't ready", ErrProtocol)
	}
	return reply.Ready, nil
}

// firstWord is what the launcher says while it makes the sandbox. Why it failed is an error.
func (s *Sandbox) firstWord() (reply launcherReply, fds []int, err error) {
	data, fds, err := s.link.receive(max(1, len(s.config.Plan.Network.Sockets)))
	if err != nil {
		return reply, nil, fmt.Errorf("sandbox: wait for the launcher: %w", err)
	}
	err = json.Unmarshal(data, &reply, strict)
	if err == nil && reply.Failed != nil {
		err = &LauncherError{Step: reply.Failed.Step, Errno: reply.Failed.Errno, Message: reply.Failed.Message}
	} else if err != nil {
		err = fmt.Errorf("sandbox: %w", err)
	}
	if err != nil {
		closeAll(fds)
	}
	return reply, fds, err
}

// planFile is a plan in a memfd: it has as many rows as the host has mounts to show, so no packet is long enough for all.
func planFile(plan enforcer.SandboxPlan) (*os.File, error) {
	fd, err := unix.MemfdCreate("plan", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	file := os.NewFile(uintptr(fd), "plan")
	if _, err := file.Write(encode(plan)); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}
