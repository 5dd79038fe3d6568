package dropin

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer/landlock"
	"github.com/sandboxd/sandboxd/enforcer/seccomp"
)

// The descriptors of the confined stage; those below are the interpreter's.
const (
	driverDescriptor = 3
	jobDescriptor    = 4
	resultDescriptor = 5
	reportDescriptor = 6
)

// writable are directories that a program may change files beneath, where they are there, besides working directory, home and TMPDIR.
var writable = []string{"/tmp", "/var/tmp", "/dev/shm", "/run/lock"}

// confined is the second stage: this thread confines itself and becomes the interpreter. args are the limit of processes and the interpreter's argv.
// What it can't put in force it reports, a line each; the supervisor looks whether the rest is.
func confined(args []string) int {
	runtime.LockOSThread() // what a thread puts on itself is what it executes with
	report := os.NewFile(reportDescriptor, "report")
	unix.CloseOnExec(reportDescriptor)
	procs, err := strconv.ParseUint(args[0], 10, 64)
	if err != nil {
		return exitOurs
	}
	if err := unix.CloseRange(reportDescriptor+1, ^uint(0)>>32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		fmt.Fprintf(report, "%sclose_range: %v\n", fatal, err)
		return exitOurs
	}
	path, err := findProgram(args[1])
	if err != nil {
		fmt.Fprintf(report, "%s%v\n", fatal, err)
		return exitOurs
	}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"no_new_privs", func() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }},
		{"capabilities", dropCapabilities},
		{"landlock", restrictFiles},
		{"core", func() error { return limit(unix.RLIMIT_CORE, 0) }},
		{"seccomp", restrictCalls},
		// Last: the runtime may want a thread.
		{"process limit", func() error { return limit(unix.RLIMIT_NPROC, procs) }},
	} {
		if err := step.do(); err != nil {
			fmt.Fprintf(report, "%s: %v\n", step.name, err)
		}
	}
	err = unix.Exec(path, args[1:], os.Environ())
	fmt.Fprintf(report, "%s%s: %v\n", fatal, path, err)
	return exitOurs
}

// dropCapabilities empties all five sets, as far as they are ours to empty.
func dropCapabilities() error {
	for capability := range 64 {
		if unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(capability), 0, 0, 0) != nil {
			break // beyond the last one; or without CAP_SETPCAP, and then there is no way to gain one: no_new_privs is on
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	// Root of the container keeps none over execve either.
	const noRoot = 0x2f // NOROOT, NO_SETUID_FIXUP and NO_CAP_AMBIENT_RAISE, locked; KEEP_CAPS locked off needs a thread that has it off: it is
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := [2]unix.CapUserData{}
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err
	}
	if data[0].Effective&(1<<unix.CAP_SETPCAP) != 0 {
		if err := unix.Prctl(unix.PR_SET_SECUREBITS, noRoot, 0, 0, 0); err != nil {
			return fmt.Errorf("securebits: %w", err)
		}
	}
	data = [2]unix.CapUserData{}
	return unix.Capset(&header, &data[0])
}

// restrictFiles keeps writing to a few directories, and signals and abstract sockets to the program's own processes. The network is the container's.
func restrictFiles() error {
	abi := landlock.ABI()
	if abi == 0 {
		return fmt.Errorf("this kernel has none, or not in its list of LSMs")
	}
	rules := []landlock.PathRule{{Path: "/", Access: landlock.Read}, {Path: "/dev", Access: landlock.Read | landlock.Device}}
	places := append([]string{os.Getenv("HOME"), os.Getenv("TMPDIR")}, writable...)
	if here, err := os.Getwd(); err == nil {
		places = append(places, here)
	}
	for _, place := range places {
		// Never the whole root, which is the home of many an image's user.
		if info, err := os.Stat(place); err == nil && info.IsDir() && filepath.IsAbs(place) && filepath.Clean(place) != "/" {
			rules = append(rules, landlock.PathRule{Path: place, Access: landlock.Write})
		}
	}
	ruleset := landlock.For(abi, rules, nil)
	ruleset.HandledNet = 0
	fd, err := ruleset.Create()
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return landlock.RestrictSelf(fd)
}

func restrictCalls() error {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return err
	}
	profile, err := seccomp.RuntimeDefault(runtime.GOARCH, unix.ByteSliceToString(name.Release[:]))
	if err != nil {
		return err
	}
	program, err := seccomp.Compile(profile, runtime.GOARCH)
	if err != nil {
		return err
	}
	return seccomp.RestrictSelf(program)
}

func limit(resource int, most uint64) error {
	return unix.Setrlimit(resource, &unix.Rlimit{Cur: most, Max: most})
}

// findProgram looks a name up as a shell does.
func findProgram(name string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	for _, directory := range filepath.SplitList(os.Getenv("PATH")) {
		path := filepath.Join(directory, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && unix.Access(path, unix.X_OK) == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s: not found in PATH", name)
}
