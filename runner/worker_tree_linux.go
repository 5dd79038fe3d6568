package runner

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// waiting is the memory of the wait, reused.
type waiting struct {
	polls  [2]unix.PollFd
	info   childInfo
	usage  syscall.Rusage
	status int32
	stat   [512]byte
}

// childInfo is the siginfo_t of SIGCHLD: waitid(2) fills it.
type childInfo struct {
	signo, errno, code, _ int32
	pid                   int32
	uid                   uint32
	status                int32
	_                     [100]byte
}

// The codes of [childInfo].
const (
	codeKilled = 2
	codeDumped = 3
)

// reapEvery is how often, in milliseconds, the worker reaps orphans while the leader lives. They count against the limit of processes.
const reapEvery = 100

// follow waits for the leader, tells of its end, ends what is left of the tree and says so.
func (w *shepherd) follow() error {
	pidfd := int(w.pidfd)
	for alive := true; alive; {
		var err error
		if alive, err = w.watch(pidfd); err != nil {
			unix.Close(pidfd)
			return err
		}
	}
	unix.Close(pidfd)
	status, executed, err := w.reapLeader()
	if err != nil {
		return err
	}
	usage := w.wait.usage
	empty, err := w.alone()
	if err != nil {
		return err
	}
	fault("worker.exit")
	w.sayExit(status, &usage, executed, empty)
	fault("worker.end")
	if empty {
		return nil
	}
	if w.leave {
		if err := w.attend(); err != nil {
			return err
		}
	} else if err := w.end(); err != nil {
		return err
	}
	fault("worker.empty")
	w.sayEmpty()
	return nil
}

// alone says whether no child is left, as after most execs. It looks once: the leader's end shall not wait for the reaping of many.
func (w *shepherd) alone() (bool, error) {
	pid, err := w.wait4(-1, unix.WALL|unix.WNOHANG)
	if errors.Is(err, unix.ECHILD) {
		return true, nil // nobody is left, and nobody can come: only children are born into a tree
	}
	if pid > 0 {
		w.reaped++
	}
	return false, err
}

// watch waits for the leader's end or for an order, reaps orphans meanwhile, and says whether the leader lives.
func (w *shepherd) watch(pidfd int) (alive bool, err error) {
	w.wait.polls = [2]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}, {Fd: int32(w.socket), Events: unix.POLLIN}}
	timeout := unix.NsecToTimespec(reapEvery * 1e6)
	n, _, errno := syscall.Syscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&w.wait.polls[0])), 2, uintptr(unsafe.Pointer(&timeout)), 0, 0, 0)
	if errno != 0 && errno != unix.EINTR {
		return false, errno
	}
	if n == 0 {
		return true, w.reapOrphans()
	}
	if errno == 0 && w.wait.polls[1].Revents != 0 {
		m, err := w.inbox.receive(w.socket)
		if err != nil {
			return false, err // the daemon is gone
		}
		if m.kind == kindExec {
			return false, fmt.Errorf("%w: an exec while one runs", ErrProtocol)
		}
		if m.kind == kindKill && m.sequence == w.sequence {
			if err := w.killTree(); err != nil {
				return true, nil // the daemon has other means, and its own bound
			}
		}
	}
	return w.wait.polls[0].Revents == 0, nil
}

// reapOrphans reaps who has ended, but the leader: its end is told first.
func (w *shepherd) reapOrphans() error {
	for {
		w.wait.info = childInfo{}
		if err := w.waitid(unix.P_ALL, 0, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG|unix.WALL); err != nil {
			return err
		}
		pid := int(w.wait.info.pid)
		if pid == 0 || pid == w.leader {
			return nil
		}
		if _, err := w.wait4(pid, 0); err != nil {
			return err
		}
		w.reaped++
	}
}

// reapLeader reaps the leader, and says whether it had executed the target.
func (w *shepherd) reapLeader() (syscall.WaitStatus, bool, error) {
	if err := w.waitid(unix.P_PID, w.leader, unix.WEXITED|unix.WNOWAIT|unix.WALL); err != nil {
		return 0, false, err
	}
	executed := w.words.released != 0 && w.words.failed.kind == 0
	// Between the gate and execve only a signal can end it. The kernel knows which side of execve that was.
	if code := w.wait.info.code; executed && (code == codeKilled || code == codeDumped) {
		executed = w.leaderExecuted()
	}
	if _, err := w.wait4(w.leader, 0); err != nil {
		return 0, false, err
	}
	w.leader = 0
	return syscall.WaitStatus(w.wait.status), executed, nil
}

