package enforcer

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/enforcer/network/fence"
	"github.com/sandboxd/sandboxd/policy"
)

// restrictedHost is a pod without any capability, in which no namespace can be made.
func restrictedHost() Host {
	host := ordinaryHost()
	host.UserNamespaces = false
	return host
}

// restrictedSandbox is a place in it, with a relay that listens as a proxy. Whose ids a child has there isn't what these tests are about.
func restrictedSandbox() SandboxPlan {
	sandbox := fixedSandbox()
	sandbox.Namespaces, sandbox.ProxyPort = nil, 3128
	return sandbox
}

func letting(d policy.Decision, accept ...string) policy.Decision {
	d.Effective.Network.Egress = []policy.EgressRule{{Action: policy.NetworkAllow, Target: "example.org"}}
	d.Accept = accept
	return d
}

// TestBuildNetwork: what holds an exec's network follows from where its sandbox stands.
func TestBuildNetwork(t *testing.T) {
	fenced := fixedSandbox()
	fenced.Network = fence.AnyIP(true, true)
	for _, row := range []struct {
		name     string
		decision policy.Decision
		sandbox  SandboxPlan
		want     string
		net      bool // Landlock holds TCP
		golden   string
	}{
		{"nothing, no fence", fixedDecision(), fixedSandbox(), NetworkNone, true, ""},
		{"nothing, a fence", fixedDecision(), fenced, NetworkFence, true, ""},
		{"something, a fence", letting(fixedDecision()), fenced, NetworkRelay, false, ""},
		{"nothing, no namespace", fixedDecision(), restrictedSandbox(), NetworkFilter, true, "plan-filter.json"},
		{"something, no namespace", letting(fixedDecision(), networkDestination), restrictedSandbox(), NetworkProxy, true, "plan-proxy.json"},
	} {
		host := fixedHost()
		if row.golden != "" {
			host = restrictedHost()
		}
		plan := mustBuild(t, row.decision, host, row.sandbox)
		if plan.Network != row.want || plan.Landlock.HandledNet != 0 != row.net {
			t.Errorf("%s: %s, Landlock's rights %#x", row.name, plan.Network, plan.Landlock.HandledNet)
		}
		if len(networkActs(plan)) < 20 {
			t.Errorf("%s: %d acts", row.name, len(networkActs(plan)))
		}
		if row.golden == "" {
			continue
		}
		if plan.Tier != policy.TierRestricted {
			t.Errorf("%s: tier %s", row.name, plan.Tier)
		}
		for _, name := range []string{"socket udp", "socket udp6", "socket inet high", "socket route", "socket mptcp", "socket vsock", "socket packet", "io_uring_setup"} {
			if !slices.ContainsFunc(seccompActs(plan, host.Arch), func(a Act) bool { return a.Name == "seccomp."+name }) {
				t.Errorf("%s: the filter lets %s through", row.name, name)
			}
		}
		plan.Seccomp.Program, plan.Seccomp.Probes = nil, nil
		data, err := json.Marshal(plan, json.Deterministic(true), jsontext.WithIndent("  "))
		if err != nil {
			t.Fatal(err)
		}
		golden(t, row.golden, append(data, '\n'))
	}
}

// TestBuildRestrictedRefuses: what such a place can't hold is refused by name, and one lack only can be accepted.
func TestBuildRestrictedRefuses(t *testing.T) {
	for _, row := range []struct {
		name, field, lack string
		accept            []string
		edit              func(*Host, *SandboxPlan, *policy.Decision)
		open              bool
	}{
		{name: "another host on the relay's port", field: "network.egress", lack: networkDestination, open: true},
		{name: "an old Landlock", field: "network.egress", lack: "network.landlock", open: true, accept: []string{networkDestination, "network.landlock"},
			edit: func(h *Host, _ *SandboxPlan, _ *policy.Decision) { h.LandlockABI = 3 }},
		{name: "no relay", field: "network.egress", lack: networkFence, open: true, accept: []string{networkDestination, networkFence},
			edit: func(_ *Host, s *SandboxPlan, _ *policy.Decision) { s.ProxyPort = 0 }},
		{name: "no filter asked for", field: "securityContext.seccompProfile.type", accept: []string{"seccomp"},
			edit: func(_ *Host, _ *SandboxPlan, d *policy.Decision) {
				d.Effective.SecurityContext.SeccompProfile = &policy.SeccompProfile{Type: policy.SeccompUnconfined}
			}},
		{name: "no filters here", field: "network", accept: []string{"seccomp"},
			edit: func(h *Host, _ *SandboxPlan, _ *policy.Decision) { h.SeccompActions = nil }},
	} {
		host, sandbox, decision := restrictedHost(), restrictedSandbox(), fixedDecision()
		host.Cgroup = fixedHost().Cgroup
		if row.open {
			decision = letting(decision)
		}
		decision.Accept = row.accept
		if row.edit != nil {
			row.edit(&host, &sandbox, &decision)
		}
		_, err := Build(decision, host, sandbox, Profiles{})
		var refused *RefusedError
		if !errors.As(err, &refused) || refused.Field != row.field || refused.Lack != row.lack || refused.HowTo == "" {
			t.Errorf("%s: %+v, %v", row.name, refused, err)
		}
	}
	plan := mustBuild(t, letting(fixedDecision(), networkDestination), restrictedHost(), restrictedSandbox())
	if !slices.ContainsFunc(plan.Degraded, func(text string) bool {
		return strings.HasPrefix(text, networkDestination+": ") && strings.Contains(text, "3128")
	}) {
		t.Errorf("%q", plan.Degraded)
	}
}
