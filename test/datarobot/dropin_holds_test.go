package datarobot

import (
	"bytes"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A program of the drop-in runner tries what it must not do, and says what came of it.
func TestDropinConfines(t *testing.T) {
	program := shared(t, runner(t))
	if data, err := os.ReadFile("/sys/kernel/security/lsm"); err == nil && !strings.Contains(string(data), "landlock") {
		t.Skip("this kernel has no Landlock")
	}
	for name, row := range map[string]struct{ code, value string }{
		"signals the supervisor":   {"import os\ntry:\n    os.kill(os.getppid(), 9)\nexcept OSError as e:\n    _return = e.errno", "1"},
		"reads the supervisor":     {"import os\ntry:\n    open('/proc/%d/environ' % os.getppid(), 'rb').read()\nexcept OSError as e:\n    _return = e.errno", "13"},
		"makes a user namespace":   {"import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\n_return = [libc.unshare(0x10000000), ctypes.get_errno()]", "[-1, 1]"},
		"writes beside its places": {"try:\n    open(inputs['beside'] + '/x', 'w')\nexcept OSError as e:\n    _return = e.errno", "13"},
		"writes where it may":      {"import os\nopen('here', 'w').write('x')\nopen(os.environ['TMPDIR'] + '/there', 'w')\n_return = 1", "1"},
		"has no capability":        {"_return = [l.split()[1] for l in open('/proc/self/status') if l.startswith(('CapEff', 'CapPrm', 'NoNewPrivs', 'Seccomp:'))]", `["0000000000000000", "0000000000000000", "1", "2"]`},
		"a large value":            {"_return = len('x' * (20 << 20)) and 'y' * (20 << 20)", `"` + strings.Repeat("y", 20<<20) + `"`},
	} {
		t.Run(name, func(t *testing.T) {
			// As the test's own user, root where that is so: what refuses then isn't a permission.
			place := t.TempDir()
			cmd := exec.CommandContext(t.Context(), program, "python", "--strict", "/usr/bin/python3")
			cmd.Dir = place
			cmd.Env = []string{"PATH=/usr/bin:/bin", "LANG=C.UTF-8", "TMPDIR=" + place, "HOME=" + place,
				"DR_SANDBOX_CODE_B64=" + base64.StdEncoding.EncodeToString([]byte(row.code)),
				"DR_SANDBOX_INPUTS_B64=" + base64.StdEncoding.EncodeToString([]byte(`{"beside":"/usr/local"}`))}
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if _, value := parsed(t, string(out)); err != nil || value != row.value {
				t.Errorf("value %.200s, %v, want %.200s; stderr %s", value, err, row.value, &stderr)
			}
		})
	}
}

// Whatever a program has left behind, and however, is gone when the runner has ended.
func TestDropinEndsTheTree(t *testing.T) {
	program := shared(t, runner(t))
	const daemonise = `
import os, sys, time
for i in range(20):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.setsid()
            with open('pid%d' % i, 'w') as f:
                f.write(str(os.getpid()))
            time.sleep(600)
        os._exit(0)
while len([n for n in os.listdir() if n.startswith('pid') and os.path.getsize(n)]) < 20:
    time.sleep(0.01)
`
	for name, row := range map[string]struct {
		code   string
		exit   int
		signal syscall.Signal
	}{
		"at its end":             {daemonise + "_return = 1", 0, 0},
		"at its limit":           {daemonise + "while True:\n    pass", 124, 0},
		"when it is told to end": {daemonise + "open('ready', 'w')\nwhile True:\n    pass", 143, syscall.SIGTERM},
	} {
		t.Run(name, func(t *testing.T) {
			place := t.TempDir()
			cmd := exec.CommandContext(t.Context(), program, "python", "/usr/bin/python3")
			cmd.Dir = place
			cmd.Env = []string{"PATH=/usr/bin:/bin", "DR_SANDBOX_TIMEOUT_SECS=5", "DR_SANDBOX_CODE_B64=" + base64.StdEncoding.EncodeToString([]byte(row.code))}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			for row.signal != 0 {
				if _, err := os.Stat(filepath.Join(place, "ready")); err == nil {
					if err := cmd.Process.Signal(row.signal); err != nil {
						t.Fatal(err)
					}
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			_ = cmd.Wait()
			if got := cmd.ProcessState.ExitCode(); got != row.exit {
				t.Errorf("exit %d, want %d", got, row.exit)
			}
			files, err := filepath.Glob(filepath.Join(place, "pid*"))
			if err != nil || len(files) != 20 {
				t.Fatalf("%d daemons: %v", len(files), err)
			}
			for _, file := range files {
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if pid, err := strconv.Atoi(string(text)); err != nil || syscall.Kill(pid, 0) != syscall.ESRCH {
					t.Errorf("process %s is still there", text)
				}
			}
		})
	}
}
