package execd

import (
	"encoding/json/v2"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/policy"
)

// warmConfig has interpreters wait.
func warmConfig(t testing.TB, sets ...Prewarm) Config {
	c := testConfig(t)
	c.Prewarm = sets
	return c
}

// awaited waits for what happens in the background, however busy the machine is.
func awaited(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(2 * time.Millisecond) { // polls the state that the test is about
		if time.Now().After(end) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

func untilFull(t testing.TB, s *Service) {
	t.Helper()
	awaited(t, "interpreters that wait", func() bool {
		_, _, trouble := s.interpreters.count()
		if trouble != nil {
			t.Fatal(trouble)
		}
		return s.interpreters.full()
	})
}

// run has code run by an interpreter that was started as it is said.
func run(t testing.TB, s *Service, how string, r policy.Request) Reply {
	t.Helper()
	if how == InterpreterWarm {
		untilFull(t, s)
	}
	reply := s.Exec(t.Context(), r, Options{})
	if reply.Interpreter != how {
		text, _ := reply.Encode()
		t.Fatalf("interpreter %q, want %q: %s", reply.Interpreter, how, text)
	}
	return reply
}

// TestWarm: the same programs as cold, with the same values, and every one of them by another interpreter.
func TestWarm(t *testing.T) {
	s := start(t, warmConfig(t, Prewarm{Imports: []string{"json"}, Size: 2}))
	seen := map[string]bool{}
	for _, row := range []struct {
		name, code string
		want       Outcome
		value, how string
		out, errs  string
	}{
		{"a value", "print('hi')\n_return = {'double': inputs['n'] * 2}", OutcomeOK, `{"double": 6}`, "value", "hi\n", ""},
		{"exception keeps the value", "_return = 1\nraise ValueError('x')", OutcomeError, "1", "value", "", "ValueError: x"},
		{"hard exit", "import os\n_return = 1\nos._exit(0)", OutcomeOK, "null", "none", "", ""},
		{"large", "_return = 'x' * 300000", OutcomeOK, `"` + strings.Repeat("x", 300_000) + `"`, "value", "", ""},
		{"a signal", "import os\nos.kill(os.getpid(), 9)", OutcomeSignaled, "null", "none", "", ""},
		{"exit", "import sys\nsys.exit(7)", OutcomeError, "null", "value", "", ""},
	} {
		r := pythonRun(row.code)
		reply := run(t, s, InterpreterWarm, r)
		mustBe(t, reply, row.want)
		stdout, stderr := reply.Output()
		if string(reply.ReturnValue) != row.value || reply.ReturnValueHow != row.how || string(stdout) != row.out || !strings.Contains(string(stderr), row.errs) {
			t.Errorf("%s: value %.200s, how %q, stdout %q, stderr %q", row.name, reply.ReturnValue, reply.ReturnValueHow, stdout, stderr)
		}
		if !reply.Verdict.Held || !reply.TreeEmpty || seen[reply.ID] {
			t.Errorf("%s: held %t, empty %t", row.name, reply.Verdict.Held, reply.TreeEmpty)
		}
		seen[reply.ID] = true
	}
	large := pythonRun("_return = len(inputs)")
	large.Program.Inputs = []byte(`"` + strings.Repeat("y", 3<<20) + `"`) // more than a pipe holds
	if reply := run(t, s, InterpreterWarm, large); string(reply.ReturnValue) != fmt.Sprint(3<<20) {
		t.Errorf("large inputs: %.100s, %s", reply.ReturnValue, reply.Outcome)
	}
}

// TestWarmLimits are in force from the hand-over: what was used before counts for nothing.
func TestWarmLimits(t *testing.T) {
	s := start(t, warmConfig(t, Prewarm{Size: 1}))
	r := pythonRun("import time\ntime.sleep(60)")
	r.Limits.TimeoutSeconds = 0.5
	reply := run(t, s, InterpreterWarm, r)
	mustBe(t, reply, OutcomeTimeout)
	if reply.DurationSeconds < 0.4 || !reply.TreeEmpty {
		t.Errorf("ended after %g s, empty %t", reply.DurationSeconds, reply.TreeEmpty)
	}
	// An hour of waiting would be as good: the clock of an interpreter that has waited for longer than its job's limit.
	untilFull(t, s)
	waited := time.Now()
	awaited(t, "half a second", func() bool { return time.Since(waited) > 600*time.Millisecond })
	r.Program.Code = "_return = 1"
	mustBe(t, run(t, s, InterpreterWarm, r), OutcomeOK)

	r = pythonRun("print('x' * 5000)")
	r.Limits.OutputBytes = 1000
	reply = run(t, s, InterpreterWarm, r)
	if stdout, _ := reply.Output(); len(stdout) != 1000 || !reply.Truncated.Stdout || reply.Bytes.Stdout != 5001 {
		t.Errorf("%d bytes of %d are kept", len(stdout), reply.Bytes.Stdout)
	}
	reply = run(t, s, InterpreterWarm, pythonRun("pass"))
	if reply.DurationSeconds > 5 || reply.Usage.CPUSeconds < 0 || reply.Usage.CPUSeconds > 5 {
		t.Errorf("duration %g s, processor time %g s", reply.DurationSeconds, reply.Usage.CPUSeconds)
	}
}

// TestColdInstead: what acts when a program starts, or counts from there, starts cold, and comes to the same.
func TestColdInstead(t *testing.T) {
	s := start(t, warmConfig(t, Prewarm{Size: 1}))
	box, err := s.sandboxes.create(t.Context(), Self(), rootSpec{}, "")
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*policy.Request){
		"environment":    func(r *policy.Request) { r.Program.Env = map[string]string{"A": "b"} },
		"directory":      func(r *policy.Request) { r.Program.Cwd = "/tmp" },
		"sandbox":        func(r *policy.Request) { r.Sandbox = box.id },
		"processor time": func(r *policy.Request) { r.Limits.CPUSeconds = 10 },
		"another plan":   func(r *policy.Request) { r.Limits.OpenFiles = 100 },
	} {
		if name == "processor time" && (s.host.Cgroup.Base == "" || !s.host.Cgroup.Kill) {
			continue // nobody counts it
		}
		untilFull(t, s)
		r := pythonRun("import os\n_return = [os.environ.get('A'), os.getcwd()]")
		change(&r)
		reply := run(t, s, InterpreterCold, r)
		mustBe(t, reply, OutcomeOK)
		want := `[null, "/work"]`
		switch name {
		case "environment":
			want = `["b", "/work"]`
		case "directory":
			want = `[null, "/tmp"]`
		}
		if string(reply.ReturnValue) != want {
			t.Errorf("%s: %s, want %s", name, reply.ReturnValue, want)
		}
	}
	untilFull(t, s)
	if reply := s.Exec(t.Context(), pythonRun("pass"), Options{ExplainDenials: true}); reply.Interpreter != InterpreterCold {
		t.Errorf("explained: %s", reply.Interpreter)
	}
	if reply := s.Exec(t.Context(), command("true"), Options{}); reply.Interpreter != "" {
		t.Errorf("an exec has an interpreter: %s", reply.Interpreter)
	}
}

// TestWarmForAnotherPlan: who asks for the same again gets interpreters of his own plan.
func TestWarmForAnotherPlan(t *testing.T) {
	s := start(t, warmConfig(t, Prewarm{Size: 1}))
	untilFull(t, s)
	r := pythonRun("import resource\n_return = resource.getrlimit(resource.RLIMIT_NOFILE)")
	r.Limits.OpenFiles = 100
	for range 2 {
		run(t, s, InterpreterCold, r)
	}
	awaited(t, "a second shelf", func() bool {
		s.interpreters.mu.Lock()
		defer s.interpreters.mu.Unlock()
		return len(s.interpreters.shelves) == 2
	})
	if reply := run(t, s, InterpreterWarm, r); string(reply.ReturnValue) != "[100, 100]" {
		t.Errorf("its limit is %s", reply.ReturnValue)
	}
	if reply := run(t, s, InterpreterWarm, pythonRun(r.Program.Code)); string(reply.ReturnValue) == "[100, 100]" {
		t.Error("a run that asked for nothing got the other's limit")
	}
	// Many plans don't make many shelves.
	for n := range 3 * mostShelves {
		r.Limits.OpenFiles = int64(200 + n/2)
		s.interpreters.ask(fmt.Sprint("plan", n/2), r)
	}
	s.interpreters.mu.Lock()
	defer s.interpreters.mu.Unlock()
	if n := len(s.interpreters.shelves); n != mostShelves {
		t.Errorf("%d shelves, want %d", n, mostShelves)
	}
}

// lookAround is all that a program can easily see of what was before it.
const lookAround = `
import os, sys
names = sorted(k for k in globals() if k not in ('names', 'lookAround'))
def links():
    found = {}
    for fd in os.listdir('/proc/self/fd'):
        try:
            found[fd] = os.readlink('/proc/self/fd/' + fd).split(':')[0]
        except OSError:
            pass
    return found
modules = sorted(sys.modules)
import __main__, gc, signal, threading
_return = {
    'names': names, 'main': sorted(k for k in vars(__main__)), 'argv': sys.argv, 'orig': [len(sys.orig_argv), sys.orig_argv[:6], sys.orig_argv[7:]],
    'environ': dict(os.environ), 'cwd': os.getcwd(), 'fds': links(), 'files': [os.listdir(d) for d in ('/work', '/tmp', '/dev/shm')],
    'path': sys.path, 'flags': repr(sys.flags), 'modules': modules, 'threads': threading.active_count(),
    'umask': os.umask(0o22), 'recursion': sys.getrecursionlimit(), 'gc': [gc.isenabled(), gc.get_threshold()],
    'signals': [str(signal.getsignal(n)).split(' at ')[0] for n in range(1, 32)], 'frames': sys._getframe().f_back.f_code.co_name,
    'offsets': [os.get_inheritable(5)], 'hooks': [sys.gettrace() is None, sys.getprofile() is None, sys.excepthook is sys.__excepthook__],
    'stdin': sys.stdin.read(), 'dont_write': sys.dont_write_bytecode, 'audit': len(sys.meta_path), 'limits': open('/proc/self/limits').read(),
    'procenv': sorted(open('/proc/self/environ').read().split('\0')), 'dumpable': os.access('/proc/self/mem', os.R_OK),
}
`

// TestNothingOfBefore compares what a program sees in an interpreter that waited with what it sees in one that was started for it. All that may differ
// are the modules that were to be imported, and what these import.
func TestNothingOfBefore(t *testing.T) {
	imports := []string{"decimal", "tempfile"}
	s := start(t, warmConfig(t, Prewarm{Imports: imports, Size: 1}))
	sight := func(reply Reply) map[string]any {
		t.Helper()
		mustBe(t, reply, OutcomeOK)
		var seen map[string]any
		if err := json.Unmarshal(reply.ReturnValue, &seen); err != nil {
			t.Fatal(err)
		}
		return seen
	}
	coldly := pythonRun(lookAround)
	coldly.Program.Cwd = "/tmp" // which has it start cold
	coldly.Program.Code = "import os; os.chdir('/work')\n" + lookAround
	cold := sight(run(t, s, InterpreterCold, coldly))
	coldly.Program.Code = "import os, decimal, tempfile; os.chdir('/work')\n" + lookAround
	imported := sight(run(t, s, InterpreterCold, coldly))
	warm := sight(run(t, s, InterpreterWarm, pythonRun("import os; os.chdir('/work')\n"+lookAround)))
	for what, want := range cold {
		if got := warm[what]; what != "modules" && fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s:\nwarm %v\ncold %v", what, got, want)
		}
	}
	for _, module := range warm["modules"].([]any) {
		if !slices.Contains(imported["modules"].([]any), module) {
			t.Errorf("module %v is there, and no import of %s imports it", module, imports)
		}
	}
	for _, name := range imports {
		if !slices.Contains(warm["modules"].([]any), any(name)) || slices.Contains(cold["modules"].([]any), any(name)) {
			t.Errorf("%s: imported when warm %v, and when cold %v", name, warm["modules"], cold["modules"])
		}
	}
}

