package runner

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// cloneVM is clone3(2) or clone(2), by its number, for a child that shares this memory and this stack; it is as good for one that doesn't. Arguments
// after the third are 0.
//
//go:noescape
func cloneVM(nr, a1, a2, a3 uintptr) (pid, errno uintptr)

// cloneArgs is struct clone_args.
type cloneArgs struct {
	flags      uint64
	pidfd      uint64
	childTID   uint64
	parentTID  uint64
	exitSignal uint64
	stack      uint64
	stackSize  uint64
	tls        uint64
	setTID     uint64
	setTIDSize uint64
	cgroup     uint64
}

// row is a [Step] bound to this process's memory.
type row struct {
	nr   uintptr
	args [6]uintptr
	want int64
	any  bool
	gate uintptr
}

// sharedWords is a page that parent and child both see, however the child was made. It is not of Go's heap, so nothing moves or frees it, and
// no write to it needs a barrier.
type sharedWords struct {
	born     gateWords
	ready    gateWords
	failed   gateWords // kind is 0 until a step fails
	listener gateWords
	gate     [2]byte
	released uint32 // 1 when the child has come past its gate
}

// gateWords is [gateMessage] in memory.
type gateWords struct {
	kind   uint32
	step   uint32
	result int64
}

// spawner is what the birth of a child needs, reused from one to the next. It lives on the heap: the kernel gets addresses of its fields, and
// those of a stack would go stale when the stack grows.
type spawner struct {
	args  cloneArgs
	rows  []row
	gate  int // index of the row after which the child is released
	words *sharedWords
	pidfd int32
	// old says that children are made by clone(2): a container's seccomp profile may answer ENOSYS to clone3(2), whose flags it can't see.
	old    bool
	nobody sigaction // no handler
	every  uint64    // all signals
	mask   uint64    // the mask to come back to
}

// exitGate is the status of a child that didn't come past its gate.
const exitGate = 120

// spawn makes the child. The calling thread must be locked, and is the one whose death kills the child. With vfork it comes back when the child
// has executed or exited, until when this thread, and soon any other that needs the garbage collector, stands still.
//
//go:norace
//go:nosplit
func (s *spawner) spawn() (pid int, errno syscall.Errno) {
	// A signal that came to the child before execve would run this process's handler in this process's memory. (CLONE_CLEAR_SIGHAND takes
	// the handlers away as well; the mask also keeps what comes until the child is confined.)
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&s.every)), uintptr(unsafe.Pointer(&s.mask)), 8, 0, 0)
	var child, failed uintptr
	if s.old {
		// The pidfd goes where CLONE_PARENT_SETTID, its other meaning, would put a pid.
		child, failed = cloneVM(unix.SYS_CLONE, uintptr(s.args.flags&^unix.CLONE_CLEAR_SIGHAND|s.args.exitSignal), 0, uintptr(s.args.pidfd))
	} else {
		child, failed = cloneVM(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&s.args)), unsafe.Sizeof(s.args), 0)
	}
	if child == 0 && failed == 0 {
		if s.old {
			// The copy of the table of handlers is the child's own, so that this is CLONE_CLEAR_SIGHAND by hand. Two signals refuse, which have none.
			for signal := uintptr(1); signal <= 64; signal++ {
				syscall.RawSyscall6(unix.SYS_RT_SIGACTION, signal, uintptr(unsafe.Pointer(&s.nobody)), 0, 8, 0, 0)
			}
		}
		walk(s.rows, s.gate, s.words)
	}
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&s.mask)), 0, 8, 0, 0)
	return int(child), syscall.Errno(failed)
}

// walk is the child: it makes the calls of the table and compares their answers. It never comes back. Until execve this code runs in the
// worker's memory while the worker's thread sleeps, so it does nothing that Go's runtime could notice: no allocation, no lock, no growing of
// the stack, no write that the collector would have to know of.
//
//go:norace
//go:nosplit
func walk(rows []row, gate int, words *sharedWords) {
	for i := range rows {
		r := &rows[i]
		words.ready.step = uint32(i) // what READY says when its row is the next
		value, _, errno := syscall.RawSyscall6(r.nr, r.args[0], r.args[1], r.args[2], r.args[3], r.args[4], r.args[5])
		result := int64(value)
		if errno != 0 {
			result = -int64(errno)
		}
		if result == r.want || r.any && result >= 0 {
			if i == gate {
				words.released = 1
			}
			continue
		}
		words.failed.step = uint32(i)
		words.failed.result = result
		words.failed.kind = kindStep
		syscall.RawSyscall6(unix.SYS_WRITE, r.gate, uintptr(unsafe.Pointer(&words.failed)), gateSize, 0, 0, 0)
		break
	}
	for {
		syscall.RawSyscall6(unix.SYS_EXIT_GROUP, exitGate, 0, 0, 0, 0, 0)
	}
}
