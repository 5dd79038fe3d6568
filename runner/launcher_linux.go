package runner

import (
	"encoding/json/v2"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/enforcer/landlock"
	"github.com/sandboxd/sandboxd/enforcer/mount"
)

// RunLauncher is the launcher process: PID 1 of the sandbox, in its new namespaces, started by [Start] with the daemon's socket on descriptor 3
// and nothing else. It runs twice: as "launcher" it makes the sandbox, with all the privilege that takes, and then executes itself as "serve",
// with the little that is left. System calls change the ids and capabilities of one thread only, and a Go program has several; the execve is
// what makes all of them alike.
func RunLauncher(args []string) int {
	// Before anything else: nobody reads or traces this process, whoever he is, from here on.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return exitUsage
	}
	if err := unix.Prctl(unix.PR_SET_NAME, nameBytes(), 0, 0, 0); err != nil {
		return exitUsage
	}
	if args[1] == modeConnected {
		if _, err := unix.GetsockoptInt(daemonSocket, unix.SOL_SOCKET, unix.SO_TYPE); err != nil {
			return exitUsage
		}
		status := serve()
		endAll()
		return status
	}
	if os.Getpid() != 1 {
		return exitUsage
	}
	if args[1] == "serve" {
		return serve()
	}
	runtime.LockOSThread() // the thread whose privileges are dropped is the one that executes
	l := launcher{}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"descriptors", l.descriptors},
		{"plan", l.receive},
		{"cgroup", l.cgroup},
		{"network", l.network},
		{"hostname", l.hostname},
		{"root", l.root},
		{"stdio", stdio},
		{"probe", probe},
		{"identity", l.identity},
		{"execute", execute}, // doesn't return
	} {
		if sabotaged("launcher." + step.name) {
			continue
		}
		fault("launcher." + step.name)
		if err := step.do(); err != nil {
			fail(step.name, err)
			return 1
		}
	}
	return 1
}

// launcher has the plan of the sandbox that is being made.
type launcher struct {
	plan enforcer.SandboxPlan
	// owners is the user namespace that the root's owners are mapped by, -1 where the plan has none.
	owners int
	// lower is the mount that the plan's layer lies on, -1 where it has none.
	lower int
}

// send is a launcher's one way to say something. If the daemon is gone, the next read says so.
func send(reply launcherReply, fds ...int) {
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	for unix.Sendmsg(daemonSocket, encode(reply), rights, nil, unix.MSG_NOSIGNAL) == unix.EINTR {
	}
}

// fail says which step failed, and why, in a message that fits a packet.
func fail(step string, err error) {
	text := err.Error()
	send(launcherReply{Failed: &launcherFailure{Step: step, Errno: errnoOf(err), Message: strings.ToValidUTF8(text[:min(len(text), maxPacket/8)], "?")}})
}

// descriptors closes what the daemon may have left open in spite of close-on-exec.
func (l *launcher) descriptors() error {
	return unix.CloseRange(daemonSocket+1, ^uint(0)>>1, 0)
}

func (l *launcher) receive() error {
	data, fds, err := receivePacket(daemonSocket, 3)
	if err != nil {
		return err
	}
	var order launcherOrder
	if err := json.Unmarshal(data, &order, strict); err != nil {
		return err
	}
	if !order.Plan || len(fds) == 0 {
		return errors.New("the first message isn't a plan")
	}
	defer unix.Close(fds[0])
	plan, err := readAll(fds[0])
	if err != nil {
		return err
	}
	if err := json.Unmarshal(plan, &l.plan, strict); err != nil {
		return err
	}
	l.owners, l.lower = -1, -1
	for i, fd := range fds[1:] {
		if i == len(fds)-2 && l.plan.Layered() {
			l.lower = fd
		} else {
			l.owners = fd
		}
	}
	return nil
}

// readAll reads a memfd from its beginning, wherever its offset is.
func readAll(fd int) ([]byte, error) {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return nil, err
	}
	data := make([]byte, stat.Size)
	for done := 0; done < len(data); {
		n, err := unix.Pread(fd, data[done:], int64(done))
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return nil, fmt.Errorf("%d bytes instead of %d", done, len(data))
		}
		done += n
	}
	return data, nil
}

// cgroup makes the group that this process is in the root of all that the sandbox sees: /proc/PID/cgroup says where somebody is from there, and
// nothing of the host's own paths. The thread is the one that executes, so that its namespaces are what all of the sandbox gets.
func (l *launcher) cgroup() error {
	if !slices.Contains(l.plan.Namespaces, "cgroup") {
		return nil
	}
	return os.NewSyscallError("unshare", unix.Unshare(unix.CLONE_NEWCGROUP))
}

func (l *launcher) hostname() error { return unix.Sethostname([]byte(l.plan.Hostname)) }

// root makes the sandbox's file system. Modes in the plan are meant as they stand there.
func (l *launcher) root() error {
	unix.Umask(0)
	defer unix.Umask(0o022)
	defer unix.Close(l.owners)
	defer unix.Close(l.lower)
	return mount.Apply(l.plan.Root, l.owners, l.lower)
}

// stdio lets go of the host's null device, which the daemon started us with, for the sandbox's own.
func stdio() error {
	null, err := unix.Open("/dev/null", unix.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("/dev/null: %w", err)
	}
	for fd := range 3 {
		if err := unix.Dup3(null, fd, 0); err != nil {
			return fmt.Errorf("dup3: %w", err)
		}
	}
	return unix.Close(null)
}

// probe listens on the abstract name that children try to connect to and must not reach. Nobody accepts.
func probe() error {
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	if socket != probeSocket {
		if err := unix.Dup3(socket, probeSocket, 0); err != nil {
			return fmt.Errorf("dup3: %w", err)
		}
		unix.Close(socket)
	}
	if err := unix.Bind(probeSocket, &unix.SockaddrUnix{Name: "@" + landlock.ProbeSocket}); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	return unix.Listen(probeSocket, 1)
}

// execute becomes "serve".
func execute() error {
	return unix.Exec("/proc/self/exe", []string{Name, "serve"}, append(sabotageEnv(), faultEnv()...))
}