// TestFreshState: what differs between two cold runs differs between two warm ones.
func TestFreshState(t *testing.T) {
	s := start(t, warmConfig(t, Prewarm{Imports: []string{"random", "tempfile", "uuid", "secrets"}, Size: 2}))
	const code = `
import os, random, secrets, tempfile, uuid
_return = {
    'hash': hash('x'), 'hashbytes': hash(b'y'), 'random': random.random(), 'bits': random.getrandbits(64), 'own': random.Random().random(),
    'temp': tempfile.mktemp(), 'uuid': str(uuid.uuid4()), 'token': secrets.token_hex(8), 'urandom': os.urandom(8).hex(), 'address': id(object()),
}
`
	coldly := pythonRun(code)
	coldly.Program.Cwd = "/tmp"
	seen := map[string]map[any]string{}
	for _, r := range []policy.Request{coldly, coldly, pythonRun(code), pythonRun(code), pythonRun(code)} {
		how := InterpreterWarm
		if r.Program.Cwd != "" {
			how = InterpreterCold
		}
		reply := run(t, s, how, r)
		mustBe(t, reply, OutcomeOK)
		var values map[string]any
		if err := json.Unmarshal(reply.ReturnValue, &values); err != nil {
			t.Fatal(err)
		}
		for name, value := range values {
			if seen[name] == nil {
				seen[name] = map[any]string{}
			}
			if before := seen[name][value]; before != "" {
				t.Errorf("%s is %v in a %s run and was in a %s run", name, value, how, before)
			}
			seen[name][value] = how
		}
	}
}

