package runner

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer"
)

// ignoreSignals makes PID 1 deaf: the Go runtime would end the program on a SIGTERM, or on a SIGSEGV that somebody sent. A fault of our own
// still kills: the kernel forces the default action then, and the sandbox ends with us, which is what should happen.
//
// What is ignored stays so over execve: a worker must call [heedSignals].
func ignoreSignals() {
	for signal := unix.Signal(1); signal < 32; signal++ {
		if enforcer.LauncherIgnores>>(signal-1)&1 != 0 {
			setSignal(signal, sigIgnore)
		}
	}
}

// heedSignals undoes for a worker what execve passed on: the launcher's deafness, and what the daemon was started with. The Go runtime has put
// its handlers over all but these: two that it respects (nohup), and three that C libraries use for their threads, of which glibc's posix_spawn
// leaves the first two ignored in whatever it starts.
func heedSignals() {
	for _, signal := range []unix.Signal{unix.SIGHUP, unix.SIGINT, 32, 33, 34} {
		setSignal(signal, sigDefault)
	}
}

// signal(7)'s dispositions, as the kernel's struct sigaction has them.
const (
	sigDefault uintptr = 0
	sigIgnore  uintptr = 1
)

// sigaction is the kernel's: the mask is of 64 bits on every architecture here.
type sigaction struct {
	handler  uintptr
	flags    uint64
	restorer uintptr
	mask     uint64
}

func setSignal(signal unix.Signal, disposition uintptr) {
	action := sigaction{handler: disposition}
	if _, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(signal), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0); errno != 0 {
		panic("rt_sigaction " + signal.String() + ": " + errno.Error())
	}
}
