package execd

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/policy"
)

// peerOf asks the kernel who connected. The ids are those at the time of connect(2). The number of a process that has ended may be
// another's by now, so with SO_PEERPIDFD (6.5) the pid is the one that its pidfd says, and 0 where that process has ended or isn't seen from here.
func peerOf(conn *net.UnixConn) (caller policy.Caller, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return caller, err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		var credentials *unix.Ucred
		credentials, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		if failed != nil {
			return
		}
		caller = policy.Caller{UID: int(credentials.Uid), GID: int(credentials.Gid), PID: int(credentials.Pid), Via: "socket"}
		pidfd, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEERPIDFD)
		switch {
		case errors.Is(err, unix.ENOPROTOOPT):
			// An older kernel: the number is all there is.
		case err != nil:
			caller.PID = 0 // ESRCH and EINVAL: the peer has been reaped
		default:
			caller.PID = pidOf(pidfd)
			_ = unix.Close(pidfd) // only read from
		}
	})
	if err = errors.Join(err, failed); err != nil {
		return policy.Caller{}, fmt.Errorf("peer credentials: %w", err)
	}
	return caller, nil
}

// pidOf reads the pid that a pidfd stands for; 0 when it has none here.
func pidOf(pidfd int) int {
	data, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(pidfd))
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(data) {
		if value, found := bytes.CutPrefix(line, []byte("Pid:")); found {
			pid, err := strconv.Atoi(string(bytes.TrimSpace(value)))
			if err != nil {
				return 0
			}
			return max(0, pid)
		}
	}
	return 0
}
