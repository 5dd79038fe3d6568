package enforcer

import (
	"errors"
	"testing"
)

// The profiles that come with sandboxd need no directory, and a file of one's own can't stand in for one.
func TestBuiltinProfiles(t *testing.T) {
	digests := map[string]string{}
	for _, name := range []string{"sandboxd/strict", "sandboxd/default", "sandboxd/jit", "sandboxd/gpu"} {
		plan, err := Build(localhost(name), fixedHost(), fixedSandbox(), Profiles{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if plan.Seccomp.Profile != "Localhost/"+name {
			t.Errorf("%s gives %s", name, plan.Seccomp.Profile)
		}
		if other := digests[plan.Seccomp.Program.Digest()]; other != "" {
			t.Errorf("%s is %s", name, other)
		}
		digests[plan.Seccomp.Program.Digest()] = name
	}
	for _, name := range []string{"sandboxd/other", "sandboxd/", "sandboxd/strict.json"} {
		_, err := Build(localhost(name), fixedHost(), fixedSandbox(), Profiles{Dir: t.TempDir()})
		var refused *RefusedError
		if !errors.As(err, &refused) || refused.Field != "securityContext.seccompProfile" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPolicyAsksForExplanations(t *testing.T) {
	decision, host := fixedDecision(), fixedHost()
	decision.Effective.ExplainDenials = true
	plan, err := Build(decision, host, fixedSandbox(), Profiles{})
	if err != nil || !plan.Listens() {
		t.Fatalf("%v, listens %v", err, plan.Listens())
	}
	host.SeccompListener = false
	var refused *RefusedError
	if _, err := Build(decision, host, fixedSandbox(), Profiles{}); !errors.As(err, &refused) || refused.Lack != "seccomp.listener" {
		t.Errorf("a host without: %v", err)
	}
	decision.Accept = []string{"seccomp.listener"}
	if plan, err = Build(decision, host, fixedSandbox(), Profiles{}); err != nil || plan.Listens() || len(plan.Degraded) != 1 {
		t.Errorf("accepted: %v, listens %v, degraded %q", err, plan.Listens(), plan.Degraded)
	}
}

func TestListenersAreRefusedWhereThereAreNone(t *testing.T) {
	host := fixedHost()
	plan, err := Build(fixedDecision(), host, fixedSandbox(), Profiles{})
	if err != nil {
		t.Fatal(err)
	}
	for _, with := range []func(Host) (Plan, error){plan.Explaining, plan.Observing} {
		host := host
		host.SeccompListener = false
		_, err := with(host)
		var refused *RefusedError
		if !errors.As(err, &refused) || refused.Lack != "seccomp.listener" || refused.HowTo == "" {
			t.Errorf("a host without: %v", err)
		}
		host.SeccompListener = true
		got, err := with(host)
		if err != nil || !got.Listens() || got.Digest() == plan.Digest() {
			t.Errorf("a host with: %v, listens %v", err, got.Listens())
		}
		if plan.Listens() {
			t.Fatal("the plan itself was changed")
		}
	}
}
