package runner

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer/network/fence"
)

// network fences the network namespace and passes the fence's sockets out, of which nothing stays here: programs inside that get hold of this process
// get none of them.
func (l *launcher) network() error {
	if l.plan.Network.Variant == "" {
		return loopback()
	}
	fds, err := fence.Apply(sabotageFence(l.plan.Network), fence.Here)
	if err != nil {
		return err
	}
	defer closeAll(fds)
	fault("launcher.fenced")
	send(launcherReply{Fence: true}, fds...)
	return nil
}

// loopback brings "lo" up: programs talk to themselves through it.
func loopback() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	defer unix.Close(socket)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request); err != nil {
		return fmt.Errorf("lo up: %w", err)
	}
	return nil
}
