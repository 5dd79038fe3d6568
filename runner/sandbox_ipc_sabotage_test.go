//go:build sabotage

package runner

import (
	"strings"
	"testing"
)

// TestSystemVStaysWithoutTheWipe: a worker that leaves the wipe out is what TestSandboxWipesSystemV would notice.
func TestSystemVStaysWithoutTheWipe(t *testing.T) {
	t.Setenv(sabotageVariable, "wipe")
	s := startSandbox(t, testConfig(t))
	run(t, s, testInvocation(makeSysv), IO{})
	if got := strings.TrimSpace(string(run(t, s, testInvocation(countSysv), IO{}).Stdout.Data)); got != "3" {
		t.Errorf("%s are left, want 3", got)
	}
}
