package execd

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPeerThatEnded: who connects is told by number only while that number is theirs. Once they have ended it may be anybody's, and is told as none.
func TestPeerThatEnded(t *testing.T) {
	path := socketPath(t)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	peer := exec.Command("/proc/self/exe")
	peer.Env = append(os.Environ(), "EXECD_TEST_DIAL="+path)
	if err := peer.Start(); err != nil {
		t.Fatal(err)
	}
	conn, err := listener.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	caller, err := peerOf(conn)
	if err != nil || caller.PID != peer.Process.Pid || caller.UID != os.Geteuid() || caller.GID != os.Getegid() {
		t.Errorf("while it lives: %+v, %v; want process %d", caller, err, peer.Process.Pid)
	}
	if err := peer.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = peer.Wait() // killed
	if err := knowsPeers(conn); err != nil {
		t.Skip("before Linux 6.5 the number is all there is: ", err)
	}
	if caller, err = peerOf(conn); err != nil || caller.PID != 0 || caller.UID != os.Geteuid() {
		t.Errorf("once it has ended: %+v, %v; want no process, and its uid", caller, err)
	}
}

// knowsPeers is why the kernel has no pidfd of a socket's peer.
func knowsPeers(conn *net.UnixConn) (err error) {
	raw, failed := conn.SyscallConn()
	if failed != nil {
		return failed
	}
	failed = raw.Control(func(fd uintptr) {
		var pidfd int
		if pidfd, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEERPIDFD); err == nil {
			unix.Close(pidfd)
		} else if !errors.Is(err, unix.ENOPROTOOPT) {
			err = nil // it knows that there is none any more
		}
	})
	return errors.Join(failed, err)
}
