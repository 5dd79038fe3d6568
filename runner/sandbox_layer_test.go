package runner

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/test/kerneltest"
)

// layered is a sandbox whose /work is a layer over another's, with the plan of a request.
func layered(t testing.TB, below *Sandbox) (*Sandbox, enforcer.Plan) {
	t.Helper()
	config := testConfig(t)
	lower, err := below.WorkMount()
	if err != nil {
		t.Fatal(err)
	}
	defer lower.Close()
	config.Lower = lower
	config.Plan, err = enforcer.BuildSandbox(config.Host, enforcer.SandboxSpec{
		TmpBytes: 1 << 20, WorkBytes: 1 << 20, Hostname: "layer", Layered: true,
		Worker: enforcer.Identity{UID: 250002, GID: 250002}, Child: below.Plan().Child,
	})
	if err != nil {
		t.Fatal(err)
	}
	if config.Host.Cgroup.Base != "" {
		if config.Cgroup, err = config.Host.Cgroup.Make(fmt.Sprintf("layer-%d-%d", os.Getpid(), groupNumber.Add(1)), config.Plan.Worker.UID); err != nil {
			t.Fatal(err)
		}
	}
	s := startSandbox(t, config)
	decision := policy.Decision{Allow: true, Accept: []string{"cgroup.pids"}}
	decision.Effective.SecurityContext = policy.SecurityContext{}.Defaulted()
	decision.Effective.Limits = policy.Limits{}.Defaulted()
	plan, err := enforcer.Build(decision, config.Host, s.Plan(), enforcer.Profiles{})
	if err != nil {
		t.Fatal(err)
	}
	return s, plan
}

// spoken is what a shell line says on both streams.
func spoken(t testing.TB, s *Sandbox, plan enforcer.Plan, line string) string {
	t.Helper()
	c, err := s.Prepare(context.Background(), plan, testInvocation(line), IO{OutputBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Release(); err != nil {
		t.Fatal(err)
	}
	if err := c.Started(context.Background()); err != nil {
		t.Error(err)
	}
	exit := c.Wait(context.Background())
	return string(exit.Stdout.Data) + string(exit.Stderr.Data)
}

// A layer shows what lies below as it is, takes what is written and no more than its size, and nothing of that comes below.
func TestLayer(t *testing.T) {
	kerneltest.Require(t, kerneltest.Root)
	below, _, plan := realSandbox(t, 1)
	if got := spoken(t, below, plan, "mkdir d; echo old >d/a; echo gone >b; ln -s d/a link; echo link >c; stat -c %u:%a ."); got != "250001:1777\n" {
		t.Fatalf("%q", got)
	}
	above, plan2 := layered(t, below)
	if verdict := above.Verdict(); !verdict.Held() {
		t.Errorf("%+v", verdict.Failed())
	}
	got := spoken(t, above, plan2, "cat d/a link b; stat -c %u:%a .; echo new >d/a; echo more >>c; rm b; mkdir e; mv d f 2>&1; cat d/a f/a 2>/dev/null; ls | tr '\\n' ' '; id -u")
	if want := "old\nold\ngone\n250001:1777\n"; !strings.HasPrefix(got, want) || !strings.Contains(got, "new\n") || strings.Contains(got, "b ") || !strings.HasSuffix(got, "250001\n") {
		t.Errorf("%q", got)
	}
	if got := spoken(t, below, plan, "ls | tr '\\n' ' '; cat d/a b c"); got != "b c d link old\ngone\nlink\n" {
		t.Errorf("below: %q", got)
	}
	if got := spoken(t, above, plan2, "head -c 3000000 /dev/zero >big; stat -c %s big"); !strings.Contains(got, "No space left") {
		t.Errorf("%q", got)
	}
	other, plan3 := layered(t, below)
	if got := spoken(t, other, plan3, "cat d/a; ls; df -k . | tail -1; touch /sys/x; ls /sys"); !strings.HasPrefix(got, "old\nb\nc\nd\nlink\n") || strings.Contains(got, "big") {
		t.Errorf("another: %q", got)
	}
	if _, err := other.WorkMount(); err == nil {
		t.Error("a layer over a layer")
	}
}
