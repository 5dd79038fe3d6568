package deploy

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/execd"
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

// worstExposure is what systemd-analyze gives the unit, in tenths. What is left has its reason in the unit; settings that lower it belong there.
const worstExposure = 71

func TestUnitExposureGetsNoWorse(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze: not installed")
	}
	threshold := strconv.Itoa(worstExposure)
	if out, err := exec.Command(analyze, "security", "--offline=true", "--threshold="+threshold, unitFile).CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		t.Errorf("worse than %s tenths: %v: %s", threshold, err, lines[len(lines)-1])
	}
	// The unit's own text has the number, for who reads it.
	text, err := os.ReadFile(unitFile)
	if err != nil {
		t.Fatal(err)
	}
	if said := fmt.Sprintf("says %d.%d (", worstExposure/10, worstExposure%10); !strings.Contains(string(text), said) {
		t.Errorf("the unit doesn't say %q", said)
	}
}

// TestUnitsPlaceIsEnough: with the file system as the unit has it, everything holds; without the file of claims among what may be written, it doesn't start.
func TestUnitsPlaceIsEnough(t *testing.T) {
	kerneltest.Require(t, kerneltest.Root)
	unit := settings(t, unitFile)
	if got := strings.Join(unit["ReadWritePaths"], " "); got != execd.DefaultConfig("/").ClaimFile {
		t.Errorf("ReadWritePaths=%s, and claims are in %s", got, execd.DefaultConfig("/").ClaimFile)
	}
	for _, key := range []string{"ProtectSystem=strict", "ProtectHome=yes", "ProtectProc=invisible", "PrivateMounts=yes"} {
		name, value, _ := strings.Cut(key, "=")
		if !slices.Equal(unit[name], []string{value}) {
			t.Errorf("%s=%v: this test makes a place with %s", name, unit[name], key)
		}
	}
	state := t.TempDir()
	claims := filepath.Join(t.TempDir(), "ids")
	if err := os.WriteFile(claims, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	set := bounding(t, unit)
	serve := []string{"serve", "--state", state, "--claim-file", claims, "--first-uid", "640000", "--uids", "32", "--pool", "1", "--socket", filepath.Join(state, "s", "sock")}
	status, out, err := runUntilReady(t, set, serve, filepath.Join(state, "s", "sock"), inPlace+"="+state+":"+claims)
	if err != nil || status != 0 || !strings.Contains(out, "held: tier full") {
		t.Errorf("in the unit's place: status %d, %v\n%s", status, err, out)
	}
	if status, out, err := runUntilReady(t, set, serve, filepath.Join(state, "s", "sock"), inPlace+"="+state); err == nil || !strings.Contains(out, "id claims") {
		t.Errorf("without the file of claims: status %d, %v\n%s", status, err, out)
	}
}

// runUntilReady has a daemon run as the unit starts it, and one command by it once it is ready; then it is stopped.
func runUntilReady(t *testing.T, capabilities, args []string, socket string, env ...string) (status int, output string, err error) {
	t.Helper()
	sandboxd := filepath.Join(binaries(t), "sandboxd")
	set := "-all,+" + strings.Join(capabilities, ",+")
	daemon := exec.CommandContext(t.Context(), "/proc/self/fd/3", append([]string{"/usr/bin/setpriv", "--no-new-privs", "--bounding-set=" + set, "--inh-caps=-all", sandboxd}, args...)...)
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	daemon.ExtraFiles = []*os.File{self}
	daemon.Env = append(append(os.Environ(), asService+"=1"), env...)
	var log bytes.Buffer
	daemon.Stdout, daemon.Stderr = &log, &log
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- daemon.Wait() }()
	for deadline := time.Now().Add(20 * time.Second); exec.Command(sandboxd, "healthz", "--ready", "--socket", socket).Run() != nil; {
		select {
		case err := <-ended:
			return daemon.ProcessState.ExitCode(), log.String(), errors.Join(errors.New("it ended"), err)
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			_ = daemon.Process.Kill()
			<-ended
			return -1, log.String(), errors.New("it isn't ready")
		}
	}
	command := exec.Command(sandboxd, "exec", "--socket", socket, "--stdin", "none", "--explain", "--", "true")
	out, err := command.CombinedOutput()
	if err := daemon.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if ending := <-ended; ending != nil {
		t.Errorf("SIGTERM: %v\n%s", ending, log.String())
	}
	return command.ProcessState.ExitCode(), string(out), err
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
