package runner

import (
	"encoding/json/v2"
	"fmt"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// serve is the launcher's life: it starts workers when told to and reaps whatever ends in the sandbox. It ends when its socket does, and the
// kernel then kills everything in the PID namespace whose first process it is (pid_namespaces(7)).
func serve() int {
	if !sabotaged("launcher.signals") {
		ignoreSignals()
	}
	// Workers get neither.
	unix.CloseOnExec(daemonSocket)
	unix.CloseOnExec(probeSocket)
	unix.Umask(0o022)
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		fail("uname", err)
		return 1
	}
	s := server{started: make(chan struct{}, 1), workers: map[int]uint64{}}
	go s.reap()
	fault("launcher.serve")
	send(launcherReply{Ready: &launcherReady{Hostname: unix.ByteSliceToString(name.Nodename[:])}})
	for {
		data, fds, err := receivePacket(daemonSocket, 1)
		if err != nil {
			return 0
		}
		var order launcherOrder
		if err := json.Unmarshal(data, &order, strict); err != nil || (order.Start == 0) == (order.Signal == 0) || len(fds) != 1 {
			return 1
		}
		if order.Signal != 0 {
			_ = unix.PidfdSendSignal(fds[0], unix.Signal(order.Signal), nil, 0) // it may be gone; what comes of it the daemon sees
		} else {
			s.start(order.Start, fds[0])
		}
		closeAll(fds)
	}
}

// server keeps the number of each worker by its pid.
type server struct {
	// mu orders what is said of a worker: that it has started before that it has ended.
	mu      sync.Mutex
	workers map[int]uint64
	// started wakes the reaper, which has nothing to wait for while there is no child.
	started chan struct{}
}

// start starts a worker. It inherits our ids and capabilities, and of our descriptors the null device.
func (s *server) start(number uint64, socket int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fault("launcher.start")
	pid, pidfd, err := forkWorker(socket)
	if err != nil {
		send(launcherReply{Started: &workerStarted{Number: number, Errno: errnoOf(err), Message: fmt.Sprint("start a worker: ", err)}})
		return
	}
	fault("launcher.started")
	s.workers[pid] = number
	send(launcherReply{Started: &workerStarted{Number: number, PID: pid}}, pidfd)
	unix.Close(pidfd)
	select {
	case s.started <- struct{}{}:
	default:
	}
}

func forkWorker(socket int) (pid, pidfd int, err error) {
	if errno := refusal("launcher.fork"); errno != 0 {
		return 0, -1, errno
	}
	pidfd = -1
	pid, err = syscall.ForkExec("/proc/self/exe", []string{Name, "worker"}, &syscall.ProcAttr{
		Dir: "/", Env: append(sabotageEnv(), faultEnv()...), Files: workerFiles(uintptr(socket)),
		Sys: &syscall.SysProcAttr{PidFD: &pidfd, Setsid: true},
	})
	return pid, pidfd, err
}

// workerFiles has the socket where the worker wants it. The worker could move it there itself, but to make room for so high a number the kernel
// waits for all processors (expand_fdtable: synchronize_rcu), some ten milliseconds, unless the process has one thread, as a child that is about to
// execute the worker does.
func workerFiles(socket uintptr) []uintptr {
	files := make([]uintptr, workerSocket+1)
	for fd := range files {
		files[fd] = ^uintptr(0) // closed
	}
	files[0], files[1], files[2], files[workerSocket] = 0, 1, 2, socket
	return files
}

// reap waits for every child: workers, and what they leave behind. Who has no child has no descendant, so there is nothing to miss while
// waiting for the next start.
func (s *server) reap() {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WALL, nil)
		switch err {
		case nil:
			s.ended(pid, status)
		case unix.ECHILD:
			<-s.started
		}
	}
}

func (s *server) ended(pid int, status unix.WaitStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	number, ok := s.workers[pid]
	if !ok {
		return // an orphan
	}
	fault("launcher.reaped")
	delete(s.workers, pid)
	send(launcherReply{Ended: &workerEnded{Number: number, Status: syscall.WaitStatus(status)}})
}
