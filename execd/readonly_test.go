package execd

import (
	"testing"

	"github.com/sandboxd/sandboxd/test/kerneltest"
)

// TestReadOnlyCommand writes nowhere but to devices, where others of its sandbox write.
func TestReadOnlyCommand(t *testing.T) {
	kerneltest.Require(t, kerneltest.Landlock(1))
	s := start(t, testConfig(t))
	box := keep(t, s)
	mustBe(t, s.Exec(t.Context(), inBox(box, "echo kept >/work/file && echo >/tmp/file", false), Options{}), OutcomeOK)
	r := inBox(box, "cat /work/file && echo >/dev/null && ! echo >/work/file && ! echo >/tmp/new && ! rm /tmp/file && ! mkdir /work/d", false)
	r.Command.ReadOnly = true
	reply := s.Exec(t.Context(), r, Options{})
	if stdout, stderr := reply.Output(); reply.Outcome != OutcomeOK || string(stdout) != "kept\n" {
		t.Errorf("%s: %q %s", reply.Outcome, stdout, stderr)
	}
}
