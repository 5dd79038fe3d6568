package engine

import (
	"context"
	"fmt"
	"testing"

	"github.com/sandboxd/sandboxd/policy"
)

// TestPolicyChoosesTheProfile: what is put in the place of RuntimeDefault must be tighter, which is held in Go.
func TestPolicyChoosesTheProfile(t *testing.T) {
	asked := func(profile policy.SeccompProfile) policy.Request {
		r := policy.Request{Action: policy.ActionExec, Caller: policy.Caller{Via: "cli"}, Command: policy.Command{Argv: []string{"true"}}}
		r.SecurityContext.SeccompProfile = &profile
		return r
	}
	named := func(name string) policy.SeccompProfile {
		return policy.SeccompProfile{Type: policy.SeccompLocalhost, LocalhostProfile: &name}
	}
	runtimeDefault := policy.SeccompProfile{Type: policy.SeccompRuntimeDefault}
	for _, row := range []struct {
		chosen string
		asked  policy.SeccompProfile
		want   string // what is in force; empty: denied
	}{
		{"", runtimeDefault, "RuntimeDefault"},
		{"", named(policy.ProfileDefault), "RuntimeDefault"},
		{"", named(policy.ProfileStrict), "Localhost(sandboxd/strict)"},
		{"sandboxd/strict", runtimeDefault, "Localhost(sandboxd/strict)"},
		{"sandboxd/strict", named(policy.ProfileDefault), "Localhost(sandboxd/strict)"},
		{"sandboxd/strict", named(policy.ProfileGPU), "Localhost(sandboxd/gpu)"},
		{"sandboxd/gpu", runtimeDefault, ""},
		{"own.json", runtimeDefault, ""},
	} {
		files := replaced(t, "data.json", `"seccomp_runtime_default": ""`, fmt.Sprintf(`"seccomp_runtime_default":%q`, row.chosen))
		replaceIn("data.json", `"sandboxd/strict"],`, `"sandboxd/strict", "sandboxd/gpu"],`)(files)
		e := open(t, Options{FS: files, Tested: true}) // its tests would already refuse the last two
		d := e.Decide(context.Background(), asked(row.asked))
		got := ""
		if d.Allow {
			got = d.Effective.SecurityContext.SeccompProfile.String()
		}
		if got != row.want {
			t.Errorf("%q in place of RuntimeDefault, %s asked: %q in force, want %q (%v)", row.chosen, row.asked, got, row.want, d.Reasons)
		}
		if !d.Allow && d.Reasons[0].Rule != ruleWidened {
			t.Errorf("%q: %v", row.chosen, d.Reasons)
		}
	}
}
