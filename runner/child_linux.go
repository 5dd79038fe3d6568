package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/enforcer/cgroup"
)

// The bounds of what a child can make the daemon wait for. Each is enforced with SIGKILL on a pidfd: a worker is frozen until its child has left.
const (
	gateBound = 10 * time.Second // from the message to READY
	execBound = 10 * time.Second // from the release to execve
	killBound = 10 * time.Second // from SIGKILL to the kernel's word that nobody is left, unless all of them are stuck (stuckAfter)
)

// Child is one exec: a process at its gate, then released, then ended. It ends with Wait or Abort, one of which must be called.
// Kill may be called at any time by anyone; the other methods by one goroutine.
type Child struct {
	place  place
	worker *worker
	// giveBack takes the worker when the exec is over; clean says that its tree is proven empty.
	giveBack func(w *worker, clean bool)
	sequence uint64
	inv      enforcer.Invocation
	plan     *sentPlan
	gate     *gate
	pid      int
	expect   enforcer.Expect
	streams  [3]uint64 // inodes of the child's ends
	// terminal is what its streams are; nil: pipes.
	terminal *Terminal
	stdin    *feed
	stdout   *reader
	stderr   *reader
	// listener hears of calls, where the plan has one.
	listener *listener
	// cpuLimit is the processor time that the whole tree may use, by countCPU; 0: not limited so.
	cpuLimit time.Duration
	countCPU func() (time.Duration, error)
	// memoryLimit is how much memory the whole tree may hold, by countMemory; 0: nobody counts.
	memoryLimit int64
	countMemory func() (int64, error)

	// heard is what the worker has said so far; stuck, that what is left of the tree waits in the kernel, where no signal ends it.
	heard    heard
	stuck    bool
	released time.Time
	// waiting says that it is released and nobody reads its output yet; cpuBefore is what it had used when that ended.
	waiting   bool
	cpuBefore time.Duration

	// mu guards what Kill uses.
	mu    sync.Mutex
	pidfd int // -1 before BORN and after the end
	group *cgroup.Group
	// killed says that a kill of ours came while the leader lived, and why is the reason of the first.
	killed bool
	why    killReason
	// giveUp is when a killed tree is given up; zero: not killed.
	giveUp time.Time
	over   bool
	// done is closed with over, for the watches over processor time and memory.
	done chan struct{}
	// leave says that what the leader leaves behind may live on. spared says that it does, since the leader's end; condemned, that it doesn't whatever
	// happens, as it was told to end.
	leave, spared, condemned bool
}

// ErrLeft says that a child was killed on the way to its gate and that nobody has given his word on its end: what is left of it ends with its sandbox.
var ErrLeft = errors.New("its process isn't proven to be gone")

// Prepare starts a child and brings it to the gate, confined as the plan says. Nothing of the target runs. Errors: *StepError when a step
// wasn't answered as it must be ("execve" when the target can't be found); everything else is a failure of ours. After an error nothing is left,
// unless it is ErrLeft too.
func (s *Sandbox) Prepare(ctx context.Context, p enforcer.Plan, inv enforcer.Invocation, with IO) (*Child, error) {
	at, err := s.place()
	if err != nil {
		return nil, err
	}
	w, err := s.worker(ctx)
	if err != nil {
		return nil, err
	}
	wipe, born := s.execs.enter()
	defer born()
	at.wipe = wipe
	return prepare(ctx, at, w, s.giveBack, p, inv, with)
}

func (s *Sandbox) giveBack(w *worker, clean bool) {
	s.execs.leave()
	if clean {
		s.putWorker(w)
	} else {
		s.dropWorker(w)
	}
}

// prepare is Prepare with a worker in hand.
func prepare(ctx context.Context, at place, w *worker, giveBack func(*worker, bool), p enforcer.Plan, inv enforcer.Invocation, with IO) (*Child, error) {
	c := &Child{place: at, worker: w, giveBack: giveBack, sequence: sequence.Add(1), inv: inv, pidfd: -1, done: make(chan struct{}), waiting: with.Waiting, leave: with.Leave}
	ends, err := c.make(p, inv, with)
	if err != nil {
		c.scrap()
		giveBack(w, true)
		return nil, err
	}
	err = c.send(with, ends)
	for _, fd := range ends {
		unix.Close(fd)
	}
	c.gate.sent()
	if err != nil {
		c.scrap()
		giveBack(w, false)
		return nil, err
	}
	fault("child.sent")
	if err := c.toGate(ctx, with); err != nil {
		if exit := c.Abort(); !exit.TreeEmpty {
			err = fmt.Errorf("%w; %w", err, ErrLeft)
		}
		return nil, err
	}
	return c, nil
}

