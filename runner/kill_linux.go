package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Kill kills the whole tree; a second time does nothing more. Wait then returns, at the latest when the bound is over.
func (c *Child) Kill() { c.killFor(killAsked) }

// overLimit kills for too much output.
func (c *Child) overLimit() { c.killFor(killOutput) }

// Interrupt says whether the leader is alive, by the kernel's word, and sends it SIGALRM if so. It may ignore that.
func (c *Child) Interrupt() bool { return c.tell(unix.SIGALRM) }

// Break is Interrupt by SIGINT, as a person at a terminal interrupts.
func (c *Child) Break() bool { return c.tell(unix.SIGINT) }

// tell sends the leader a signal, if it is alive, and says whether it was.
func (c *Child) tell(number unix.Signal) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over || c.pidfd < 0 || ended(c.pidfd) {
		return false
	}
	// It isn't needed: who doesn't hear it is killed later.
	_ = c.place.signal(c.pidfd, number)
	return true
}

// Signal sends a signal to the leader, or to its process group where the kernel can find that by its leader (6.9), which may ignore it; a leader that has ended is
// os.ErrProcessDone.
func (c *Child) Signal(signal unix.Signal, group bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over || c.pidfd < 0 || ended(c.pidfd) {
		return os.ErrProcessDone
	}
	if group && unix.PidfdSendSignal(c.pidfd, signal, nil, processGroup) == nil {
		return nil
	}
	return c.place.signal(c.pidfd, signal)
}

// processGroup is PIDFD_SIGNAL_PROCESS_GROUP.
const processGroup = 1 << 2

// killReason is why a tree is killed.
type killReason int

const (
	killAsked     killReason = iota // by the daemon, which knows why
	killOutput                      // too much output
	killCPU                         // processor time used up
	killMemory                      // more memory than the tree may hold, by our count
	killUncounted                   // processor time or memory can't be counted any more
)

func (c *Child) killFor(why killReason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over || !c.giveUp.IsZero() {
		return
	}
	c.giveUp = time.Now().Add(killBound)
	// The kernel's order of events decides: a leader that has ended was not killed by us.
	c.killed = c.pidfd >= 0 && !ended(c.pidfd)
	c.why = why
	// None of these is taken for done because it answered nil: the proof is an empty tree, and Wait asks for it.
	fault("child.kill")
	if c.group != nil {
		_ = c.group.Kill()
	}
	if c.pidfd >= 0 {
		_ = c.place.signal(c.pidfd, unix.SIGKILL) // the worker then ends the rest; it is frozen until then if the child is at its gate
	}
	fault("child.killed")
	// A leader that can't die, in the kernel for a dead file system, shall not keep the rest alive.
	c.orderEnd()
	c.worker.conn.SetReadDeadline(time.Now().Add(stuckAfter))
}

// orderEnd tells the worker to end the tree. That it does is asked for elsewhere.
func (c *Child) orderEnd() {
	order := killMessage{kind: kindKill, sequence: c.sequence}
	if raw, err := c.worker.conn.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			_, _ = unix.SendmsgN(int(fd), bytesOf(&order), nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		})
	}
}

// within bounds the next words of the worker; 0 is no bound. A tree that is being killed has its own.
func (c *Child) within(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	until := time.Time{}
	if d > 0 {
		until = time.Now().Add(d)
	}
	if !c.giveUp.IsZero() && (until.IsZero() || until.After(c.giveUp)) {
		until = sooner(c.giveUp, time.Now().Add(max(time.Until(c.giveUp.Add(stuckAfter-killBound)), lookAgain)))
	}
	c.worker.conn.SetReadDeadline(until)
}

// emptyGroup kills what is left in the exec's cgroup and says whether the kernel calls it empty, within the bound.
func (c *Child) emptyGroup() bool {
	if populated, err := c.group.Populated(); err == nil && !populated {
		return true // and nobody can come in: only its own members and the worker, who is waiting, could put somebody there
	}
	if c.group.Kill() != nil {
		return false
	}
	until := time.Now().Add(killBound)
	for pause := c.patience(); !c.stuck; pause = lookAgain {
		ctx, cancel := context.WithDeadline(context.Background(), sooner(until, time.Now().Add(pause)))
		err := c.group.WaitEmpty(ctx)
		cancel()
		if err == nil {
			return true
		}
		if !errors.Is(err, context.DeadlineExceeded) || !time.Now().Before(until) {
			return false
		}
		c.stuck = c.isStuck()
	}
	return false
}

// childless asks the kernel whether a process, the worker, has no child: each of its threads has a list. It is asked after every exec, so it
// goes without package os.
func childless(pid int) (bool, error) {
	tasks := fmt.Sprintf("/proc/%d/task", pid)
	fd, err := unix.Open(tasks, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	var entries [4096]byte
	var children [16]byte
	for {
		n, err := unix.Getdents(fd, entries[:])
		if err != nil || n == 0 {
			return err == nil, err
		}
		_, _, threads := unix.ParseDirent(entries[:n], -1, nil)
		for _, thread := range threads {
			got, err := readAt(fd, thread+"/children", children[:])
			if errors.Is(err, unix.ENOENT) && unix.Faccessat(fd, thread, unix.F_OK, 0) != nil {
				continue // the thread has ended; its children, if any, went to another
			}
			if err != nil || len(got) > 0 {
				return false, err
			}
		}
	}
}

// readAt reads the beginning of a file below a directory.
func readAt(directory int, name string, buffer []byte) ([]byte, error) {
	fd, err := unix.Openat(directory, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, buffer)
	return buffer[:max(n, 0)], err
}