// TestSpoilt: an interpreter that isn't what it was when it came to wait gets no job, and the run starts cold.
func TestSpoilt(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, s *Service, a *waiter){
		"killed": func(t *testing.T, s *Service, a *waiter) {
			a.walk.child.Kill()
			awaited(t, "its end", func() bool { return !a.walk.child.Lives() })
		},
		"another program":      func(t *testing.T, s *Service, a *waiter) { a.exe += "1" },
		"another thread":       func(t *testing.T, s *Service, a *waiter) { a.threads++ },
		"drift of its sandbox": func(t *testing.T, s *Service, a *waiter) { a.walk.box.drift.Store(&drift{where: "sandbox"}) },
		"another confinement":  func(t *testing.T, s *Service, a *waiter) { a.walk.plan.RLimits[0].Value--; a.walk.plan.Identity.UID++ },
		"its sandbox is gone": func(t *testing.T, s *Service, a *waiter) {
			if err := a.walk.box.Close(t.Context()); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := warmConfig(t, Prewarm{Size: 1})
			c.DriftInterval = 0
			s := start(t, c)
			untilFull(t, s)
			s.interpreters.mu.Lock()
			first := s.interpreters.shelves[0].sets[0].ready[0]
			spoil(t, s, first)
			s.interpreters.mu.Unlock()
			// The filler may have noticed first; then another one waits, and that one may be had.
			reply := s.Exec(t.Context(), pythonRun("_return = 1"), Options{})
			mustBe(t, reply, OutcomeOK)
			if records := readLog(t, s.config); slices.ContainsFunc(records, func(r audit.Record) bool {
				return r.Type == audit.TypeRelease && r.Prewarm != nil && r.Prewarm.Exec == first.walk.id
			}) {
				t.Error("it got the job")
			}
			if reply := run(t, s, InterpreterWarm, pythonRun("_return = 2")); string(reply.ReturnValue) != "2" {
				t.Errorf("the next: %s", reply.ReturnValue)
			}
		})
	}
}

