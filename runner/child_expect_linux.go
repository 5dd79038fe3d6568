package runner

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/enforcer/cgroup"
)

// place is what a child takes over from its sandbox.
type place struct {
	namespaces map[string]uint64
	root       string
	rootID     string
	workerID   string
	// parent is the sandbox's cgroup, workers the path of the one that its workers are in. worker is the workers' uid outside of any user namespace, who puts children into theirs.
	parent  *cgroup.Group
	workers string
	// groups are those that wait for an exec, nil: none is kept.
	groups *groups
	worker int
	// wipe has the worker remove first what earlier execs left.
	wipe bool
	// outline is the launcher's, where that is all that may be read of it.
	outline enforcer.Outline
	// through has the launcher send a signal that the daemon may not; nil: there is none to ask.
	through func(pidfd int, signal unix.Signal) error
	// streams says that the child's ends of its streams are another uid's, which must be let open them by their names in /dev.
	streams bool
}

// signal sends a signal to the process of a pidfd. What comes of it is asked of the pidfd.
func (p place) signal(pidfd int, signal unix.Signal) error {
	err := unix.PidfdSendSignal(pidfd, signal, nil, 0)
	if errors.Is(err, unix.EPERM) && p.through != nil {
		return p.through(pidfd, signal)
	}
	return err
}

// place is where this sandbox's children are.
func (s *Sandbox) place() (place, error) {
	state := s.State()
	at := place{
		namespaces: state.Namespaces, root: state.Root, rootID: state.RootID, workerID: state.ExeID,
		parent: s.root, groups: &s.groups, worker: s.config.Plan.Outside.UID,
		outline: state.Outline, through: s.through, streams: s.config.Plan.Attached != nil && s.config.Plan.Worker.UID != os.Geteuid(),
	}
	if s.config.Plan.Attached == nil {
		at.through = nil
	}
	if at.parent != nil {
		at.workers = s.workersGroup.Path()
	}
	return at, nil
}

// newGroup makes one exec's cgroup, or takes one that waits.
func (p place) newGroup(sequence uint64, values map[string]string) (*cgroup.Group, error) {
	if p.parent == nil {
		return nil, fmt.Errorf("%w: the plan kills by cgroup, and the sandbox has none", ErrTable)
	}
	if len(values) == 0 {
		if group := p.groups.take(); group != nil {
			return group, nil
		}
	}
	group, err := p.parent.Sub("exec-"+strconv.FormatUint(sequence, 10), p.worker, true)
	if err != nil {
		return nil, err
	}
	if err := group.Set(values); err != nil {
		return nil, errors.Join(err, group.Remove())
	}
	return group, nil
}

// describe writes down what this child must be like at its gate, besides its plan.
func (c *Child) describe(with IO, walked int) error {
	for c.heard.target == "" { // said before the child was born
		if err := c.next(); err != nil {
			return err
		}
		if c.heard.exit != nil || c.heard.failure != nil {
			return fmt.Errorf("%w: an end before a beginning", ErrProtocol)
		}
	}
	planned, err := c.plan.length(c.inv)
	if err != nil {
		return err
	}
	fds, err := c.descriptors(with)
	if err != nil {
		return err
	}
	c.expect = enforcer.Expect{
		PID: c.pid, WorkerPID: c.worker.pid, StepsPlanned: planned, StepsWalked: walked, FDs: fds, Extra: c.inv.Extra,
		Namespaces: c.place.namespaces, Root: c.place.root, RootID: c.place.rootID, WorkerID: c.place.workerID,
		Outline: c.place.outline, Cwd: c.inv.Cwd, Cgroup: c.place.workers, Own: c.inv.Own,
	}
	if c.terminal != nil {
		c.expect.Terminal = c.terminal.known
	}
	if c.heard.cwd != "" {
		c.expect.Cwd = c.heard.cwd
	}
	if !c.heard.byPath {
		c.expect.Target = c.heard.target
	}
	if c.group != nil {
		c.expect.Cgroup = c.group.Path()
	}
	return nil
}

// descriptors are the child's, by what was sent.
func (c *Child) descriptors(with IO) (map[int]string, error) {
	fds := make(map[int]string, 5+len(with.Extra))
	for i, inode := range c.streams {
		fds[i] = "pipe:[" + strconv.FormatUint(inode, 10) + "]"
		if c.terminal != nil {
			fds[i] = c.terminal.link
		}
	}
	for i, file := range with.Extra {
		text, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(file.Fd())))
		if err != nil {
			return nil, err
		}
		fds[3+i] = text
	}
	own := numbers(c.inv.Extra)
	fds[own.gate] = "socket:[" + strconv.FormatUint(c.gate.inode, 10) + "]"
	fds[own.target] = c.heard.target
	if c.listener != nil {
		fds[own.rules] = enforcer.Listener
	}
	return fds, nil
}

// note takes down which pipes the child gets.
func (c *Child) note(ends []int) error {
	for i, fd := range ends {
		inode, err := inodeOf(fd)
		if err != nil {
			return err
		}
		c.streams[i] = inode
	}
	return nil
}

// errnoName is the symbol of an errno.
func errnoName(errno unix.Errno) string {
	if name := unix.ErrnoName(errno); name != "" {
		return name
	}
	return "errno " + strconv.Itoa(int(errno))
}
