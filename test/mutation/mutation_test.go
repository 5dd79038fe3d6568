// Package mutation holds the list of mutations that must be noticed: a build with one of the child's steps left out never runs the target and
// says which control doesn't hold.
//
// Its binaries are built with the tag sabotage, which adds one thing: the worker leaves out the step that SANDBOXD_SABOTAGE names. What the daemon itself must
// not leave out has a list too (daemon_test.go): each is a change of one place of its source, and the test of another package that fails for it.
package mutation

import (
	"bytes"
	"encoding/json/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/policy/engine"
	"github.com/sandboxd/sandboxd/rego"
	"github.com/sandboxd/sandboxd/runner"
)

// protocol has the steps that confine nothing: without them there is no exec at all, which may be told as infra.
var protocol = []string{"born", "ready", "execve"}

// reply is what of the reply this test looks at.
type reply struct {
	Outcome string `json:"outcome"`
	Stdout  string `json:"stdout"`
	Message string `json:"message"`
	Verdict struct {
		Rows []policy.Row `json:"rows"`
	} `json:"verdict"`
}

func TestEveryStepIsMissed(t *testing.T) {
	dir := t.TempDir()
	build(t, dir)
	if got := execute(t, dir, ""); got.Outcome != "ok" || got.Stdout != "ran\n" {
		t.Fatalf("without sabotage: %+v, want outcome ok and the target's output", got)
	}
	names := stepNames(t)
	if len(names) < 30 {
		t.Fatalf("%d steps; a table this short confines nothing: %v", len(names), names)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			got := execute(t, dir, name)
			if got.Outcome != "mismatch" && !(slices.Contains(protocol, name) && got.Outcome == "infra") {
				t.Errorf("outcome %q, want mismatch: %+v", got.Outcome, got)
			}
			if got.Stdout != "" && name != "gate" {
				t.Errorf("the target ran: stdout %q", got.Stdout)
			}
			if got.Outcome == "mismatch" && len(got.Verdict.Rows) == 0 {
				t.Errorf("mismatch without a row that says which control")
			}
		})
	}
}

// build makes both binaries with the tag.
func build(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{"sandboxd", "sandboxd-runner"} {
		cmd := exec.Command("go", "build", "-tags", "sabotage", "-o", filepath.Join(dir, name), "../../cmd/"+name)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go build %s: %v\n%s", name, err, out)
		}
	}
}

// execute runs one command with the step left out.
func execute(t *testing.T, dir, step string) reply {
	t.Helper()
	cmd := exec.Command(filepath.Join(dir, "sandboxd"), "exec", "--json", "--audit", filepath.Join(dir, "audit"), "--", "sh", "-c", "echo ran")
	cmd.Env = append(os.Environ(), "SANDBOXD_SABOTAGE="+step)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run() // the exit code is the reply's; the reply says it better
	var got reply
	if err := json.Unmarshal(stdout.Bytes(), &got); err != nil {
		t.Fatalf("reply %q (stderr %q): %v", stdout.String(), strings.TrimSpace(stderr.String()), err)
	}
	return got
}

// stepNames are the steps of the table that this host makes for the default decision.
func stepNames(t *testing.T) []string {
	t.Helper()
	host, err := enforcer.ProbeHost(enforcer.HostConfig{})
	if err != nil {
		t.Fatal(err)
	}
	judge, err := engine.Open(t.Context(), engine.Options{FS: rego.Bundle})
	if err != nil {
		t.Fatal(err)
	}
	defer judge.Close()
	request, _, err := policy.ParseExec([]byte(`{"command":{"argv":["sh"]}}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Caller = policy.Caller{UID: os.Geteuid(), GID: os.Getegid(), PID: os.Getpid(), Via: "cli"}
	decision := judge.Decide(t.Context(), request)
	worker, child := enforcer.Identity{UID: 200000, GID: 200000}, enforcer.Identity{UID: 200001, GID: 200001}
	if os.Geteuid() != 0 {
		worker = enforcer.Identity{UID: 1000, GID: 1000}
		child = worker
	}
	box, err := enforcer.BuildSandbox(host, enforcer.SandboxSpec{Worker: worker, Child: child, TmpBytes: 1 << 20, WorkBytes: 1 << 20, Hostname: "sandbox"})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := enforcer.Build(decision, host, box, enforcer.Profiles{})
	if err != nil {
		t.Fatal(err)
	}
	steps, err := runner.Steps(plan, enforcer.Invocation{Argv: []string{"sh"}, Cwd: "/work"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	return runner.Names(steps)
}
