package execd

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/execd/spool"
	"github.com/sandboxd/sandboxd/policy"
)

// had is what a service has of the machine.
type had struct{ descriptors, processes, groups, files, goroutines, sandboxes int }

func (s *Service) has(t *testing.T) (h had) {
	t.Helper()
	descriptors, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	h.descriptors, h.processes, h.goroutines, h.sandboxes = len(descriptors), descendants(os.Getpid()), runtime.NumGoroutine(), len(s.sandboxes.alive(nil))
	if base := s.host.Cgroup.Base; base != "" {
		h.groups = entries(filepath.Join(base, s.host.Cgroup.Daemon), fs.DirEntry.IsDir)
	}
	// The log's own files grow in number with what is recorded.
	h.files = entries(s.config.StateDir, func(fs.DirEntry) bool { return true }) - entries(s.config.auditDir(), func(fs.DirEntry) bool { return true })
	return h
}

// descendants counts them, whoever of them is whose child.
func descendants(pid int) (count int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is good
	for _, list := range lists {
		text, _ := os.ReadFile(list) // a thread that has ended has none
		for _, word := range strings.Fields(string(text)) {
			var child int
			if _, err := fmt.Sscan(word, &child); err == nil {
				count += 1 + descendants(child)
			}
		}
	}
	return count
}

// entries counts what lies below a directory.
func entries(dir string, is func(fs.DirEntry) bool) (count int) {
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && is(entry) {
			count++
		}
		return nil // what goes away meanwhile isn't there
	})
	return count
}

// within says that nothing but a few descriptors, which are opened as they are counted, is more than it was.
func (h had) within(before had) bool {
	return h.descriptors <= before.descriptors+4 && h.processes <= before.processes && h.groups <= before.groups && h.files <= before.files &&
		h.goroutines <= before.goroutines+4 && h.sandboxes <= before.sandboxes
}

// TestRunsLeaveNothing: after warm and cold runs, with each kind of end, no process, descriptor, file, group, goroutine or sandbox is left.
// SANDBOXD_RUNS says how many; five hundred unless it does.
func TestRunsLeaveNothing(t *testing.T) {
	runs := 500
	if text := os.Getenv("SANDBOXD_RUNS"); text != "" {
		if _, err := fmt.Sscan(text, &runs); err != nil || runs < 10 {
			t.Fatalf("SANDBOXD_RUNS=%s: want a number of at least 10", text)
		}
	}
	const waiting = 4
	s := start(t, warmConfig(t, Prewarm{Imports: []string{"json"}, Size: waiting}))
	atRest := func() had {
		untilFull(t, s)
		awaited(t, "closed sandboxes", func() bool { return len(s.sandboxes.alive(nil)) <= waiting })
		return s.has(t)
	}
	for range 8 { // what is made once and kept
		mustBe(t, s.Exec(t.Context(), pythonRun("pass"), Options{}), OutcomeOK)
		mustBe(t, s.Exec(t.Context(), coldRun("pass"), Options{}), OutcomeOK)
	}
	before := atRest()
	count := map[string]int{}
	for n := range runs {
		if n%8 == 0 {
			untilFull(t, s) // three of five are to be warm
		}
		program := pythonRun
		if n%5 > 2 {
			program = coldRun
		}
		kind := leavings[n%len(leavings)]
		reply := s.Exec(t.Context(), program(kind.code), Options{LongValue: true})
		if reply.Outcome != kind.want || !reply.TreeEmpty || (kind.want == OutcomeOK && reply.Value() == nil && string(reply.ReturnValue) != "3") {
			t.Fatalf("run %d: %q: %s (%s), value %.100s, tree empty %t", n, kind.code, reply.Outcome, reply.Message, reply.ReturnValue, reply.TreeEmpty)
		}
		reply.Close()
		count[reply.Interpreter]++
	}
	if count[InterpreterWarm] < runs/3 || count[InterpreterCold] < runs/3 {
		t.Errorf("%v: want a third of each at least", count)
	}
	var after had
	awaited(t, "what they had", func() bool { after = atRest(); return after.within(before) })
	t.Logf("%v; before %+v, after %+v", count, before, after)
	if s.spool.Held() != 0 {
		t.Errorf("%d bytes of values are kept", s.spool.Held())
	}
}

// leavings are programs, and how they end.
var leavings = []struct {
	code string
	want Outcome
}{
	{"_return = inputs['n']", OutcomeOK},
	{"_return = inputs['n']\nimport subprocess\nsubprocess.Popen(['sleep', '600'], start_new_session=True)", OutcomeOK},
	{"_return = inputs['n']\nopen('/work/a', 'w').write('x')\nopen('/tmp/b', 'w').write('x')", OutcomeOK},
	{"1/0", OutcomeError},
	{"import os\nos.kill(os.getpid(), 9)", OutcomeSignaled},
	{fmt.Sprintf("_return = 'x' * %d", 2*spool.InMemory), OutcomeOK},
	{"import os\nfor _ in range(5):\n    if os.fork() == 0:\n        os.setsid()\n        __import__('time').sleep(600)\n_return = inputs['n']", OutcomeOK},
}

// coldRun is one that no interpreter is kept for.
func coldRun(code string) policy.Request {
	r := pythonRun(code)
	r.Program.Env = map[string]string{"COLD": "1"}
	return r
}
