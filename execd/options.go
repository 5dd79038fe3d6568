package execd

import (
	"os"
	"time"

	"github.com/sandboxd/sandboxd/execd/spool"
	"github.com/sandboxd/sandboxd/policy"
)

// Options are what a caller wants besides the request.
type Options struct {
	// ResultMarker takes the value of the last result marker line from stdout.
	ResultMarker bool
	// Rows asks for every row of the verdict.
	Rows bool
	// ExplainDenials names the system calls that the seccomp filter refused, in the reply and in the record. The same calls are refused, each in a
	// detour by this process.
	ExplainDenials bool
	// Outputs lists in the reply of a run what is left in its outputs/, with up to so many bytes of content.
	Outputs       bool
	InlineOutputs int64
	// Observe hears at the end which system calls the filter allowed; the API has no word for it.
	Observe func(Observed)
	// Unkept gives all output to the Sink, at its pace, and keeps none for the reply: limits.outputBytes bounds nothing then.
	Unkept bool
	// Accepted hears of the exec's id and of the release's record, before anything is released.
	Accepted func(id string, sequence int64)
	// Running hears that the program runs, once it was looked at after its execve.
	Running func()
	// Aside is one more descriptor of an exec's program, its 3, by which a shell hands over what it leaves to the next; Exec closes it. nil: none.
	Aside *os.File
	// Stdin is the read end of a pipe that an exec's program reads in place of its request's stdin, and that somebody goes on writing to; Exec closes it.
	// nil: there is none.
	Stdin *os.File
	// Terminal is where somebody sits at the program: a terminal, of a request with Command.Terminal and of no other, or a pipe ([NewPipes]) in place of Stdin. With
	// Unkept, and for one exec at a time. nil: nobody does.
	Terminal *Terminal
	// Interrupt, when it is closed, has the tree asked to end by SIGTERM, and killed after InterruptGrace: also what was left behind by a program that has ended.
	Interrupt      <-chan struct{}
	InterruptGrace time.Duration
	// Inputs are those of a request whose program has none but their Bulk; they are the caller's to close, after the walk.
	Inputs *spool.Text
	// LongValue says that the caller takes a value which is too long for memory ([Reply.Value]), and closes the reply. For others a value is bounded by
	// limits.outputBytes, and for these by Config.ValueBytes.
	LongValue bool
	// NetworkUnsaid says that nothing was said of the network: where all execs share a sandbox, that sandbox's is meant.
	NetworkUnsaid bool
	// Sink hears of the decision and of output as it comes; nil: nobody does.
	Sink Sink
	// transfer is the content of a file operation.
	transfer *transfer
	// context is the code context whose interpreter this is, cellOf the one that this is a cell of.
	context *CodeContext
	cellOf  *CodeContext
	// after is the walk that this one belongs to: it happens in the same sandbox, when that has ended.
	after *walk
}

// Observed is what one exec has used of what its seccomp profile allows.
type Observed struct {
	Profile policy.SeccompProfile
	// Calls are names, sorted.
	Calls []string
}

// Sink hears what happens before the reply. Decision comes first; Output is called by one goroutine a stream and must not block for long: the
// child's output waits meanwhile. With [Options].Unkept that is what is wanted.
type Sink interface {
	Decision(policy.Decision)
	// Output is a piece of "stdout" or "stderr", never beyond the output limit. The bytes are the sink's to keep.
	Output(stream string, chunk []byte)
}

// OptionsOf are the options that a body has; rows asks for every row of the verdict.
func OptionsOf(o policy.ExecOptions, rows bool) Options {
	return Options{ResultMarker: o.ResultMarker, ExplainDenials: o.ExplainDenials, NetworkUnsaid: o.NetworkUnsaid, Rows: rows, Outputs: true, InlineOutputs: o.InlineOutputs}
}
