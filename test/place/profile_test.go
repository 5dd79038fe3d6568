package place

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// underProfile has this test program put a filter on itself, as container engines do by their default profile, and execute its arguments.
const underProfile = "PLACE_TEST_PROFILE"

func init() {
	if os.Getenv(underProfile) == "" {
		return
	}
	runtime.LockOSThread() // the filter is this thread's, and execve leaves only the one that calls it
	os.Unsetenv(underProfile)
	err := refuseClone3()
	if err == nil {
		err = unix.Exec(os.Args[1], os.Args[1:], os.Environ())
	}
	fmt.Fprintln(os.Stderr, "test:", err)
	os.Exit(99)
}

// refuseClone3 answers it with ENOSYS: that is what the default profiles of Docker and containerd do, since a filter can't see its flags.
func refuseClone3() error {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // seccomp_data.nr
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_CLONE3},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0x00050000 | uint32(unix.ENOSYS)}, // SECCOMP_RET_ERRNO
		{Code: unix.BPF_RET | unix.BPF_K, K: 0x7fff0000},                       // SECCOMP_RET_ALLOW
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	return os.NewSyscallError("seccomp", unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0))
}

// TestUnderAnEnginesProfile: children come to be where clone3 is refused, as confined as elsewhere, and the engine's filter is counted beside the plan's.
func TestUnderAnEnginesProfile(t *testing.T) {
	p := newPod(t)
	p.serve("")
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	launcher := as(runnerUID, "", filepath.Join(bin, "sandboxd-runner"), "connect", p.path("run/launcher/launcher.sock"), strconv.Itoa(daemonUID))
	unshare := append([]string{"/usr/bin/env", underProfile + "=1", self, "/usr/bin/unshare", "-m", "--propagation", "private", "sh", "-c", container, "sh", p.path("state")}, launcher...)
	p.launcher = begin(t, p.inside(unshare...)...)
	p.isReady()
	for range 3 {
		if got := p.ran("sh", "-c", "true & wait; grep Seccomp_filters /proc/self/status"); got != "Seccomp_filters:\t2\n" {
			t.Fatalf("%q", got)
		}
	}
}
