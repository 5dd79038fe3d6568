package runner

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer/landlock"
)

// connectPatience is how long a launcher that somebody else has started waits for the daemon's socket.
const connectPatience = time.Minute

// connectMain is the launcher where it isn't the daemon that starts it: the first process of a container. Nothing is made here, no namespace and no
// mount; the daemon reads what is there. args are the path of the daemon's socket and the daemon's uid.
func connectMain(args []string) int {
	uid, err := strconv.Atoi(args[1])
	if err != nil {
		return exitUsage
	}
	if err := joinDaemon(args[0], uid); err != nil {
		_, _ = os.Stderr.WriteString(Name + ": " + args[0] + ": " + err.Error() + "\n")
	}
	return 1
}

var errDaemon = errors.New("who listens there isn't the daemon: another uid")

func joinDaemon(path string, uid int) error {
	// Nobody reads or traces this process, from here on.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	runtime.LockOSThread() // the thread that is confined is the one that executes
	socket, err := dialDaemon(path)
	if err != nil {
		return err
	}
	daemon, err := unix.GetsockoptUcred(socket, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return err
	}
	if int(daemon.Uid) != uid {
		return errDaemon
	}
	// What is executed from here on is the daemon's own binary, sealed in memory: both ends are of one build, and what a child could write to through
	// /proc/PID/exe is nothing.
	_, fds, err := receivePacket(socket, 1)
	if err == nil && len(fds) != 1 {
		err = ErrProtocol
	}
	binary := 0
	if err == nil { // away from the numbers that a launcher's own have
		binary, err = unix.FcntlInt(uintptr(fds[0]), unix.F_DUPFD_CLOEXEC, lowestBinary)
	}
	if err == nil {
		socket, err = unix.FcntlInt(uintptr(socket), unix.F_DUPFD_CLOEXEC, lowestBinary)
	}
	if err == nil {
		err = unix.Dup3(socket, daemonSocket, 0)
	}
	if err != nil {
		return err
	}
	for _, step := range []func() error{
		stdio, probe, alone,
		func() error { return unix.CloseRange(probeSocket+1, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC) },
		func() error {
			return unix.Exec("/proc/self/fd/"+strconv.Itoa(binary), []string{Name, modeConnected}, append(sabotageEnv(), faultEnv()...))
		},
	} {
		if err := step(); err != nil {
			fail(modeConnect, err)
			return err
		}
	}
	return nil
}

// alone keeps apart what this process starts: its orphans come to it, its signals reach nobody else, and none of it gains a privilege.
func alone() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil || landlock.ABI() < scopeABI {
		return err
	}
	return signalScope()
}

// dialDaemon connects when the daemon listens: either may be started first, and the path is there only while the daemon has no launcher.
func dialDaemon(path string) (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	for until := time.Now().Add(connectPatience); ; {
		err := unix.Connect(fd, &unix.SockaddrUnix{Name: path})
		if err != unix.ENOENT && err != unix.ECONNREFUSED || !time.Now().Before(until) {
			return fd, err
		}
		_, _ = unix.Poll(nil, 20) // milliseconds; nobody tells when a path comes to be that can be connected to
	}
}

// endAll kills whatever this launcher has started, and returns when nothing of it is left. The first process of a PID namespace has the kernel do that.
func endAll() {
	if os.Getpid() == 1 {
		return
	}
	// That our parent can't be signalled says that nobody outside can be, or that nobody outside has this uid.
	if unix.Kill(unix.Getppid(), 0) == unix.EPERM {
		_ = unix.Kill(-1, unix.SIGKILL) // ESRCH: there is nobody
	}
	// Workers end their trees by themselves when the daemon's end of their sockets is gone.
	for {
		if _, err := unix.Wait4(-1, nil, unix.WALL, nil); err == unix.ECHILD {
			return
		}
	}
}