// make makes all that the child needs on the daemon's side, and gives its ends of stdin, stdout and stderr.
func (c *Child) make(p enforcer.Plan, inv enforcer.Invocation, with IO) (ends []int, err error) {
	defer func() {
		if err != nil {
			for _, fd := range ends {
				unix.Close(fd)
			}
		}
	}()
	if p.Terminal != (with.Terminal != nil) {
		return nil, fmt.Errorf("%w: a terminal is planned and not given, or given and not planned", ErrTable)
	}
	if len(with.Extra) != inv.Extra {
		return nil, fmt.Errorf("%w: %d extra descriptors given, %d said", ErrTable, len(with.Extra), inv.Extra)
	}
	if c.plan, err = sentPlans.get(p); err != nil {
		return nil, err
	}
	if err := check(p, inv); err != nil {
		return nil, err
	}
	if c.gate, err = newGate(); err != nil {
		return nil, err
	}
	if with.Terminal != nil {
		ends, err = c.terminalStreams(p, with)
	} else {
		ends, err = c.pipes(p, with)
	}
	if err != nil {
		return ends, err
	}
	if p.Kill == enforcer.KillCgroup {
		c.group, err = c.place.newGroup(c.sequence, p.Cgroup)
	}
	if err == nil {
		err = c.limitCPU(time.Duration(p.CPUTime) * time.Microsecond)
	}
	c.limitMemory(p.Memory)
	return ends, err
}

// pipes are the child's standard streams, each a pipe.
func (c *Child) pipes(p enforcer.Plan, with IO) (ends []int, err error) {
	var end int
	if c.stdin, end, err = newFeed(with.Stdin, with.Input); err != nil {
		return ends, err
	}
	ends = append(ends, end)
	if c.stdout, end, err = newReader("stdout", with, c.overLimit); err != nil {
		return ends, err
	}
	ends = append(ends, end)
	if c.stderr, end, err = newReader("stderr", with, c.overLimit); err != nil {
		return ends, err
	}
	ends = append(ends, end)
	return ends, errors.Join(c.note(ends), c.ownStreams(p, ends))
}

// terminalStreams are those of a child with a terminal: all of its output is one stream.
func (c *Child) terminalStreams(p enforcer.Plan, with IO) (ends []int, err error) {
	if !with.Unkept || with.Leave || with.Waiting || with.Input != nil || len(with.Stdin) > 0 {
		return nil, fmt.Errorf("%w: a terminal with other streams, or to be left behind", ErrTable)
	}
	c.terminal = with.Terminal
	c.stdin = &feed{}
	c.stdout = &reader{name: "stdout", file: with.Terminal.ours, tee: with.Tee, unkept: true, terminal: true, done: make(chan struct{}), rest: make(chan struct{})}
	var none int
	if c.stderr, none, err = newReader("stderr", with, nil); err != nil {
		return nil, err
	}
	unix.Close(none) // it ends when it begins
	return with.Terminal.ends(p)
}

// ownStreams makes the pipes the child's, so that it can open /dev/stdout.
func (c *Child) ownStreams(p enforcer.Plan, ends []int) error {
	if c.place.streams {
		for i, fd := range ends { // to read stdin, and to write to the others
			if err := unix.Fchmod(fd, [3]uint32{0o604, 0o602, 0o602}[i]); err != nil {
				return os.NewSyscallError("fchmod", err)
			}
		}
	}
	if !p.SetIDs || os.Geteuid() != 0 {
		return nil
	}
	for _, fd := range ends {
		if err := unix.Fchown(fd, p.Identity.UID, p.Identity.GID); err != nil {
			return os.NewSyscallError("fchown", err)
		}
	}
	return nil
}

