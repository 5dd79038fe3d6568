package engine

import (
	"context"
	"fmt"
	"iter"

	"github.com/sandboxd/sandboxd/policy"
)

// unconfinedPermission is where data.json may permit seccomp Unconfined. It is the one must-deny case that a person can lift, and only there: a
// rule that allows it by mistake is refused.
const unconfinedPermission = "Unconfined"

type mustDenyCase struct {
	title string
	ask   func(*policy.Request)
}

// mustDeny is what no bundle may allow. Every generation is asked before it is activated. Metadata addresses are missing since [policy.WithinNetwork]
// refuses them whatever a policy says.
var mustDeny = []mustDenyCase{
	{"a privileged context", func(r *policy.Request) { r.SecurityContext.Privileged = new(true) }},
	{"privilege escalation", func(r *policy.Request) { r.SecurityContext.AllowPrivilegeEscalation = new(true) }},
	{"capability SYS_ADMIN", func(r *policy.Request) {
		r.SecurityContext.Capabilities = &policy.Capabilities{Add: []string{"SYS_ADMIN"}}
	}},
	{"capability SYS_PTRACE", func(r *policy.Request) {
		r.SecurityContext.Capabilities = &policy.Capabilities{Add: []string{"SYS_PTRACE"}}
	}},
	{"capability SYS_MODULE", func(r *policy.Request) {
		r.SecurityContext.Capabilities = &policy.Capabilities{Add: []string{"SYS_MODULE"}}
	}},
	{"all capabilities", func(r *policy.Request) { r.SecurityContext.Capabilities = &policy.Capabilities{Add: []string{"ALL"}} }},
	{"user root", func(r *policy.Request) { r.SecurityContext.RunAsUser = new(int64(0)) }},
	{"group root", func(r *policy.Request) { r.SecurityContext.RunAsGroup = new(int64(0)) }},
	{"supplemental group root", func(r *policy.Request) { r.SecurityContext.SupplementalGroups = []int64{0} }},
	{"an unmasked /proc", func(r *policy.Request) { r.SecurityContext.ProcMount = new("Unmasked") }},
}

// proveMustDeny asks each case in every action that starts something.
func (g *generation) proveMustDeny(ctx context.Context, data map[string]any) error {
	for fault := range g.mustDenyFaults(ctx, data) {
		return fault
	}
	return nil
}

// mustDenyFaults are the cases that aren't denied, one error a case.
func (g *generation) mustDenyFaults(ctx context.Context, data map[string]any) iter.Seq[error] {
	cases := mustDeny
	if !permitsUnconfined(data) {
		cases = append(cases[:len(cases):len(cases)], mustDenyCase{"seccomp Unconfined without data.json listing it", func(r *policy.Request) {
			r.SecurityContext.SeccompProfile = &policy.SeccompProfile{Type: policy.SeccompUnconfined}
		}})
	}
	return func(yield func(error) bool) {
		for _, must := range cases {
			if fault := g.mustDenyFault(ctx, must); fault != nil && !yield(fault) {
				return
			}
		}
	}
}

func (g *generation) mustDenyFault(ctx context.Context, must mustDenyCase) error {
	for _, request := range plainRequests() {
		must.ask(&request)
		decision, err := g.decide(ctx, request)
		if err != nil {
			return fmt.Errorf("must-deny: %s: %w", must.title, err)
		}
		if decision.Allow {
			return fmt.Errorf("must-deny: the bundle allows %s (action %s)", must.title, request.Action)
		}
	}
	return nil
}

func plainRequests() []policy.Request {
	caller := policy.Caller{UID: 1000, GID: 1000, Via: "cli"}
	return []policy.Request{
		{Action: policy.ActionExec, Caller: caller, Command: policy.Command{Argv: []string{"true"}}},
		{Action: policy.ActionRun, Caller: caller, Program: policy.Program{Language: "python", Code: "pass"}},
		{Action: policy.ActionSandbox, Caller: caller},
		{Action: policy.ActionNetwork, Caller: caller, Sandbox: "box"},
		{Action: policy.ActionFile, Caller: caller, Sandbox: "box", File: policy.File{Operation: policy.FileRead, Path: "/work/file"}},
	}
}

// permitsUnconfined looks at settings.context.seccomp_profile_types of data.json.
func permitsUnconfined(data map[string]any) bool {
	settings, _ := data["settings"].(map[string]any)
	context, _ := settings["context"].(map[string]any)
	types, _ := context["seccomp_profile_types"].([]any)
	for _, entry := range types {
		if entry == unconfinedPermission {
			return true
		}
	}
	return false
}
