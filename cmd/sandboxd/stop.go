package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"golang.org/x/sys/unix"
)

// stop has a daemon end as SIGTERM does, and returns when its process is gone. It is for a hook that runs beside a daemon whose pid it doesn't know.
func (p *program) stop(ctx context.Context, flags *flagSet, args []string) (int, error) {
	socket := flags.String("socket", defaultSocket(p.getenv), "`path` of the daemon's socket")
	timeout := flags.Duration("timeout", time.Minute, "how long to wait for its end")
	if err := flags.parse(args); err != nil {
		return 0, err
	}
	if err := flags.noArguments(); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	defer cancel()
	daemon, err := daemonOf(ctx, *socket)
	if err != nil {
		return 1, err
	}
	defer unix.Close(daemon)
	answer, err := newClient(*socket).do(ctx, http.MethodPost, "/v1/stop", "application/json", nil)
	if err != nil {
		return 1, err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		return 1, err
	}
	if answer.StatusCode != http.StatusAccepted {
		return 1, apiError(answer.Status, data)
	}
	if err := awaitEnd(ctx, daemon); err != nil {
		return 1, err
	}
	fmt.Fprintln(p.stdout, "stopped")
	return 0, nil
}

// daemonOf is a pidfd of who listens on a socket, by the kernel's word.
func daemonOf(ctx context.Context, socket string) (int, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return -1, fmt.Errorf("no daemon listens on %s: %w", socket, err)
	}
	defer conn.Close()
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		return -1, errors.New("bug: not a unix socket; please report this")
	}
	raw, err := unixConn.SyscallConn()
	if err != nil {
		return -1, err
	}
	pidfd := -1
	var opened error
	err = raw.Control(func(fd uintptr) {
		var peer *unix.Ucred
		if peer, opened = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); opened == nil {
			pidfd, opened = unix.PidfdOpen(int(peer.Pid), 0)
		}
	})
	if err = errors.Join(err, opened); err != nil {
		return -1, fmt.Errorf("the process of the daemon: %w", err)
	}
	return pidfd, nil
}

// awaitEnd waits until a process has ended.
func awaitEnd(ctx context.Context, pidfd int) error {
	polls := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	for ctx.Err() == nil {
		if n, err := unix.Poll(polls, 100); n > 0 {
			return nil
		} else if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
	}
	return fmt.Errorf("the daemon was told to stop and is still there: %w", ctx.Err())
}
