package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/test/kerneltest"
)

const unitFile = "../../deploy/systemd/sandboxd.service"

// settings are the lines of a unit file, by key; a key may be there more than once.
func settings(t *testing.T, path string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if key, value, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
			found[key] = append(found[key], value)
		}
	}
	return found
}

// filtering are the settings by which systemd.exec(5) gives a service a seccomp filter, or may in some version.
var filtering = []string{
	"SystemCallFilter", "SystemCallArchitectures", "SystemCallLog", "RestrictNamespaces", "RestrictAddressFamilies", "RestrictRealtime", "RestrictSUIDSGID",
	"MemoryDenyWriteExecute", "LockPersonality", "PrivateDevices", "ProtectClock", "ProtectHostname", "ProtectKernelLogs", "ProtectKernelModules",
	"ProtectKernelTunables", "DynamicUser",
}

func TestUnitHasNoFilterOfItsOwn(t *testing.T) {
	unit := settings(t, unitFile)
	for _, key := range filtering {
		if unit[key] != nil {
			t.Errorf("%s: a filter that children inherit", key)
		}
	}
	// And with one, nothing runs.
	kerneltest.Require(t, kerneltest.Root)
	if status, out, err := run(t, bounding(t, unit), underFilter+"=1"); err == nil || status != 125 || !strings.Contains(out, "mismatch") {
		t.Errorf("with a filter from outside: %v, %s", err, out)
	}
}

func TestUnitIsUnderstood(t *testing.T) {
	kerneltest.Require(t, kerneltest.Root)
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze: not installed")
	}
	// The programs lie elsewhere here, and older versions lack a key; nothing else may be said of it.
	out, _ := exec.Command(analyze, "verify", unitFile).CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "DelegateSubgroup") || strings.Contains(line, "is not executable") {
			continue
		}
		t.Errorf("systemd-analyze verify: %s", line)
	}
}

// TestUnitGivesWhatIsNeeded: under the unit's bounding set everything holds; without any one of it something fails, so that none is there for nothing.
func TestUnitGivesWhatIsNeeded(t *testing.T) {
	kerneltest.Require(t, kerneltest.Root)
	set := bounding(t, settings(t, unitFile))
	if code, out, err := run(t, set); err != nil || code != 0 || !strings.Contains(out, "held: tier full") {
		t.Errorf("under the unit's capabilities: status %d, %v\n%s", code, err, out)
	}
	for i, left := range set {
		if code, out, err := run(t, slices.Delete(slices.Clone(set), i, i+1)); err == nil && code == 0 {
			t.Errorf("without %s: it runs all the same\n%s", left, out)
		}
	}
}

// bounding are the unit's capabilities as setpriv spells them.
func bounding(t *testing.T, unit map[string][]string) []string {
	t.Helper()
	var names []string
	for _, line := range unit["CapabilityBoundingSet"] {
		for name := range strings.FieldsSeq(line) {
			bare, ok := strings.CutPrefix(name, "CAP_")
			if !ok {
				t.Fatalf("CapabilityBoundingSet: %q", name)
			}
			names = append(names, strings.ToLower(bare))
		}
	}
	if len(names) == 0 {
		t.Fatal("the unit bounds no capabilities")
	}
	return names
}

// run has one command run by a sandboxd with these capabilities and no_new_privs, as the unit starts it, by way of this test program.
func run(t *testing.T, capabilities []string, env ...string) (status int, output string, err error) {
	t.Helper()
	set := "-all,+" + strings.Join(capabilities, ",+")
	command := exec.CommandContext(t.Context(), "setpriv", "--no-new-privs", "--bounding-set="+set, "--inh-caps=-all",
		"/proc/self/fd/3", filepath.Join(binaries(t), "sandboxd"), "exec", "--state", t.TempDir(), "--stdin", "none", "--explain", "--", "true")
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	command.ExtraFiles = []*os.File{self}
	command.Env = append(append(os.Environ(), asService+"=1"), env...)
	out, err := command.CombinedOutput()
	if command.ProcessState != nil {
		status = command.ProcessState.ExitCode()
	}
	return status, string(out), err
}
