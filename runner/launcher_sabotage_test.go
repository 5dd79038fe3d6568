//go:build sabotage

package runner

import (
	"context"
	"errors"
	"os"
	"testing"
)

// TestLauncherEveryStepIsMissed leaves out one step of the launcher at a time: no sandbox comes of it.
//
// Not in the list are what there is nothing to do for in a test (closing descriptors that
// leaked), the sandbox's null device in place of the host's, which is the same device, and the dumpable attribute: a program that its user can't
// read never is, so that the step is a second wall.
func TestLauncherEveryStepIsMissed(t *testing.T) {
	t.Setenv(sabotageVariable, "")
	startSandbox(t, testConfig(t))
	steps := []string{"cgroup", "network", "hostname", "root", "probe", "identity", "execute", "signals", "plan",
		"identity.bounding", "identity.capabilities", "identity.ambient", "identity.no_new_privs"}
	if os.Geteuid() == 0 {
		steps = append(steps, "identity.ids")
	}
	for _, name := range steps {
		t.Setenv(sabotageVariable, "launcher."+name)
		s, err := Start(context.Background(), testConfig(t))
		if err == nil {
			closeSandbox(t, s)
			t.Errorf("without %s there is a sandbox", name)
			continue
		}
		var mismatch *MismatchError
		if errors.As(err, &mismatch) {
			for _, row := range mismatch.Verdict.Failed() {
				t.Logf("without %s: %s is %s", name, row.Control, row.Got)
			}
			continue
		}
		t.Logf("without %s: %v", name, err)
	}
}
