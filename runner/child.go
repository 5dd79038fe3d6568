package runner

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/sandboxd/sandboxd/policy"
)

// IO is what goes into a child and comes out of it, besides its exit.
type IO struct {
	// Stdin is what the child reads; then end of file.
	Stdin []byte
	// Input is, in place of Stdin, the read end of a pipe that somebody else writes to; it stays the caller's.
	Input *os.File
	// OutputBytes is how much of stdout, and of stderr, is kept.
	OutputBytes int64
	// OnLimit says what more output than that does: "truncate" (or empty) counts and drops it, "kill" ends the tree.
	OnLimit string
	// Tee gets all kept bytes as they come; stream is "stdout" or "stderr". It is called by one goroutine a stream.
	Tee func(stream string, chunk []byte)
	// Extra are the child's descriptors from 3. They stay the caller's to close.
	Extra []*os.File
	// Unkept passes all output to Tee, at its pace, and keeps none: OutputBytes and OnLimit say nothing then. The bytes are the tee's until it returns.
	Unkept bool
	// Leave has what the leader leaves behind live on: [Child.Wait] returns with Exit.Left, and [Child.WaitLeft] must follow.
	Leave bool
	// Terminal is the child's for its standard streams, with a plan that has one, and Unkept; the rest of what streams may be goes without saying. Stdin is
	// empty then: who writes to the terminal is somebody else.
	Terminal *Terminal
	// Waiting says that the child is started ahead: after its release nobody reads its output, and its time doesn't run, until [Child.Begin].
	Waiting bool
}

// OnLimit's values.
const (
	Truncate = "truncate"
	KillTree = "kill"
)

// Exit is how an exec ended.
type Exit struct {
	// Status is the leader's, from wait4(2), if Known. Without it the worker died first, or the leader can't die.
	Status syscall.WaitStatus
	Known  bool
	Rusage syscall.Rusage
	// Killed says that we sent the SIGKILL while the leader was alive: a leader that ended first has ended by itself.
	Killed bool
	// TreeEmpty says that no process of the exec is left; TreeEvidence how that is known: "kernel" from its cgroup's events or its
	// worker's children, "report" by the worker's word alone. Where it is false, the worker has been given up.
	TreeEmpty    bool
	TreeEvidence policy.Evidence
	// Left says that processes of the tree live on, as IO.Leave wants: TreeEmpty is false for that.
	Left bool
	// Reaped is how many processes the worker reaped after the leader.
	Reaped int
	// OOMKills is how many processes of the exec the kernel killed for memory.
	OOMKills int64
	// OutputLimit says that the tree was killed for its output.
	OutputLimit bool
	// CPULimit says that it was killed for its processor time, MemoryLimit for the memory that it held by our count, Uncounted that one of the
	// two could no longer be counted.
	CPULimit    bool
	MemoryLimit bool
	Uncounted   bool
	// CPUTime is what the whole tree has used, where the plan limits that; else, or where it can't be read, 0.
	CPUTime time.Duration
	// Calls are what the filter's listener heard of, where the plan has one; CallsCut says that it heard of more than it keeps.
	Calls    []Call
	CallsCut bool
	Stdout   Output
	Stderr   Output
	// Stuck says that the tree isn't empty since all that is left of it waits in the kernel, where no signal ends it: nobody need wait for it.
	Stuck bool
	// Duration runs from release to the leader's end; of a child that waited, from Begin.
	Duration time.Duration
	// CPUBefore is the processor time that a child which waited had used by Begin. Rusage has it too.
	CPUBefore time.Duration
}

// Output is one stream.
type Output struct {
	// Data has the first bytes, cut on a character boundary where they are UTF-8.
	Data []byte
	// Total is how many bytes were written.
	Total int64
	// Truncated says that there were more than were kept.
	Truncated bool
	// Incomplete says that somebody outside the tree kept the stream open, and reading was given up.
	Incomplete bool
}

// StepError says which step of the child wasn't answered as it must be. The child is dead and nothing of the target ran.
type StepError struct {
	// Step is the step's name: "execve" when the target couldn't be found or executed.
	Step string
	// Errno is the kernel's answer; 0 when it did what it should have refused, or answered another value.
	Errno syscall.Errno
	// Control says that the child isn't confined as planned: a step to its gate failed, or a forbidden act was not refused as it must be. The
	// steps that only the request can make fail, "chdir" and "execve", are none; nor is a gate that closed, nor what failed before the child was born.
	Control bool
	// Probe says that the step is a forbidden act.
	Probe bool
	// Want and Got are answers of the kernel in words.
	Want string
	Got  string
}

func (e *StepError) Error() string {
	if e.Want == "" {
		return fmt.Sprintf("step %s: %s", e.Step, e.Got)
	}
	return fmt.Sprintf("step %s: %s, want %s", e.Step, e.Got, e.Want)
}

func (e *StepError) Unwrap() error {
	if e.Errno == 0 {
		return nil
	}
	return e.Errno
}