// toGate waits for BORN and READY.
func (c *Child) toGate(ctx context.Context, with IO) error {
	c.gate.bound(time.Now().Add(gateBound))
	c.within(gateBound)
	stop := context.AfterFunc(ctx, func() { c.gate.bound(time.Unix(1, 0)) })
	defer stop()
	born, err := c.gate.born()
	c.mu.Lock()
	c.pidfd, c.pid = born.pidfd, born.pid
	c.mu.Unlock()
	if err != nil {
		return c.lost(ctx, err)
	}
	fault("child.born")
	if born.kind != kindBorn {
		return c.unexpected(born)
	}
	// A child that is reaped already left no pidfd to hold, but it left word of why.
	reaped := born.pidfd < 0
	ready, err := c.ready()
	if err != nil {
		return c.lost(ctx, err)
	}
	fault("child.ready")
	closeFD(ready.pidfd)
	if ready.kind != kindReady {
		return c.unexpected(ready)
	}
	if reaped || ready.pid == 0 {
		return c.unreleasable(ctx)
	}
	if ready.pid != c.pid {
		return fmt.Errorf("%w: READY is of process %d, BORN of %d", ErrProtocol, ready.pid, c.pid)
	}
	if err := c.describe(with, int(ready.step)+int(ready.result)); err != nil {
		return err
	}
	c.within(0)
	return nil
}

// ready waits for READY, and takes the listener of a filter that has one on the way there.
func (c *Child) ready() (said, error) {
	s, err := c.gate.receive()
	if err != nil || s.kind != kindListener || !c.plan.plan.Listens() || c.listener != nil {
		return s, err
	}
	closeFD(s.pidfd)
	if c.pidfd >= 0 { // else it is reaped already, and what it left is its end
		if s.pid != c.pid {
			return said{pidfd: -1}, fmt.Errorf("%w: a listener of process %d, want %d", ErrProtocol, s.pid, c.pid)
		}
		if err := c.listen(); err != nil {
			return said{pidfd: -1}, err
		}
	}
	return c.gate.receive()
}

// unexpected is the error of a message that isn't the one that was waited for.
func (c *Child) unexpected(s said) error {
	if s.kind == kindStep {
		return c.stepError(int(s.step), s.result)
	}
	return fmt.Errorf("%w: message %#x on the gate", ErrProtocol, s.kind)
}

// lost is the error of a gate that ended, or was silent for too long, before READY. The worker knows more.
func (c *Child) lost(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !errors.Is(err, io.EOF) {
		return fmt.Errorf("gate: %w", err)
	}
	if err := c.untilExit(); err != nil {
		return err
	}
	if err := c.failed(); err != nil {
		return err
	}
	return fmt.Errorf("child died before its gate: %s", statusText(c.heard.status()))
}

// PID is the child's, in the daemon's PID namespace.
func (c *Child) PID() int { return c.pid }

// Expect is what the daemon knows of this child.
func (c *Child) Expect() enforcer.Expect { return c.expect }

// Release lets the child go on: one byte. A child that has ended (os.ErrProcessDone), or a gate on which something was said after READY, is an error.
func (c *Child) Release() error {
	if !c.released.IsZero() {
		return fmt.Errorf("%w: released twice", ErrProtocol)
	}
	c.mu.Lock()
	over := c.over
	gone := over || c.pidfd < 0 || ended(c.pidfd)
	c.mu.Unlock()
	if over || ended(int(c.worker.pidfd.Fd())) {
		return fmt.Errorf("release: the worker: %w", os.ErrProcessDone)
	}
	if spoke, err := c.gate.spoke(); err != nil || spoke || gone {
		return c.unreleasable(context.Background())
	}
	c.listener.begin()
	c.released = time.Now()
	fault("child.release")
	if err := c.gate.open(); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	if !c.waiting {
		c.flow()
	}
	if c.cpuLimit > 0 {
		go c.watchCPU(c.cpuLimit)
	}
	if c.memoryLimit > 0 {
		go c.watchMemory(c.memoryLimit)
	}
	return nil
}

// flow has the child's streams read and written from here on.
func (c *Child) flow() {
	go c.stdout.run()
	go c.stderr.run()
	if c.stdin.file != nil {
		go c.stdin.run()
	}
}

// unreleasable is the error of a child that isn't waiting at its gate: what it left there, or what its worker says.
func (c *Child) unreleasable(ctx context.Context) error {
	c.gate.bound(time.Now().Add(gateBound))
	c.within(gateBound)
	defer c.within(0)
	s, err := c.gate.receive()
	if err != nil {
		return fmt.Errorf("%w: %w", os.ErrProcessDone, c.lost(ctx, err))
	}
	closeFD(s.pidfd)
	return c.unexpected(s)
}

func statusText(s syscall.WaitStatus) string {
	if s.Signaled() {
		return "signal " + s.Signal().String()
	}
	return fmt.Sprintf("exit status %d", s.ExitStatus())
}
