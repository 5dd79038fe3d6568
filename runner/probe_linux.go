package runner

import (
	"encoding/json/v2"
	"errors"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer"
)

// ProbeMode is the mode in which our own binary tries forbidden acts, the arguments after it, under whichever plan it was started.
const ProbeMode = "probe"

// ProbeAnswer is one line of its output: what came of one act.
type ProbeAnswer struct {
	Act string `json:"act"`
	// Errno is the error's name; empty when the act was let through, which Value tells of then.
	Errno string `json:"errno,omitempty"`
	Value int64  `json:"value,omitzero"`
	// Microseconds is how long it took.
	Microseconds int64 `json:"microseconds"`
}

// Answer is what [enforcer.CheckActs] compares.
func (a ProbeAnswer) Answer() string {
	if a.Errno != "" {
		return a.Errno
	}
	return "let through"
}

// probeMode tries each act once, in order. It judges nothing: who asked knows what must come of each. None of them does harm that outlives the
// process where it is let through.
func probeMode(names []string) int {
	// Ids, capabilities and personality are a thread's.
	runtime.LockOSThread()
	for _, name := range names {
		began := time.Now()
		value, err := try(name)
		answer := ProbeAnswer{Act: name, Microseconds: time.Since(began).Microseconds()}
		var errno syscall.Errno
		switch {
		case err == nil:
			answer.Value = value
		case errors.As(err, &errno):
			answer.Errno = errnoName(errno)
		default:
			answer.Errno = err.Error()
		}
		line, err := json.Marshal(answer)
		if err != nil {
			return 1
		}
		if _, err := os.Stdout.Write(append(line, '\n')); err != nil {
			return 1
		}
	}
	return 0
}

var errUnknownAct = errors.New("unknown act")

func try(name string) (int64, error) {
	if call, found := strings.CutPrefix(name, "seccomp."); found {
		return tryCall(call)
	}
	if act, found := strings.CutPrefix(name, "network."); found {
		return 0, tryNetwork(act)
	}
	act := probeActs[name]
	if act == nil {
		return 0, errUnknownAct
	}
	return 0, act()
}

// tryCall makes a system call of the table. A descriptor that it gives ends with the process.
func tryCall(name string) (int64, error) {
	if name == enforcer.ForeignAct {
		return foreign()
	}
	call, known := enforcer.CallOf(name)
	nr, exists := call.Number(runtime.GOARCH)
	if !known || !exists {
		return 0, errUnknownAct
	}
	a := call.Args
	value, _, errno := syscall.RawSyscall6(uintptr(nr), uintptr(a[0]), uintptr(a[1]), uintptr(a[2]), uintptr(a[3]), uintptr(a[4]), uintptr(a[5]))
	if errno != 0 {
		return 0, errno
	}
	return int64(value), nil
}

// foreign enters the kernel as a program of the other architecture would. A kernel without that entry answers with a fault.
func foreign() (value int64, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() != nil {
			err = errors.New("SIGSEGV")
		}
	}()
	value = foreignGetpid()
	if value < 0 {
		return 0, syscall.Errno(-value)
	}
	return value, nil
}

// opened opens a path to see whether it may be, and closes it.
func opened(path string, flags int) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0o600)
	if err == nil {
		unix.Close(fd)
	}
	return err
}
