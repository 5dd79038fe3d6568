package datarobot

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// containers runs the image of docs/datarobot.md by a container runtime.
type containers struct {
	image   image
	runtime string
	folder  string
	mounted []string
	made    int
}

func newContainers(t *testing.T) *containers {
	t.Helper()
	runtime, err := exec.LookPath("runc")
	if err != nil {
		t.Skip("no runc, which runs a container")
	}
	if os.Geteuid() != 0 {
		t.Skip("not root: runc as it is set up by distributions wants to be")
	}
	c := &containers{image: documentedImage(t), runtime: runtime, folder: shared(t, "")}
	if err := os.Chmod(c.folder, 0o755); err != nil {
		t.Fatal(err)
	}
	c.mounted = c.image.root(t, filepath.Join(c.folder, "root"), map[string]string{"sandboxd-runner": runner(t)})
	return c
}

// run runs one container with these variables, and gives its stdout, whole.
func (c *containers) run(t *testing.T, env map[string]string) (stdout string, got ending) {
	t.Helper()
	c.made++
	name := cgroupName(c.made)
	c.image.bundle(t, c.folder, c.mounted, env, name)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	id, state := strings.TrimPrefix(name, "/"), filepath.Join(c.folder, "state")
	cmd := exec.CommandContext(ctx, c.runtime, "--root", state, "run", "--bundle", c.folder, id)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	var exited *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exited) {
		t.Fatalf("runc: %v: %s", err, &errs)
	}
	if ctx.Err() != nil {
		said, err := exec.Command(c.runtime, "--root", state, "delete", "--force", id).CombinedOutput()
		t.Fatalf("the container doesn't end; deleting it: %v %s", err, said)
	}
	clean, value := parsed(t, out.String())
	return out.String(), ending{cmd.ProcessState.ExitCode(), value, clean, errs.String()}
}

// inContainer are vectors that are run in one beside every 16th: what a container changes.
var inContainer = []string{"tmo-sleep", "tmo-alarm-ignore", "run-daemonised-child", "run-uid", "run-cwd", "run-fork", "run-subprocess-inherits-env", "exc-huge-alloc", "mk-child-forged"}

// TestDropinInContainer: the documented image, run by a real container runtime as an ordinary user with no capability, is the reference runner too.
func TestDropinInContainer(t *testing.T) {
	c := newContainers(t)
	found := version(t, "/usr/bin/python3")
	for i, row := range runnerVectors(t) {
		if i%16 != 0 && !slices.Contains(inContainer, row.ID) || strings.HasSuffix(row.ID, "-140k") { // those come by files of this machine
			continue
		}
		t.Run(row.ID, func(t *testing.T) {
			_, got := c.run(t, contractEnv(t, row, t.TempDir()))
			checkEnding(t, row, row.expectation(t, found), got)
		})
	}
}

// TestContainerConfines: in the container the program has what docs/datarobot.md says, with nothing added to what a container gives.
func TestContainerConfines(t *testing.T) {
	c := newContainers(t)
	const code = `
import os, ctypes
status = {line.partition(":")[0]: line.partition(":")[2].strip() for line in open("/proc/self/status")}
def errno(act):
    try:
        act()
    except OSError as e:
        return e.errno
libc = ctypes.CDLL(None, use_errno=True)
_return = [os.getuid(), os.getppid(), os.getcwd(), [status[n] for n in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")],
           errno(lambda: open("/proc/1/environ", "rb").read()), errno(lambda: open("/var", "w")), libc.unshare(0x10000000), ctypes.get_errno()]
`
	stdout, got := c.run(t, map[string]string{"DR_SANDBOX_CODE_B64": base64.StdEncoding.EncodeToString([]byte(code))})
	none := "0000000000000000"
	// The bounding set stays the container's: to empty it needs a capability, and with no_new_privs it gives nobody one.
	want := fmt.Sprintf(`[%d, 1, "%s", ["%s", "%s", "%s", "00000000a80425fb", "%s", "1", "2"], 13, 13, -1, 1]`, c.image.uid, c.image.directory, none, none, none, none)
	if got.exit != 0 || got.value != want || got.stderr != "" {
		t.Errorf("exit %d, value %s\nwant %s\nstderr %s\nstdout %q", got.exit, got.value, want, got.stderr, stdout)
	}
}
