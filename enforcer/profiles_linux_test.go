package enforcer

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/policy"
	"golang.org/x/sys/unix"
)

const allowProfile = `{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["keyctl"],"action":"SCMP_ACT_ERRNO","errnoRet":1}]}`

func localhost(name string) policy.Decision {
	decision := fixedDecision()
	decision.Effective.SecurityContext.SeccompProfile = &policy.SeccompProfile{Type: policy.SeccompLocalhost, LocalhostProfile: &name}
	return decision
}

func TestLocalhostProfile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("audit.json", allowProfile)
	plan, err := Build(localhost("audit.json"), fixedHost(), fixedSandbox(), Profiles{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if plan.Seccomp.Profile != "Localhost/audit.json" || len(plan.Seccomp.Program) == 0 || len(plan.Seccomp.Probes) == 0 {
		t.Errorf("%s with %d instructions and %d probes", plan.Seccomp.Profile, len(plan.Seccomp.Program), len(plan.Seccomp.Probes))
	}
	// An edit counts at once: what is cached is known by the content.
	write("audit.json", strings.Replace(allowProfile, "keyctl", "mkdir", 1))
	edited, err := Build(localhost("audit.json"), fixedHost(), fixedSandbox(), Profiles{Dir: dir})
	if err != nil || edited.Digest() == plan.Digest() {
		t.Errorf("an edited profile gives the old plan (%v)", err)
	}
	// A rule for newer kernels is held against this one, not refused for want of it.
	write("newer.json", strings.Replace(allowProfile, `"names"`, `"includes":{"minKernel":"4.8"},"names"`, 1))
	if _, err := Build(localhost("newer.json"), fixedHost(), fixedSandbox(), Profiles{Dir: dir}); err != nil {
		t.Errorf("a profile with minKernel: %v", err)
	}
}

func TestLocalhostProfileStaysInItsDirectory(t *testing.T) {
	outside := t.TempDir()
	dir := filepath.Join(outside, "profiles")
	for _, err := range []error{
		os.MkdirAll(filepath.Join(dir, "sub"), 0o700),
		os.WriteFile(filepath.Join(outside, "secret.json"), []byte(allowProfile), 0o600),
		os.WriteFile(filepath.Join(dir, "sub", "fine.json"), []byte(allowProfile), 0o600),
		os.WriteFile(filepath.Join(dir, "broken.json"), []byte("{"), 0o600),
		os.WriteFile(filepath.Join(dir, "empty.json"), nil, 0o600),
		os.WriteFile(filepath.Join(dir, "large.json"), make([]byte, maxProfile+1), 0o600),
		os.Symlink("../secret.json", filepath.Join(dir, "link.json")),
		os.Symlink("sub/fine.json", filepath.Join(dir, "inside.json")),
		os.Symlink("..", filepath.Join(dir, "up")),
		unix.Mkfifo(filepath.Join(dir, "fifo.json"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Build(localhost("sub/fine.json"), fixedHost(), fixedSandbox(), Profiles{Dir: dir}); err != nil {
		t.Errorf("a profile in a folder of the directory: %v", err)
	}
	for _, name := range []string{
		"../secret.json", "link.json", "inside.json", "up/secret.json", "sub/../../secret.json", filepath.Join(outside, "secret.json"), "/proc/self/root/etc/passwd",
		"fifo.json", "sub", ".", "", "missing.json", "broken.json", "empty.json", "large.json", "sub/fine.json\x00",
	} {
		_, err := Build(localhost(name), fixedHost(), fixedSandbox(), Profiles{Dir: dir})
		var refused *RefusedError
		if !errors.As(err, &refused) || !strings.HasPrefix(refused.Field, "securityContext.seccompProfile") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestUnconfined(t *testing.T) {
	decision := fixedDecision()
	decision.Effective.SecurityContext.SeccompProfile = &policy.SeccompProfile{Type: policy.SeccompUnconfined}
	plan := mustBuild(t, decision, fixedHost(), fixedSandbox())
	if len(plan.Seccomp.Program) != 0 || plan.Readback || plan.Seccomp.Profile != policy.SeccompUnconfined {
		t.Errorf("%+v", plan.Seccomp)
	}
	// Then no filter must be there either.
	h := heldAs(t, fixedHost(), fixedSandbox())
	h.plan.Seccomp, h.plan.Readback = plan.Seccomp, false
	if v := Check(h.plan, h.expect, h.gate); v.Held() {
		t.Error("a filter that isn't planned holds")
	}
	h.gate.Threads[0].Seccomp, h.gate.Threads[0].SeccompFilters = 0, 0
	if v := Check(h.plan, h.expect, h.gate); !v.Held() {
		t.Error(failed(v))
	}
}
