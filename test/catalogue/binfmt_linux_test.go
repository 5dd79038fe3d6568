package catalogue

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/test/kerneltest"
)

// The last of A25: a kind of program that the kernel hands to an interpreter of somebody's choice, with the privilege of the program's own file.
// Since 6.7 a user namespace has such kinds of its own, so that the machine's stay as they are: sandboxd runs in one, as an ordinary user of it.
func TestBinfmtMisc(t *testing.T) {
	onlyRoot(t, "only root maps a second id into a user namespace")
	kerneltest.Require(t, kerneltest.UserNamespaces)
	if kinds, err := os.ReadFile("/proc/filesystems"); err != nil || !strings.Contains(string(kinds), "\tbinfmt_misc\n") || !kerneltest.Kernel("6.7") {
		count.note(count.skipped, "binfmt_misc of a user namespace (Linux 6.7)")
		t.Skip("SKIP: this kernel has no binfmt_misc in user namespaces, or none at all")
	}
	bin := binaries(t)
	dir := shown(t, bin)
	for _, name := range []string{"sandboxd", "sandboxd-runner"} {
		program, err := os.ReadFile(filepath.Join(bin, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), program, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	state, err := os.MkdirTemp("/var/tmp", "sandboxd-catalogue-state") // not in what the sandbox is shown
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(state) })
	foreign := filepath.Join(dir, "foreign-kind")
	text := binfmtMagic + "\nexec " + dir + "/probe status\n"
	if err := errors.Join(os.Chown(state, binfmtUser, binfmtUser), os.WriteFile(foreign, []byte(text), 0o755),
		os.Chmod(foreign, 0o755|os.ModeSetuid|os.ModeSetgid)); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		what, stdout, stderr string
		command              []string
		status               int
	}{
		{"as a child", "", plain, []string{dir + "/probe", "spawn", foreign}, 0},
		{"as what a program becomes", "", plain, []string{dir + "/probe", "become", foreign}, 0},
		// What was opened before the gate is what runs, and an interpreter of a kind gets a path that is gone by then: nothing runs.
		{"as the program itself", "", "not_started", []string{foreign}, 127},
	} {
		t.Run(row.what, func(t *testing.T) {
			self := exec.Command("/proc/self/exe", append([]string{dir + "/sandboxd", "exec", "--stdin", "none", "--state", state, "--show", dir, "--"}, row.command...)...)
			self.Env = append(os.Environ(), "CATALOGUE_BINFMT=1")
			ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}, {ContainerID: 1, HostID: binfmtUser, Size: 1}}
			self.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS, UidMappings: ids, GidMappings: ids, GidMappingsEnableSetgroups: true}
			var stdout, stderr strings.Builder
			self.Stdout, self.Stderr = &stdout, &stderr
			_ = self.Run() // the status says it
			if status := self.ProcessState.ExitCode(); status != row.status || !strings.Contains(stderr.String(), row.stderr) {
				t.Errorf("status %d, stdout %q, stderr %q; want %d, %q", status, stdout.String(), stderr.String(), row.status, row.stderr)
				return
			}
			count.hold()
		})
	}
}

const (
	binfmtMagic = "#sandboxd-catalogue-kind"
	binfmtUser  = 54321
)

// registerKind is the process in the new user namespace: it registers the kind, becomes uid 1 and the command.
func registerKind(command []string) error {
	if err := errors.Join(
		unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("none", "/proc/sys/fs/binfmt_misc", "binfmt_misc", 0, ""),
		// C: the credentials are those of the program's own file; O: the interpreter gets it open.
		os.WriteFile("/proc/sys/fs/binfmt_misc/register", []byte(":sandboxd:M::"+binfmtMagic+"::/bin/sh:OC"), 0),
		syscall.Setgroups(nil), syscall.Setgid(1), syscall.Setuid(1),
	); err != nil {
		return err
	}
	return fmt.Errorf("%s: %w", command[0], syscall.Exec(command[0], command, os.Environ()))
}
