package runner

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer/seccomp"
)

// Call is a system call that a listener heard of, as often as it did.
type Call struct {
	Nr int
	// Args are those of the first such call. Calls are told apart by those that the kernel takes as plain numbers (the family of a socket, the request
	// of an ioctl): [seccomp.Low32].
	Args [6]uint64
	// Errno is what the call was answered; 0 for one that went on.
	Errno syscall.Errno
	Count int64
}

// listener is the daemon's end of a filter that asks. One goroutine hears and answers until the last process of the exec is gone.
type listener struct {
	file   *os.File
	raw    syscall.RawConn
	filter seccomp.Filter
	arch   string
	// heard says that the target runs: what came before were the probes of our own table.
	heard atomic.Bool
	done  chan struct{}
	// The goroutine's until done is closed.
	calls []Call
	left  int
	cut   bool
}

const (
	// mostAnswers is how many refusals one exec gets explained. Then the listener is closed, and the kernel answers ENOSYS by itself: a program that
	// does nothing but call what it may not would have the daemon work as hard as itself.
	mostAnswers = 10_000
	// mostCalls is how many different ones are kept.
	mostCalls = 64
)

// listen takes the listener out of the child, at the number where the table has put it, and begins to answer.
func (c *Child) listen() error {
	c.mu.Lock()
	fd, err := unix.PidfdGetfd(c.pidfd, numbers(c.inv.Extra).rules, 0)
	c.mu.Unlock()
	if err != nil {
		return fmt.Errorf("listener: %w", os.NewSyscallError("pidfd_getfd", err))
	}
	if err := unix.SetNonblock(fd, true); err != nil { // for the poller; the calls themselves don't look at it
		unix.Close(fd)
		return fmt.Errorf("listener: %w", err)
	}
	l := &listener{file: os.NewFile(uintptr(fd), "listener"), filter: c.plan.plan.Seccomp, arch: runtime.GOARCH, done: make(chan struct{}), left: mostAnswers}
	if l.raw, err = l.file.SyscallConn(); err != nil {
		l.file.Close()
		return fmt.Errorf("listener: %w", err)
	}
	c.listener = l
	go l.run()
	return nil
}

// begin takes down what is heard from here on.
func (l *listener) begin() {
	if l != nil {
		l.heard.Store(true)
	}
}

// close ends the goroutine. What still waits for an answer, or asks later, is answered ENOSYS.
func (l *listener) close() {
	if l != nil {
		l.file.Close()
		<-l.done
	}
}

// end gives what was heard.
func (l *listener) end() (calls []Call, cut bool) {
	if l == nil {
		return nil, false
	}
	l.close()
	return l.calls, l.cut
}

// run answers until nobody can ask any more. An error closes the listener: what isn't answered here is refused by the kernel.
func (l *listener) run() {
	defer close(l.done)
	defer l.file.Close()
	for l.left > 0 {
		asked, err := l.receive()
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINTR) { // whoever asked was killed meanwhile
			continue
		}
		if err != nil || !l.answer(asked) {
			return
		}
	}
	l.cut = true
}

// receive waits for a question. The kernel's call sleeps where no poller and no Close can reach it, so it is made only when there is one.
func (l *listener) receive() (asked notification, err error) {
	var failed error
	err = l.raw.Read(func(fd uintptr) bool {
		ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if n, err := unix.Poll(ready, 0); err != nil {
			failed = err
			return true
		} else if n == 0 {
			return false
		}
		if ready[0].Revents&unix.POLLIN == 0 { // POLLHUP: no process has the filter any more
			failed = unix.ENODEV
			return true
		}
		failed = notificationIoctl(int(fd), unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&asked))
		return true
	})
	return asked, errors.Join(err, failed)
}

// answer answers a question; false ends the listener.
func (l *listener) answer(asked notification) bool {
	reply := notificationReply{id: asked.id}
	if l.filter.Listener == seccomp.ListenerObserve {
		reply.flags = unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE
	} else {
		reply.error = -int32(l.filter.Answer(asked.arch, asked.nr, asked.args))
	}
	if l.heard.Load() {
		l.take(asked, syscall.Errno(-reply.error))
		if l.filter.Listener == seccomp.ListenerExplain {
			l.left--
		}
	}
	err := l.raw.Control(func(fd uintptr) {
		if e := notificationIoctl(int(fd), unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&reply)); e != nil && !errors.Is(e, unix.ENOENT) {
			l.left = 0
		}
	})
	return err == nil
}

// take counts a call.
func (l *listener) take(asked notification, errno syscall.Errno) {
	call := Call{Nr: int(asked.nr), Args: asked.args, Errno: errno, Count: 1}
	name := seccomp.Name(l.arch, call.Nr)
	i := slices.IndexFunc(l.calls, func(have Call) bool {
		if have.Nr != call.Nr || have.Errno != errno {
			return false
		}
		for i := range call.Args {
			if errno != 0 && seccomp.Low32(name, i) && uint32(have.Args[i]) != uint32(call.Args[i]) {
				return false
			}
		}
		return true
	})
	switch {
	case i >= 0:
		l.calls[i].Count++
	case len(l.calls) < mostCalls || errno == 0: // of those that go on there are as many as the kernel has
		l.calls = append(l.calls, call)
	default:
		l.cut = true
	}
}

// notification is struct seccomp_notif, notificationReply struct seccomp_notif_resp.
type notification struct {
	id    uint64
	pid   uint32
	flags uint32
	nr    int32
	arch  uint32
	_     uint64 // instruction pointer
	args  [6]uint64
}

type notificationReply struct {
	id    uint64
	value int64
	error int32
	flags uint32
}

func notificationIoctl(fd int, request uintptr, argument unsafe.Pointer) error {
	if _, _, e := syscall.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(argument)); e != 0 {
		return e
	}
	return nil
}
