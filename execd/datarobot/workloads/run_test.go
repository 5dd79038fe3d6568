package workloads

import (
	"context"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/execd"
)

const forge = `print('__DR_SANDBOX_RESULT__:"forged"', flush=True)`

// How runs end, as the client sees it. F5, F6, F7, F8, F11, F14.
func TestRuns(t *testing.T) {
	s := serve(t, nil)
	for _, row := range []struct {
		name, code string
		edit       func(*spec)
		want       result
	}{
		{"a value", "print('a\\n\\n\\nb')\n_return = {'z': 1, 'a': [1.0, 2**70, '\\ud800\\u2028']}", nil,
			result{"succeeded", 0, "a\n\n\nb", "", `{"z": 1, "a": [1.0, 1180591620717411303424, "\ud800\u2028"]}`}},
		{"nothing", "", func(s *spec) { s.env[codeVariable] = "Cg==" }, result{"succeeded", 0, "", "", "null"}},
		{"tokens of Python's JSON", "_return = [float('nan'), -float('inf'), inputs['f']]", func(s *spec) {
			s.env[inVariable] = base64.StdEncoding.EncodeToString([]byte(`{"f": Infinity, "f": Infinity}`))
		}, result{"succeeded", 0, "", "", "[NaN, -Infinity, Infinity]"}},
		{"a byte order mark", "\ufeff_return = 1", nil, result{"succeeded", 0, "", "", "1"}},
		{"streams", "import sys\nprint('o')\nprint('e\\n\\nf', file=sys.stderr)\nsys.exit(3)", nil, result{"errored", 3, "o", "e\n\nf", "null"}},
		{"bytes", "import sys\nsys.stdout.buffer.write(b'\\xff ok\\r\\n')\n_return = 1", nil, result{"succeeded", 0, "\ufffd ok\r", "", "1"}},
		{"a forged marker", forge + "\n_return = 'real'", nil, result{"succeeded", 0, `__DR_SANDBOX_RESULT__:"forged"`, "", `"real"`}},
		{"and no value", "import os\n" + forge + "\nos._exit(0)", nil, result{"succeeded", 0, `__DR_SANDBOX_RESULT__:"forged"`, "", "null"}},
		{"time", "import time\nprint('x', flush=True)\ntime.sleep(100)", timeout("1"), result{"timeout", 124, "x", "sandbox exceeded timeout of 1s", "null"}},
		{"time, with a value so far", "import time\n_return = 'so far'\ntime.sleep(100)", timeout("1"), result{"timeout", 124, "", "sandbox exceeded timeout of 1s", `"so far"`}},
		{"time that isn't heeded", "import signal\n_return = 1\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))\nwhile True:\n    pass", timeout("1"),
			result{"timeout", 124, "", "sandbox exceeded timeout of 1s", "null"}},
		{"124 by itself", "import sys\nsys.exit(124)", nil, result{"errored", 124, "", "", "null"}},
		{"a signal", "import os\nos.kill(os.getpid(), 11)", nil, result{"errored", 139, "", "", "null"}},
		{"variables", "import os\n_return = [os.environ.get('MINE'), 'DR_SANDBOX_CODE_B64' in os.environ]",
			func(s *spec) { s.env["MINE"] = "x" }, result{"succeeded", 0, "", "", `["x", false]`}},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := s.run(row.code, row.edit); got != row.want {
				t.Errorf("\n got %+v\nwant %+v", got, row.want)
			}
		})
	}
	for name, code := range map[string]string{
		"deep": "x = []\nfor _ in range(100000):\n    x = [x]\n_return = x", "digits": "_return = 10 ** 5000", "surprise": "class C:\n    def __str__(self): raise KeyError\n_return = C()",
	} {
		got := s.run("print('kept')\n"+code, nil)
		if got.marker != "null" && !strings.HasPrefix(got.marker, `"`) || got.stdout != "kept" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// F8: a tree that has no more memory. F18: as much as was asked for, not the operator's maximum.
func TestMemory(t *testing.T) {
	s := serve(t, nil)
	got := s.run("x = []\nwhile True:\n    x.append(bytearray(b'x') * (8 << 20))", func(s *spec) { s.resource = `{"memory":134217728}` })
	if got.status != "errored" || got.exit != 137 || !strings.HasPrefix(got.stderr, "sandboxd: OOMKilled") || got.marker != "null" {
		t.Errorf("%+v", got)
	}
	if got := s.run("x = bytearray(b'x') * (64 << 20)\n_return = len(x)", func(s *spec) { s.resource = `{"memory":134217728}` }); got.marker != "67108864" {
		t.Errorf("within it: %+v", got)
	}
	got = s.run("import sys\nsys.exit(137)", nil)
	if got.exit != 137 || strings.Contains(got.stderr, "OOMKilled") {
		t.Errorf("137 by itself: %+v", got)
	}
}

// What is enforced, whether or not a context was sent. F16.
func TestEnforced(t *testing.T) {
	s := serve(t, nil)
	const code = `
import ctypes, os, tempfile
s = dict(l.split(':', 1) for l in open('/proc/self/status') if ':' in l)
made = []
for d in ['/', '/usr', '/etc', '/var', os.path.dirname(os.__file__)]:
    try:
        open(os.path.join(d, 'probe'), 'w').close()
        made.append(d)
    except OSError:
        pass
libc = ctypes.CDLL(None, use_errno=True)
_return = [s[k].strip() for k in ('CapEff', 'CapPrm', 'CapBnd', 'NoNewPrivs', 'Seccomp')] + [made, libc.unshare(0x10000000), os.getuid() != 0, os.listdir(tempfile.gettempdir())]`
	const want = `["0000000000000000", "0000000000000000", "0000000000000000", "1", "2", [], -1, true, []]`
	for _, context := range []string{
		"", "{}", `{"readOnlyRootFilesystem":true,"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]},"seccompProfile":{"type":"RuntimeDefault"}}`,
		`{"capabilities":{"drop":["NET_RAW"]}}`, `{"capabilities":{"drop":["whatever"]}}`, `{"capabilities":{"add":[],"drop":[]}}`,
	} {
		if got := s.run(code, func(s *spec) { s.context = context }); got.marker != want {
			t.Errorf("%s:\n got %s %s\nwant %s", context, got.marker, got.stderr, want)
		}
	}
}

// F2: a create doesn't wait for a place, nor does its clock run. F10: nothing of a workload can be read before its end. F4: all of it can, as soon as
// its status says that it has ended.
func TestProvisioning(t *testing.T) {
	s := serve(t, func(c *execd.Config, _ *Config) { c.MaxRunning = 1 })
	leave, err := s.service.Admit(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	ids := []string{}
	for range 8 {
		ids = append(ids, s.created(payload(forge+"\n_return = 1", timeout("5"))))
	}
	for _, id := range ids {
		if d, _ := s.until(id, statusProvisioning); d.Status != statusProvisioning || d.ExitCode != nil || d.StatusDetails != nil {
			t.Errorf("%+v", d)
		}
		if l := s.logs(id, ""); l.Count != 0 || len(l.Data) != 0 || l.Next != nil {
			t.Errorf("%+v", l)
		}
	}
	leave()
	for _, id := range ids {
		for {
			d, _ := s.until(id, statusProvisioning, statusRunning)
			before := d.Status == statusProvisioning || d.Status == statusRunning
			if l := s.logs(id, ""); !before {
				if r := l.read(t); r.marker != "1" {
					t.Errorf("%+v", r)
				}
				if d.StatusDetails.Sandboxd.Outcome != execd.OutcomeOK || d.StatusDetails.Sandboxd.AuditSequence == 0 || d.StatusDetails.Sandboxd.VerdictDigest == "" {
					t.Errorf("%+v", d.StatusDetails)
				}
				break
			}
		}
	}
}

// F12: deleting kills, whatever the workload is doing, and takes everything away.
func TestDelete(t *testing.T) {
	s := serve(t, func(c *execd.Config, _ *Config) { c.MaxRunning = 1 })
	const name = "987654.321"
	running := s.created(payload("import os\nprint('x')\nos.execvp('sleep', ['sleep', '"+name+"'])", nil))
	for deadline := time.Now().Add(time.Minute); !processNamed(t, name); time.Sleep(5 * time.Millisecond) { // polls what the test is about
		if time.Now().After(deadline) {
			t.Fatal("it doesn't run")
		}
	}
	waiting := s.created(payload("_return = 1", nil))
	for _, id := range []string{waiting, running} {
		if got := s.do("DELETE", "/api/v2/workloads/"+id+"/", ""); got.status != 204 || got.body != "" {
			t.Errorf("%d %s", got.status, got.body)
		}
		for _, again := range []answer{
			s.do("DELETE", "/api/v2/workloads/"+id, ""), s.do("GET", "/api/v2/workloads/"+id, ""), s.do("GET", "/api/v2/otel/workload/"+id+"/logs", ""),
		} {
			if again.status != 404 || !strings.Contains(again.body, "no such workload") {
				t.Errorf("%d %s", again.status, again.body)
			}
		}
	}
	if processNamed(t, name) {
		t.Error("it still runs")
	}
	ended := s.created(payload("_return = 1", nil))
	s.until(ended)
	s.do("DELETE", "/api/v2/workloads/"+ended, "")
	if left, err := os.ReadDir(filepath.Join(s.state, "workloads")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	s.facade.mu.Lock()
	defer s.facade.mu.Unlock()
	if s.facade.waitingBytes != 0 || s.facade.logBytes != 0 {
		t.Errorf("still counted: %d, %d", s.facade.waitingBytes, s.facade.logBytes)
	}
}

// processNamed says whether a process has a word in its command line.
func processNamed(t *testing.T, word string) bool {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if data, err := os.ReadFile(name); err == nil && strings.Contains(string(data), "sleep\x00"+word) {
			return true
		}
	}
	return false
}

// F12: what nobody deletes goes away by itself.
func TestExpiry(t *testing.T) {
	s := serve(t, func(_ *execd.Config, w *Config) { w.Retention = 300 * time.Millisecond })
	id := s.created(payload("_return = 1", nil))
	deadline := time.Now().Add(time.Minute)
	for s.do("GET", "/api/v2/workloads/"+id, "").status != 404 {
		if time.Now().After(deadline) {
			t.Fatal("it is still there")
		}
		time.Sleep(5 * time.Millisecond) // polls what the test is about
	}
}

// F3: a body of 32 MiB, and a megabyte of code.
func TestLarge(t *testing.T) {
	s := serve(t, nil)
	big := `{"blob": "` + strings.Repeat("x", 23<<20) + `"}`
	body := payload("y = '"+strings.Repeat("y", 700_000)+"'\n_return = [len(inputs['blob']), len(y)]", func(s *spec) {
		s.env[inVariable] = base64.StdEncoding.EncodeToString([]byte(big))
	})
	if len(body) < leastBody-(1<<20) {
		t.Fatalf("only %d bytes", len(body))
	}
	id := s.created(body)
	s.until(id)
	if got := s.logs(id, "").read(t); got.marker != "[24117248, 700000]" {
		t.Errorf("%+v", got)
	}
	if got := s.do("POST", "/workloads", strings.Repeat(" ", 64<<20+1)); got.status != 413 {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// A cap on what is kept of the output never drops the value, which has one of its own, and is told.
func TestOutputCap(t *testing.T) {
	s := serve(t, func(c *execd.Config, w *Config) { w.OutputBytes, c.ValueBytes = 100_000, 150_000 })
	got := s.run("print('line\\n' * 100000)\n_return = 'v' * 1000", nil)
	if got.marker != `"`+strings.Repeat("v", 1000)+`"` || !strings.Contains(got.stderr, "stdout was cut") || len(got.stdout) > 100_000 || len(got.stdout) < 90_000 {
		t.Errorf("%d bytes, %q, %.60s", len(got.stdout), got.stderr, got.marker)
	}
	if got := s.run("_return = 'v' * 200000", nil); got.marker != "null" || !strings.Contains(got.stderr, "no value: ") {
		t.Errorf("%q, %.60s", got.stderr, got.marker)
	}
}

// The token is nowhere that code or a reader of logs could find it.
func TestTokenIsNowhere(t *testing.T) {
	s := serve(t, nil)
	got := s.run("import os\n_return = [dict(os.environ), open('/proc/self/environ').read(), open('/proc/self/cmdline').read()]", nil)
	if strings.Contains(got.marker, "canary") || len(got.marker) < 20 {
		t.Errorf("%s", got.marker)
	}
	s.do("GET", "/workloads/x", "", "", "Bearer canary-wrong")
	s.stop()
	if strings.Contains(s.log.String(), "canary") {
		t.Errorf("in the log: %s", s.log)
	}
	if err := os.Remove(filepath.Join(s.state, "token")); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(s.state, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), "canary") {
			t.Errorf("in %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
