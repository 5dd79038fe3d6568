package fence

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Works tries the plan in a throw-away network namespace, of a throw-away user namespace where the caller isn't root: it is made, read back and
// held against itself. nil says that this kernel has all it takes, and dumps rules as they were given.
func Works(p Plan) error {
	fds, err := Elsewhere(p)
	if err != nil {
		return err
	}
	return holds(p, fds)
}

// WorksHere makes the fence in the caller's own network namespace, reads it back, and lets go of it. Its rules stay, which let nothing out that isn't named:
// in a pod there is to be no moment between the first look and the fence that is held.
func WorksHere(p Plan) error {
	fds, err := Apply(p, Here)
	if err != nil {
		return err
	}
	return holds(p, fds)
}

// holds says whether what was made reads back as it was planned, and closes it.
func holds(p Plan, fds []int) error {
	f, err := Hold(p, fds)
	if err != nil {
		return err
	}
	defer f.Close()
	state, err := f.Observe()
	if err != nil {
		return err
	}
	for _, row := range Check(p, state.Namespaces[0], state) {
		if !row.Held {
			return fmt.Errorf("fence: %s: want %s, got %s", row.Control, row.Want, row.Got)
		}
	}
	return nil
}

// Elsewhere makes the fence in a new network namespace in which nobody is, and which is gone when the descriptors are closed.
//
// A child in that namespace, which shares our table of descriptors, opens the sockets and ends; the rest is done from here. Who made the user
// namespace may do that, as an ordinary user as well, though he may not enter it.
func Elsewhere(p Plan) ([]int, error) {
	fds, err := socketsElsewhere(p.Sockets)
	if err != nil {
		return nil, err
	}
	next := 0
	return Apply(p, func(int, int, int) (int, error) {
		next++
		return fds[next-1], nil
	})
}

// openPlan is all that the child needs, made before the fork: it must not allocate.
type openPlan struct {
	flags       uintptr // clone(2)'s
	all, before uint64  // signal sets
	calls       []openCall
}

// openCall is one socket(2), and the descriptor that it is moved to.
type openCall struct {
	domain, kind, protocol, fd uintptr
}

// socketsElsewhere reserves a number for each socket here; the child puts the sockets there.
func socketsElsewhere(wanted []Socket) (fds []int, err error) {
	plan := &openPlan{flags: unix.CLONE_NEWNET | unix.CLONE_FILES | uintptr(unix.SIGCHLD), all: ^uint64(0)}
	if os.Geteuid() != 0 {
		plan.flags |= unix.CLONE_NEWUSER
	}
	defer func() {
		if err != nil {
			closeAll(fds)
			fds = nil
		}
	}()
	for _, s := range wanted {
		fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fds, fmt.Errorf("fence: %w", err)
		}
		fds = append(fds, fd)
		plan.calls = append(plan.calls, openCall{uintptr(s.Domain), uintptr(s.Type) | unix.SOCK_CLOEXEC, uintptr(s.Protocol), uintptr(fd)})
	}
	runtime.LockOSThread() // the signal mask is the thread's
	child, errno := openElsewhere(plan)
	runtime.UnlockOSThread()
	runtime.KeepAlive(plan)
	if errno != 0 {
		return fds, fmt.Errorf("fence: a network namespace: %w", errno)
	}
	var status unix.WaitStatus
	for {
		_, err = unix.Wait4(int(child), &status, unix.WALL, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return fds, fmt.Errorf("fence: wait: %w", err)
	}
	if status.ExitStatus() != 0 {
		return fds, fmt.Errorf("fence: a socket in a new namespace: %w", unix.Errno(status.ExitStatus()))
	}
	return fds, nil
}

// openElsewhere forks with all signals blocked, so that no Go signal handler ever runs in the child, which has one thread and no scheduler: after the
// fork there are only raw system calls and no function that could grow the stack. Its status is the errno of the call that failed.
//
//go:nosplit
//go:norace
//go:noinline
func openElsewhere(p *openPlan) (child uintptr, errno syscall.Errno) {
	syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, 2 /* SIG_SETMASK */, uintptr(unsafe.Pointer(&p.all)), uintptr(unsafe.Pointer(&p.before)), 8, 0, 0)
	child, _, errno = syscall.RawSyscall6(syscall.SYS_CLONE, p.flags, 0, 0, 0, 0, 0)
	if errno != 0 || child != 0 {
		syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, 2, uintptr(unsafe.Pointer(&p.before)), 0, 8, 0, 0)
		return child, errno
	}
	var fd uintptr
	for i := 0; i < len(p.calls) && errno == 0; i++ {
		fd, _, errno = syscall.RawSyscall(syscall.SYS_SOCKET, p.calls[i].domain, p.calls[i].kind, p.calls[i].protocol)
		if errno == 0 {
			// dup3(2) takes the descriptor's flags, not those of the file behind it.
			_, _, errno = syscall.RawSyscall(syscall.SYS_DUP3, fd, p.calls[i].fd, syscall.O_CLOEXEC)
			syscall.RawSyscall(syscall.SYS_CLOSE, fd, 0, 0)
		}
	}
	for {
		syscall.RawSyscall(syscall.SYS_EXIT_GROUP, uintptr(errno), 0, 0)
	}
}
