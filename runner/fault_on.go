//go:build fault

package runner

import (
	"os"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// faultPointVariable names the point at which a process ends. Only a build with the tag fault knows it.
const faultPointVariable = "SANDBOXD_FAULT"

// fault ends this process at once, without a word to anybody, if the point is the one that is asked for.
func fault(point string) {
	if os.Getenv(faultPointVariable) != point {
		return
	}
	_ = unix.Kill(unix.Getpid(), unix.SIGKILL)
	unix.Exit(137) // the first process of a PID namespace can't kill itself (pid_namespaces(7))
}

// refused are the points whose call this process was refused already.
var refused sync.Map

// refusal is the error that a call at this point gets, once, if it is asked for: "POINT=ENOMEM".
func refusal(point string) syscall.Errno {
	asked, name, _ := strings.Cut(os.Getenv(faultPointVariable), "=")
	if asked != point {
		return 0
	}
	if _, already := refused.LoadOrStore(point, true); already {
		return 0
	}
	return map[string]syscall.Errno{"ENOMEM": unix.ENOMEM, "EAGAIN": unix.EAGAIN}[name]
}

func faultEnv() []string { return []string{faultPointVariable + "=" + os.Getenv(faultPointVariable)} }