// leaderExecuted looks at the leader, a zombie, with the tree's ids for file access: /proc hides from a process what it may not trace, and a zombie,
// which has no memory left, may be traced by who has its ids.
func (w *shepherd) leaderExecuted() bool {
	uid, gid := unix.Geteuid(), unix.Getegid()
	if w.treeUID != uid || w.treeGID != gid {
		defer func() {
			if fileIDs(uid, gid) != nil {
				unix.Exit(1) // never go on as the tree's
			}
		}()
		if fileIDs(w.treeUID, w.treeGID) != nil {
			return false
		}
	}
	executed, err := hasExecuted(w.leader, w.wait.stat[:])
	return err == nil && executed
}

// end waits until no child is left. Where a cgroup has the tree the daemon kills it; the shepherd's own kill does no harm beside that, and it is
// there too when the daemon isn't.
func (w *shepherd) end() error {
	killed := false
	for {
		options := unix.WALL
		if !killed {
			options |= unix.WNOHANG
		}
		pid, err := w.wait4(-1, options)
		switch {
		case errors.Is(err, unix.ECHILD):
			return nil // nobody is left, and nobody can come: only children are born into a tree
		case err != nil:
			return err
		case pid > 0:
			w.reaped++
		default: // somebody lives
			_ = w.killTree() // where it may not, the daemon's cgroup kills; ECHILD alone is the proof
			killed = true
		}
	}
}

// attend reaps what the leader left behind, until nobody is left or the daemon orders their end.
func (w *shepherd) attend() error {
	for {
		for {
			pid, err := w.wait4(-1, unix.WALL|unix.WNOHANG)
			if errors.Is(err, unix.ECHILD) {
				return nil // nobody is left, and nobody can come
			}
			if err != nil {
				return err
			}
			if pid == 0 {
				break
			}
			w.reaped++
		}
		polls := [1]unix.PollFd{{Fd: int32(w.socket), Events: unix.POLLIN}}
		n, err := unix.Poll(polls[:], reapEvery)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if n <= 0 {
			continue
		}
		m, err := w.inbox.receive(w.socket)
		if err != nil {
			return err // the daemon is gone
		}
		if m.kind == kindExec {
			return fmt.Errorf("%w: an exec while one is left", ErrProtocol)
		}
		if m.kind == kindKill && m.sequence == w.sequence {
			return w.end()
		}
	}
}

// errUnscoped refuses kill(-1) where it would reach beyond the tree.
var errUnscoped = errors.New("no signal scope of its own")

// killTree kills every process of the tree at once. kill(-1) goes to all that this process may signal, but itself: within its domain's signal
// scope these are its descendants and nobody else. One call is enough: the kernel walks the list of processes under a lock, and a fork doesn't
// finish while a signal is pending.
func (w *shepherd) killTree() error {
	if !w.scoped {
		if w.leader != 0 {
			_ = unix.Kill(w.leader, unix.SIGKILL)
		}
		return errUnscoped
	}
	// The proof of the scope once more, by the same ids that will send the signal: the parent is outside of it.
	if err := unix.Kill(unix.Getppid(), 0); !errors.Is(err, unix.EPERM) {
		return errUnscoped
	}
	own := unix.Geteuid()
	if w.treeUID != own {
		if err := effectiveUID(w.treeUID); err != nil {
			return err
		}
		defer func() {
			if effectiveUID(own) != nil {
				unix.Exit(1)
			}
		}()
	}
	err := unix.Kill(-1, unix.SIGKILL)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EPERM) {
		return nil // nobody to kill; ECHILD is what counts
	}
	return err
}

// effectiveUID changes this thread's alone. The real and the saved one stay the worker's: the tree, which has the other, can't signal it.
func effectiveUID(uid int) error {
	const keep = ^uintptr(0)
	if _, _, errno := syscall.RawSyscall(unix.SYS_SETRESUID, keep, uintptr(uid), keep); errno != 0 {
		return errno
	}
	return nil
}

func (w *shepherd) waitid(kind, id, options int) error {
	for {
		_, _, errno := syscall.Syscall6(unix.SYS_WAITID, uintptr(kind), uintptr(id), uintptr(unsafe.Pointer(&w.wait.info)), uintptr(options), 0, 0)
		if errno == 0 {
			return nil
		}
		if errno != unix.EINTR {
			return errno
		}
	}
}

// wait4 reaps; status and usage are in w.wait.
func (w *shepherd) wait4(pid, options int) (int, error) {
	for {
		got, _, errno := syscall.Syscall6(unix.SYS_WAIT4, uintptr(pid), uintptr(unsafe.Pointer(&w.wait.status)), uintptr(options), uintptr(unsafe.Pointer(&w.wait.usage)), 0, 0)
		if errno == 0 {
			return int(got), nil
		}
		if errno != unix.EINTR {
			return -1, errno
		}
	}
}
