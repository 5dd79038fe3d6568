// Package kerneltest says which tests a kernel and a place can run. A feature that this kernel is too old for, or that this place withholds
// for a reason that can be named, skips the test; a feature that must be there and refuses fails it, so that no mechanism goes untested unseen.
package kerneltest

import (
	"bytes"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Feature is something that a test needs.
type Feature struct {
	name string
	// since is the release that brought it.
	since string
	// absent says why this place withholds it on a kernel that has it; empty: nothing does.
	absent func() string
	// try uses it.
	try func() error
}

// Require skips the test where the feature can't be had, and fails it where it must be had and refuses.
func Require(t testing.TB, features ...Feature) {
	t.Helper()
	for _, feature := range features {
		if !Kernel(feature.since) {
			t.Skipf("%s needs Linux %s; this is %s", feature.name, feature.since, Release())
		}
		if feature.absent != nil {
			if why := feature.absent(); why != "" {
				t.Skipf("%s: %s", feature.name, why)
			}
		}
		if feature.try != nil {
			if err := feature.try(); err != nil {
				t.Fatalf("%s: this kernel (%s) has it and refuses: %v", feature.name, Release(), err)
			}
		}
	}
}

// Root is effective uid 0 in the machine's own user namespace.
var Root = Feature{name: "root", absent: func() string {
	if os.Geteuid() != 0 {
		return "not root"
	}
	if data, err := os.ReadFile("/proc/self/uid_map"); err != nil || len(bytes.Fields(data)) != 3 || string(bytes.Fields(data)[2]) != "4294967295" {
		return "in a user namespace"
	}
	return ""
}}

// Seccomp is seccomp filters.
var Seccomp = Feature{name: "seccomp", since: "3.17", absent: func() string {
	if _, err := os.Stat("/proc/sys/kernel/seccomp/actions_avail"); err != nil {
		return "not compiled in"
	}
	return ""
}}

// UserNamespaces is that a process may make a user namespace.
var UserNamespaces = Feature{name: "user namespaces", since: "3.8", absent: func() string {
	for file, closed := range map[string]string{
		"/proc/sys/user/max_user_namespaces":                     "0",
		"/proc/sys/kernel/unprivileged_userns_clone":             "0",
		"/proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1",
	} {
		if data, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(data)) == closed {
			return file + " is " + closed
		}
	}
	if _, err := os.Stat("/proc/self/ns/user"); err != nil {
		return "not compiled in"
	}
	return ""
}, try: func() error {
	command := exec.Command("/bin/true")
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER}
	return command.Run()
}}

// Landlock is Landlock of at least an ABI.
func Landlock(abi int) Feature {
	since := map[int]string{1: "5.13", 2: "5.19", 3: "6.2", 4: "6.7", 5: "6.10", 6: "6.12"}[abi]
	return Feature{name: "Landlock ABI " + strconv.Itoa(abi), since: since, absent: func() string {
		have, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
		if errno != 0 {
			return "not enabled: " + errno.Error()
		}
		if int(have) < abi {
			return "this kernel has ABI " + strconv.Itoa(int(have))
		}
		return ""
	}}
}

// Release is uname's release.
func Release() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return ""
	}
	return unix.ByteSliceToString(name.Release[:])
}

// Kernel says whether the running kernel is of this version, "6.12", or later. Empty: always.
func Kernel(atLeast string) bool {
	if atLeast == "" {
		return true
	}
	want, have := version(atLeast), version(Release())
	return have[0] > want[0] || have[0] == want[0] && have[1] >= want[1]
}

func version(release string) [2]int {
	var numbers [2]int
	for i, part := range strings.SplitN(release, ".", 3) {
		if i == 2 {
			break
		}
		digits := strings.TrimRightFunc(part, func(r rune) bool { return r < '0' || r > '9' })
		numbers[i], _ = strconv.Atoi(digits)
	}
	return numbers
}
