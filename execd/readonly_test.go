package execd

import (
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/test/kerneltest"
)

// TestReadOnlyCommand writes nowhere but to devices, and changes no file in another way, where others of its sandbox do.
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
	change := inBox(box, "stat -c '%a %Y' /work/file; chmod 600 /work/file; touch -d 2001-01-01 /work/file; chown $(id -u) /work/file; stat -c '%a %Y' /work/file", false)
	for _, readOnly := range []bool{true, false} {
		change.Command.ReadOnly = readOnly
		stdout, stderr := s.Exec(t.Context(), change, Options{}).Output()
		lines := strings.Split(strings.TrimSpace(string(stdout)), "\n")
		if len(lines) != 2 || (lines[0] == lines[1]) != readOnly || strings.Count(string(stderr), "Read-only file system") != map[bool]int{true: 2}[readOnly] {
			t.Errorf("read-only %t: %q %s", readOnly, stdout, stderr)
		}
	}
}