// TestUnfitImports: imports that leave something behind, or can't be had, keep nobody from running.
func TestUnfitImports(t *testing.T) {
	c := warmConfig(t, Prewarm{Imports: []string{"no_such_module"}, Size: 1}, Prewarm{Imports: []string{"this"}, Size: 1}) // this prints a poem
	s := start(t, c)
	want := map[string]bool{"no_such_module": false, "this": false}
	awaited(t, "both failures", func() bool {
		_, _, trouble := s.interpreters.count()
		for name := range want {
			want[name] = want[name] || trouble != nil && strings.Contains(trouble.Error(), name)
		}
		return want["no_such_module"] && want["this"]
	})
	mustBe(t, run(t, s, InterpreterCold, pythonRun("pass")), OutcomeOK)
	if status := s.Status().Interpreters; status.Waiting != 0 || status.Trouble == "" {
		t.Errorf("%+v", status)
	}
}

// TestPrewarmMemory bounds what waits.
func TestPrewarmMemory(t *testing.T) {
	c := warmConfig(t, Prewarm{Size: 8})
	c.PrewarmMemory = 8 << 20
	s := start(t, c)
	awaited(t, "the bound", func() bool {
		_, _, trouble := s.interpreters.count()
		return trouble != nil && strings.Contains(trouble.Error(), "more than the 8388608")
	})
	if waiting, bytes, _ := s.interpreters.count(); waiting == 0 || waiting == 8 || bytes > 8<<20 {
		t.Errorf("%d wait with %d bytes", waiting, bytes)
	}
}

