package runner

import (
	"errors"
	"io"
	"runtime"
	"runtime/debug"
	"syscall"
)

// shepherd is the worker process: the parent of one child at a time, the subreaper of all that comes of it, and the one that kills it. It is
// one goroutine on the main thread: a child's PDEATHSIG is bound to the thread that made it, and while a vfork child hasn't left, nothing else
// in this process gets far.
type shepherd struct {
	socket int
	inbox  inbox
	plans  plans
	target target
	spawner
	// scoped says that this process is in a Landlock domain of its own with the signal scope: kill(-1) can't reach beyond its tree.
	scoped bool
	// argv and envp are the pointers that execve gets, into the message.
	argv []uintptr
	envp []uintptr
	// leader is the child's pid while it isn't reaped, sequence the number of its exec.
	leader   int
	sequence uint64
	reaped   int
	// leave says that this exec's tree may outlive its leader.
	leave bool
	wait  waiting
	// treeUID and treeGID are who the tree runs as.
	treeUID int
	treeGID int
	// out is the message being sent.
	out []byte
	// served counts execs, for the collector.
	served int
}

// RunWorker is the worker process; fd is its socket to the daemon. It returns the process's exit status.
func RunWorker(fd int) int {
	w := &shepherd{socket: fd}
	fault("worker.start")
	if err := w.start(); err != nil {
		w.refuse(stepWorker, err)
		return 1
	}
	// A collection in the middle of an exec waits for the child to leave. What an exec needs is reused; the little that isn't is collected here.
	debug.SetGCPercent(-1)
	for {
		message, err := w.inbox.receive(w.socket)
		if errors.Is(err, io.EOF) {
			return 0 // idle: there is no tree
		}
		if err != nil {
			w.refuse(stepMessage, err)
			return 1
		}
		if message.kind != kindExec {
			continue // an order to kill what has ended meanwhile
		}
		fault("worker.exec")
		if err := w.exec(message); err != nil {
			var failure *failure
			if !errors.As(err, &failure) {
				_ = w.killTree()
				_ = w.end() // reap them: whoever they would go to may not
				return 1
			}
			w.refuse(failure.step, failure.err)
		}
		if w.served++; w.served%collectEvery == 0 {
			runtime.GC()
		}
	}
}

// collectEvery is after how many execs the worker, idle, collects its garbage: some hundred bytes each.
var collectEvery = 1024

// failure says that a child could not be started, and that the worker is idle again.
type failure struct {
	step string
	err  error
}

func (f *failure) Error() string { return f.step + ": " + f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// refuse tells the daemon what couldn't be done.
func (w *shepherd) refuse(step string, err error) {
	header := failedHeader{kind: kindFailed, sequence: w.sequence, step: uint32(len(step))}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		header.errno = uint32(errno)
	}
	text := err.Error()
	text = text[:min(len(text), 4096)]
	header.text = uint32(len(text))
	w.out = append(w.out[:0], bytesOf(&header)...)
	w.out = append(append(w.out, step...), text...)
	w.send(w.out)
}

// send gives the daemon a message. If nobody takes it, the next receive says so.
func (w *shepherd) send(message []byte) {
	for {
		_, err := syscall.Write(w.socket, message)
		if !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}
