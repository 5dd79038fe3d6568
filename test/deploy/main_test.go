package deploy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// This test program is what a service manager is to sandboxd: it executes it, with asService set, under a filter if underFilter is.
const (
	asService   = "DEPLOY_TEST_SERVICE"
	underFilter = "DEPLOY_TEST_FILTER"
	inPlace     = "DEPLOY_TEST_PLACE" // paths that may be written to, with colons between them
)

func TestMain(m *testing.M) {
	if os.Getenv(asService) != "" {
		err := become(os.Args[1:])
		fmt.Fprintln(os.Stderr, "test:", err)
		os.Exit(99)
	}
	code := m.Run()
	if built.dir != "" {
		os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// become executes args.
func become(args []string) error {
	runtime.LockOSThread() // the filter is this thread's, and execve leaves only the one that calls it
	if os.Getenv(underFilter) != "" {
		allow := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0x7fff0000 /* SECCOMP_RET_ALLOW */}}
		program := unix.SockFprog{Len: uint16(len(allow)), Filter: &allow[0]}
		if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0); err != nil {
			return fmt.Errorf("seccomp: %w", err)
		}
	}
	if paths := os.Getenv(inPlace); paths != "" {
		if err := place(strings.Split(paths, ":")); err != nil {
			return err
		}
	}
	os.Unsetenv(inPlace)
	os.Unsetenv(asService)
	os.Unsetenv(underFilter)
	return unix.Exec(args[0], args, os.Environ())
}

var built struct {
	once sync.Once
	dir  string
	err  error
}

// binaries are sandboxd and sandboxd-runner: those of SANDBOXD_BIN, or built now.
func binaries(t *testing.T) string {
	t.Helper()
	if bin := os.Getenv("SANDBOXD_BIN"); bin != "" {
		return bin
	}
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "sandboxd-deploy"); built.err != nil {
			return
		}
		for _, name := range []string{"sandboxd", "sandboxd-runner"} {
			build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(built.dir, name), "../../cmd/"+name)
			build.Env = append(os.Environ(), "CGO_ENABLED=0")
			if out, err := build.CombinedOutput(); err != nil {
				built.err = fmt.Errorf("go build %s: %w\n%s", name, err, out)
				return
			}
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.dir
}

// place makes what the unit's settings make of the file system for the service: everything read-only but /dev, /proc, /sys and the given paths (ProtectSystem=strict,
// StateDirectory, ReadWritePaths), nothing in homes (ProtectHome), processes of others hidden (ProtectProc=invisible), in a mount namespace (PrivateMounts).
func place(writable []string) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	for _, m := range []struct {
		source, target, kind string
		flags                uintptr
		data                 string
	}{
		{"", "/", "", unix.MS_REC | unix.MS_SLAVE, ""},
		{"proc", "/proc", "proc", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, "hidepid=2"},
		{"tmpfs", "/root", "tmpfs", unix.MS_RDONLY, "mode=000"},
		{"tmpfs", "/home", "tmpfs", unix.MS_RDONLY, "mode=000"},
	} {
		if err := unix.Mount(m.source, m.target, m.kind, m.flags, m.data); err != nil {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	for _, path := range writable {
		if err := unix.Mount(path, path, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("bind %s: %w", path, err)
		}
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return fmt.Errorf("read-only: %w", err)
	}
	for _, path := range append([]string{"/dev", "/proc", "/sys"}, writable...) {
		if err := unix.MountSetattr(unix.AT_FDCWD, path, unix.AT_RECURSIVE, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}); err != nil {
			return fmt.Errorf("writable %s: %w", path, err)
		}
	}
	return nil
}
