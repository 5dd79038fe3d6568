package runner

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer/landlock"
)

// The worker starts twice where it can have a domain: Landlock acts on one thread, and the runtime has several by the time main runs. The
// thread that restricted itself executes the program again, and all threads of the second start are inside.
const (
	stageVariable = "SANDBOXD_WORKER"
	stageScoped   = "scoped" // inside the domain
)

// The main goroutine is on the main thread for sure only while packages are initialised; later it may have been moved.
func init() {
	if len(os.Args) == 2 && os.Args[0] == Name && os.Args[1] == "worker" {
		runtime.LockOSThread()
	}
}

// scopeABI is the first version of Landlock with the signal scope.
const scopeABI = 6

// start makes this process a worker, or says why it can't be one.
func (w *shepherd) start() error {
	stage := os.Getenv(stageVariable)
	if stage == "" && landlock.ABI() >= scopeABI {
		return enterScope() // of this thread, which becomes the main one of the next start
	}
	if unix.Gettid() != unix.Getpid() {
		return errors.New("not on the main thread")
	}
	if stage == stageScoped {
		// The launcher runs under this uid and outside of the domain: only the domain can refuse this.
		if err := unix.Kill(unix.Getppid(), 0); !errors.Is(err, unix.EPERM) {
			return fmt.Errorf("signal scope: kill of the parent answered %v, want EPERM", err)
		}
		w.scoped = true
		// The children inherit this thread's.
		if err := unix.Prctl(unix.PR_SET_TIMERSLACK, usualSlack, 0, 0, 0); err != nil {
			return fmt.Errorf("timer slack: %w", err)
		}
	}
	if err := unreadable(); err != nil {
		return err
	}
	// Orphans of the tree come to this process and to nobody else: ECHILD then says that there are none.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("subreaper: %w", err)
	}
	if err := dropBounding(); err != nil {
		return err
	}
	if err := w.settle(); err != nil {
		return err
	}
	page, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	if err != nil {
		return fmt.Errorf("shared page: %w", err)
	}
	w.words = (*sharedWords)(unsafe.Pointer(&page[0]))
	w.every = ^uint64(0)
	w.inbox.buffer = make([]byte, packetSize)
	return nil
}

// enterScope puts this thread into the domain and starts the program again.
func enterScope() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	if err := signalScope(); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, idleSlack, 0, 0, 0); err != nil {
		return fmt.Errorf("timer slack: %w", err)
	}
	return again(stageScoped)
}

// signalScope puts this thread into a Landlock domain beyond which its signals, and those of all that it starts, don't reach.
//
// Each layer of a domain refuses moves and links from one directory to another unless it grants them, also where it handles no file at all
// (landlock(7), LANDLOCK_ACCESS_FS_REFER), and an exec's own layer comes on top of this one. So this one grants them everywhere, and the exec's decides.
func signalScope() error {
	rules, err := landlock.Ruleset{ABI: scopeABI, Scoped: unix.LANDLOCK_SCOPE_SIGNAL, HandledFS: unix.LANDLOCK_ACCESS_FS_REFER,
		Paths: []landlock.PathRule{{Path: "/", Access: unix.LANDLOCK_ACCESS_FS_REFER}}}.Create()
	if err != nil {
		return err
	}
	return landlock.RestrictSelf(rules)
}

// Timer slack in nanoseconds: how late the kernel may wake a thread that sleeps (prctl(2)). usualSlack is the kernel's own. With idleSlack, which
// lasts over execve, the runtime's threads of the second start begin: its monitor would look every 20 µs whether the main thread, which is in the
// kernel with a child, wants to be relieved by a goroutine that doesn't exist; that was a third of what a worker costs.
const (
	usualSlack = 50_000
	idleSlack  = 50_000_000
)

// again executes this program once more, with this thread as its main thread.
func again(stage string) error {
	env := append(os.Environ(), stageVariable+"="+stage)
	return fmt.Errorf("start again: %w", unix.Exec("/proc/self/exe", os.Args, env))
}

// unreadable closes this process's memory to everybody of its uid. A vfork child shares the memory, and its change of ids would make it
// readable for a moment where fs.suid_dumpable is 1.
func unreadable() error {
	setting, err := readSmall("/proc/sys/fs/suid_dumpable", make([]byte, 16))
	if err == nil && !slices.Contains([]string{"0", "2"}, string(bytes.TrimSpace(setting))) {
		return fmt.Errorf("fs.suid_dumpable is %s: 0 or 2 is wanted", bytes.TrimSpace(setting))
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("dumpable: %w", err)
	}
	if dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || dumpable != 0 {
		return fmt.Errorf("dumpable is %d (%v), want 0", dumpable, err)
	}
	return nil
}

// dropBounding empties the bounding set of this process, which its children inherit. It takes nothing from the worker, which executes nothing.
func dropBounding() error {
	if sabotaged("probe.capability.bounding") {
		return nil
	}
	for capability := range 64 {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(capability), 0, 0, 0)
		switch {
		case errors.Is(err, unix.EINVAL):
			return nil // beyond the last one
		case errors.Is(err, unix.EPERM):
			return nil // without CAP_SETPCAP: a plan that wants the set empty finds out at its step, and by its read-back
		case err != nil:
			return fmt.Errorf("bounding set: %w", err)
		}
	}
	return nil
}

// settle puts the socket out of the way, something harmless on 0, 1 and 2, and closes the rest.
func (w *shepherd) settle() error {
	for fd := range 3 {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil {
			continue
		}
		if got, err := unix.Open("/dev/null", unix.O_RDWR, 0); err != nil || got != fd {
			return fmt.Errorf("descriptor %d: /dev/null opened as %d: %v", fd, got, err)
		}
	}
	if w.socket != workerSocket {
		if err := unix.Dup3(w.socket, workerSocket, 0); err != nil {
			return fmt.Errorf("socket: %w", err)
		}
		w.socket = workerSocket
	}
	unix.CloseOnExec(w.socket)
	if err := unix.SetNonblock(w.socket, false); err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	return closeInherited()
}

// closeInherited closes what came over execve. It can't close all there is: the runtime makes an epoll instance and an eventfd when it first needs
// a timer, which may be long before or after, and it ends the process when they are gone. These are close-on-exec; what was inherited isn't.
func closeInherited() error {
	for fd := firstReceived; fd <= workerSocket; fd++ {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err == nil && flags&unix.FD_CLOEXEC == 0 {
			unix.Close(fd)
		}
	}
	return unix.CloseRange(workerSocket+1, ^uint(0)>>32, 0)
}

// readSmall reads a file of /proc whole, without package os.
func readSmall(path string, buffer []byte) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, buffer)
	return buffer[:max(n, 0)], err
}
