package network

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// inside is set in the environment of the process that has the namespace; absent says why there is none.
const inside = "SANDBOXD_TEST_NETWORK"

var absent error

// Main runs the tests of m in a network namespace of their own, and returns their status. An ordinary user gets it through a user namespace.
func Main(m *testing.M) int {
	if os.Getenv(inside) != "" {
		if err := setUp(); err != nil {
			fmt.Fprintln(os.Stderr, "test network:", err)
			return 1
		}
		return m.Run()
	}
	// PDEATHSIG follows the thread that forked.
	runtime.LockOSThread()
	again := exec.Command("/proc/self/exe", os.Args[1:]...)
	again.Stdin, again.Stdout, again.Stderr = os.Stdin, os.Stdout, os.Stderr
	again.Env = append(os.Environ(), inside+"=1")
	again.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if uid := os.Geteuid(); uid != 0 {
		again.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		again.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		again.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
		again.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_NET_ADMIN, unix.CAP_NET_BIND_SERVICE, unix.CAP_NET_RAW, unix.CAP_SYS_ADMIN}
	}
	err := again.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return max(exit.ExitCode(), 1)
	case err != nil:
		absent = fmt.Errorf("a namespace of its own: %w", err)
		return m.Run() // for New to say so, test by test
	}
	return 0
}

// setUp gives the loopback all addresses of the hosts.
func setUp() error {
	var batch strings.Builder
	batch.WriteString("link set lo up\n")
	for _, address := range addresses() {
		fmt.Fprintf(&batch, "address add %s/%d dev lo", address, address.BitLen())
		if address.Is6() {
			batch.WriteString(" nodad")
		}
		batch.WriteString("\n")
	}
	command := exec.Command("ip", "-batch", "-")
	command.Stdin = strings.NewReader(batch.String())
	var stderr bytes.Buffer
	command.Stderr = &stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("ip: %w: %s", err, stderr.Bytes())
	}
	return nil
}