// TestDrain: what was started under a policy that isn't in force any more is ended, and others take its place.
func TestDrain(t *testing.T) {
	s := start(t, warmConfig(t, Prewarm{Size: 1}))
	untilFull(t, s)
	s.interpreters.mu.Lock()
	old := s.interpreters.shelves[0].sets[0].ready[0]
	s.interpreters.mu.Unlock()
	s.reloaded(s.engine.Status())
	awaited(t, "its end", func() bool { return !old.walk.child.Lives() })
	reply := run(t, s, InterpreterWarm, pythonRun("_return = 1"))
	mustBe(t, reply, OutcomeOK)
	awaited(t, "the records of its start and its end", func() bool {
		var ended, started bool
		for _, r := range readLog(t, s.config) {
			if r.Type == audit.TypeRelease && r.Prewarm.Exec == old.walk.id {
				t.Error("the old one got the job")
			}
			if r.Type == audit.TypePrewarm && r.Exec == old.walk.id {
				ended = ended || strings.Contains(r.Message, "policy was reloaded")
				started = started || r.Verdict != nil && r.Verdict.Held && r.PlanDigest != ""
			}
		}
		return ended && started
	})
}

// TestHandOverIsRecorded: a job is handed over by a release of its own, which names the interpreter and has a verdict that was read for it.
func TestHandOverIsRecorded(t *testing.T) {
	s := start(t, warmConfig(t, Prewarm{Imports: []string{"json"}, Size: 1}))
	reply := run(t, s, InterpreterWarm, pythonRun("_return = 1"))
	records := readLog(t, s.config)
	at := slices.IndexFunc(records, func(r audit.Record) bool { return r.Type == audit.TypeRelease && r.Exec == reply.ID })
	if at < 0 {
		t.Fatal("no release")
	}
	release := records[at]
	if release.Prewarm == nil || !slices.Equal(release.Prewarm.Imports, []string{"json"}) || release.Verdict == nil || !release.Verdict.Held || release.Decision == nil || !release.Decision.Allow {
		t.Fatalf("release %+v", release)
	}
	before := slices.IndexFunc(records[:at], func(r audit.Record) bool { return r.Type == audit.TypePrewarm && r.Exec == release.Prewarm.Exec })
	if before < 0 || records[before].PlanDigest != release.PlanDigest || records[before].Verdict.Digest == release.Verdict.Digest {
		t.Errorf("started ahead by %+v", records[max(before, 0)])
	}
	if records[before].Request.Code == nil || records[before].Request.Code.Digest == release.Request.Code.Digest {
		t.Error("it was started for the job's code")
	}
}

// TestWarmTogether: callers at once, while the policy is reloaded and everything is looked at.
func TestWarmTogether(t *testing.T) {
	c := warmConfig(t, Prewarm{Size: 3}, Prewarm{Imports: []string{"json"}, Size: 1})
	c.DriftInterval = 10 * time.Millisecond
	s := start(t, c)
	untilFull(t, s)
	done := make(chan Reply)
	const callers, each = 4, 6
	for range callers {
		go func() {
			for range each {
				done <- s.Exec(t.Context(), pythonRun("import json\n_return = inputs['n']"), Options{})
			}
		}()
	}
	for n := range callers * each {
		reply := <-done
		mustBe(t, reply, OutcomeOK)
		if string(reply.ReturnValue) != "3" {
			t.Errorf("%s run: %s", reply.Interpreter, reply.ReturnValue)
		}
		if n == callers*each/2 {
			s.reloaded(s.engine.Status())
		}
	}
}

func TestParsePrewarm(t *testing.T) {
	for text, want := range map[string]Prewarm{
		"json,pandas:2": {Imports: []string{"json", "pandas"}, Size: 2}, ":1": {Size: 1}, "xml.etree:64": {Imports: []string{"xml.etree"}, Size: 64},
	} {
		if got, err := ParsePrewarm(text); err != nil || got.String() != want.String() || !slices.Equal(got.Imports, want.Imports) {
			t.Errorf("%s = %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "json", "json:", "json:0", "json:-1", "json:65", "json:02", "json: 2", "json,:1", ",:1", "a b:1", "a\n:1", "'):1", "json,json:1", "é:1", ".a:1", "a.:1", "1a:1", "json:1:2"} {
		if got, err := ParsePrewarm(text); err == nil {
			t.Errorf("%q is taken as %v", text, got)
		}
	}
	c := testConfig(t)
	c.Prewarm = []Prewarm{{Imports: []string{"a", "b"}, Size: 1}, {Imports: []string{"b", "a"}, Size: 2}}
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "Prewarm") {
		t.Errorf("the same modules twice: %v", err)
	}
}
