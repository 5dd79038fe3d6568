package runner

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"
	"unsafe"
)

// The messages between daemon and worker, and between daemon and child. Both ends are the same program's, on one machine and of one
// version, so numbers are in its byte order and structures are the kernel's own.
var order = binary.NativeEndian

// What a message is: its first four bytes.
const (
	kindExec     uint32 = 0x53420001 + iota // daemon to worker: one exec
	kindKill                                // daemon to worker: kill this exec's tree, although its leader lives
	kindTarget                              // worker to daemon, before the child is born: what was found under argv[0] and cwd
	kindFailed                              // worker to daemon: no child could be started
	kindExit                                // worker to daemon: the leader's end
	kindEmpty                               // worker to daemon: no child of mine is left, and I am idle
	kindBorn                                // child to daemon
	kindStep                                // child to daemon: a step wasn't answered as it must be; the child is dead
	kindReady                               // child to daemon: confined, at the gate
	kindListener                            // child to daemon: the filter's listener is there to be taken
)

// A child's messages are all of one size: kind, a count or step, a count or the kernel's answer.
const (
	gateSize  = 16
	bornSize  = gateSize
	readySize = gateSize
)

// gateMessage is what a child writes on its gate.
type gateMessage struct {
	kind uint32
	// step is the failing step, or how many steps were walked before READY.
	step uint32
	// result is the failing step's answer, or how many steps are left with READY.
	result int64
}

func parseGate(b []byte) (gateMessage, error) {
	if len(b) != gateSize {
		return gateMessage{}, fmt.Errorf("%w: %d bytes on the gate, want %d", ErrProtocol, len(b), gateSize)
	}
	return gateMessage{kind: order.Uint32(b), step: order.Uint32(b[4:]), result: int64(order.Uint64(b[8:]))}, nil
}

// ErrProtocol says that a worker or a child said something that it can't say. Both are killed.
var ErrProtocol = errors.New("runner: protocol")

// execHeader comes first in an exec message. The body is strings of C in this order: cwd, argv, env; then the plan's JSON.
// A body that doesn't fit a packet comes in a memfd, the last descriptor.
type execHeader struct {
	kind     uint32
	flags    uint32
	sequence uint64
	argc     uint32
	envc     uint32
	extra    uint32
	texts    uint32 // bytes of the strings
	plan     uint32 // bytes of the plan
	_        uint32
}

const execHeaderSize = int(unsafe.Sizeof(execHeader{}))

// The flags of an exec message.
const (
	flagFork   uint32 = 1 << iota // a plain fork instead of a vfork
	flagCgroup                    // descriptor 4 is the exec's cgroup
	flagMemfd                     // the body is in the last descriptor
	flagOwn                       // the target is the worker's own binary
	flagWipe                      // nobody else runs: what earlier execs left in the kernel is removed first
	flagLeave                     // what the leader leaves behind is killed on order only
)

// packetSize is the largest exec message that is sent as one packet, and the worker's buffer.
const packetSize = 64 << 10

// targetHeader is followed by the link texts of target and cwd.
type targetHeader struct {
	kind     uint32
	byPath   uint32
	sequence uint64
	target   uint32
	cwd      uint32
}

// failedHeader is followed by the text of the error.
type failedHeader struct {
	kind     uint32
	errno    uint32
	sequence uint64
	step     uint32 // bytes of the step's name, before the text
	text     uint32
}

// Names of steps that are the worker's own, and of no exec.
const (
	stepWorker  = "worker"
	stepMessage = "message"
)

// exitMessage is the leader's end.
type exitMessage struct {
	kind     uint32
	flags    uint32
	sequence uint64
	status   uint32
	// step and result are the failing step as the child left it in shared memory, for when the gate couldn't carry it.
	step   uint32
	result int64
	// reaped is that of an emptyMessage, with exitEmpty.
	reaped uint32
	_      uint32
	rusage syscall.Rusage
}

// The flags of an exit message.
const (
	exitStepFailed uint32 = 1 << iota // step and result are set
	exitExecuted                      // execve passed its point of no return
	exitEmpty                         // nobody else was left: this is the emptyMessage too
)

// emptyMessage says that wait4(-1, __WALL) answered ECHILD.
type emptyMessage struct {
	kind     uint32
	reaped   uint32
	sequence uint64
}

// killMessage orders the tree's end.
type killMessage struct {
	kind     uint32
	_        uint32
	sequence uint64
}

// bytesOf is a message as its bytes. Messages have no pointers.
func bytesOf[T any](message *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(message)), unsafe.Sizeof(*message))
}

// readMessage fills a message from the beginning of b and gives the rest.
func readMessage[T any](message *T, b []byte) (rest []byte, err error) {
	size := int(unsafe.Sizeof(*message))
	if len(b) < size {
		return nil, fmt.Errorf("%w: a message of %d bytes, want %d", ErrProtocol, len(b), size)
	}
	copy(bytesOf(message), b)
	return b[size:], nil
}
