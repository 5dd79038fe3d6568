package execd

import (
	"context"
	"slices"
	"testing"

	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/runner/python"
)

// The driver is compiled once, by a run of the daemon's own that is on record as any other. Runs do the same before and after, and with what another Python
// has compiled.
func TestCompiledDriver(t *testing.T) {
	c := testConfig(t)
	c.CompileDriver = true
	s := start(t, c)
	if s.driver.made.Load() != nil {
		t.Error("compiled, though nobody asked")
	}
	// The bootstrap leaves what it has read: it begins with the magic number, or is the text alone.
	r := pythonRun("import __main__\nfrom importlib.util import MAGIC_NUMBER\n_return = [inputs['n'], __main__.text[:4] == MAGIC_NUMBER]")
	r.Caller = policy.Caller{UID: 4242, GID: 4242, PID: 1, Via: "socket"}
	runs := func(want string) {
		t.Helper()
		reply := s.Exec(t.Context(), r, Options{})
		if mustBe(t, reply, OutcomeOK); string(reply.ReturnValue) != want {
			t.Errorf("got %s, want %s", reply.ReturnValue, want)
		}
	}
	runs("[3, false]")
	awaited(t, "the compiled driver", func() bool { return s.driver.made.Load() != nil })
	runs("[3, true]")
	runs("[3, true]")
	own := slices.DeleteFunc(recordsOf(t, s, audit.TypeRelease), func(r auditRecord) bool { return r.Caller.UID == 4242 })
	if len(own) != 1 || *own[0].Caller != Self() {
		t.Errorf("%d releases that nobody asked for: %+v", len(own), own)
	}
	foreign, err := python.ReadCompiled([]byte(`"00000d0a00"`))
	if err != nil {
		t.Fatal(err)
	}
	s.driver.made.Store(&foreign)
	runs("[3, false]")
}

// Where it can't be compiled, there is an error and nothing is kept.
func TestDriverNotCompiled(t *testing.T) {
	s := start(t, testConfig(t))
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if made, err := s.compileDriver(over); err == nil || !made.None() {
		t.Errorf("made %v, %v", made, err)
	}
}
