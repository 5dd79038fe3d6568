package enforcer

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer/network/fence"
	"github.com/sandboxd/sandboxd/policy"
	"pgregory.net/rapid"
)

func ptr[T any](v T) *T { return &v }

func TestBuildGolden(t *testing.T) {
	for name, h := range examples(t) {
		// What the compiler makes of a profile has its own tests, in its own package.
		h.plan.Seccomp.Program, h.plan.Seccomp.Probes = nil, nil
		data, err := json.Marshal(h.plan, json.Deterministic(true), jsontext.WithIndent("  "))
		if err != nil {
			t.Fatal(err)
		}
		golden(t, "plan-"+name+".json", append(data, '\n'))
	}
}

// What a decision asks for that can't be held is refused, with the field, whatever policy says.
func TestBuildRefuses(t *testing.T) {
	for _, test := range []struct {
		name  string
		field string
		lack  string
		host  func(*Host)
		edit  func(*policy.Decision)
		// strict: no policy may accept it.
		strict bool
	}{
		{name: "denied", field: "decision", edit: func(d *policy.Decision) { d.Allow = false }},
		{name: "privileged", field: "securityContext.privileged", edit: func(d *policy.Decision) { d.Effective.SecurityContext.Privileged = ptr(true) }},
		{name: "escalation", field: "securityContext.allowPrivilegeEscalation", edit: func(d *policy.Decision) {
			d.Effective.SecurityContext.AllowPrivilegeEscalation = ptr(true)
		}},
		{name: "writable root", field: "securityContext.readOnlyRootFilesystem", edit: func(d *policy.Decision) {
			d.Effective.SecurityContext.ReadOnlyRootFilesystem = ptr(false)
		}},
		{name: "proc", field: "securityContext.procMount", edit: func(d *policy.Decision) { d.Effective.SecurityContext.ProcMount = ptr("Unmasked") }},
		{name: "capability", field: "securityContext.capabilities.add", edit: func(d *policy.Decision) {
			d.Effective.SecurityContext.Capabilities = &policy.Capabilities{Add: []string{"CHOWN"}}
		}},
		{name: "network", field: "network.egress", lack: networkFence, strict: true, edit: func(d *policy.Decision) {
			d.Effective.Network.Egress = []policy.EgressRule{{Action: policy.NetworkAllow, Target: "example.org"}}
		}},
		{name: "open network", field: "network.egress", lack: networkFence, strict: true, edit: func(d *policy.Decision) { d.Effective.Network.DefaultAction = policy.NetworkAllow }},
		{name: "no profile", field: "securityContext.seccompProfile", edit: func(d *policy.Decision) { d.Effective.SecurityContext.SeccompProfile = nil }},
		{name: "profile type", field: "securityContext.seccompProfile.type", edit: func(d *policy.Decision) {
			d.Effective.SecurityContext.SeccompProfile = &policy.SeccompProfile{Type: "runtimeDefault"}
		}},
		{name: "no profile directory", field: "securityContext.seccompProfile.localhostProfile", edit: func(d *policy.Decision) {
			d.Effective.SecurityContext.SeccompProfile = &policy.SeccompProfile{Type: policy.SeccompLocalhost, LocalhostProfile: ptr("a.json")}
		}},
		{name: "no seccomp", field: "securityContext.seccompProfile", lack: "seccomp", host: func(h *Host) { h.SeccompActions = nil }},
		{name: "root's uid", field: "securityContext.runAsUser", edit: func(d *policy.Decision) { d.Effective.SecurityContext.RunAsUser = ptr[int64](0) }},
		{name: "the worker's uid", field: "securityContext.runAsUser", edit: func(d *policy.Decision) { d.Effective.SecurityContext.RunAsUser = ptr[int64](200000) }},
		{name: "uid -1", field: "securityContext.runAsUser", edit: func(d *policy.Decision) { d.Effective.SecurityContext.RunAsUser = ptr[int64](1<<32 - 1) }},
		{name: "root's gid", field: "securityContext.runAsGroup", edit: func(d *policy.Decision) { d.Effective.SecurityContext.RunAsGroup = ptr[int64](0) }},
		{name: "the worker's gid", field: "securityContext.runAsGroup", edit: func(d *policy.Decision) { d.Effective.SecurityContext.RunAsGroup = ptr[int64](200000) }},
		{name: "the worker's group", field: "securityContext.supplementalGroups", edit: func(d *policy.Decision) { d.Effective.SecurityContext.SupplementalGroups = []int64{5, 200000} }},
		{name: "root's group", field: "securityContext.supplementalGroups", edit: func(d *policy.Decision) { d.Effective.SecurityContext.SupplementalGroups = []int64{5, 0} }},
		{name: "no memory controller", field: "limits.memoryBytes", lack: "cgroup.memory",
			host: func(h *Host) { h.Cgroup.Controllers = []string{"cpu", "pids"}; h.Cgroup.Why = "memory is on version 1" },
			edit: func(d *policy.Decision) { d.Effective.Limits.MemoryBytes = 64 << 20 }},
		{name: "no cpu controller", field: "limits.cpu", lack: "cgroup.cpu", host: func(h *Host) { h.Cgroup.Controllers = nil },
			edit: func(d *policy.Decision) { d.Effective.Limits.CPU = 1 }},
		{name: "nobody counts processor time", field: "limits.cpuSeconds", lack: "cgroup.usage", host: func(h *Host) { h.Cgroup.Kill = false },
			edit: func(d *policy.Decision) { d.Effective.Limits.CPUSeconds = 1 }},
		{name: "too little memory", field: "limits.memoryBytes", edit: func(d *policy.Decision) { d.Effective.Limits.MemoryBytes = 4096 }},
		{name: "nothing ends the tree", field: "limits.timeoutSeconds", host: func(h *Host) { h.LandlockABI = 5; h.Cgroup.Base = "" }},
		{name: "a cgroup that can't kill", field: "limits.timeoutSeconds", host: func(h *Host) { h.LandlockABI = 5; h.Cgroup.Kill = false }},
	} {
		host, decision := fixedHost(), fixedDecision()
		if test.host != nil {
			test.host(&host)
		}
		if test.edit != nil {
			test.edit(&decision)
		}
		_, err := Build(decision, host, fixedSandbox(), Profiles{})
		var refused *RefusedError
		if !errors.As(err, &refused) {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		if refused.Field != test.field || refused.Lack != test.lack || refused.Message == "" || refused.HowTo == "" {
			t.Errorf("%s: %+v", test.name, refused)
		}
		if test.lack == "" || test.strict {
			continue
		}
		// The same with the lack accepted: it goes without, and says so.
		decision.Accept = []string{test.lack}
		plan, err := Build(decision, host, fixedSandbox(), Profiles{})
		if err != nil {
			t.Errorf("%s, accepted: %v", test.name, err)
		}
		if !slices.ContainsFunc(plan.Degraded, func(s string) bool { return strings.HasPrefix(s, test.lack+": ") }) {
			t.Errorf("%s, accepted: degraded %q", test.name, plan.Degraded)
		}
	}
}

// A word in Accept never lets through what nothing can hold.
func TestBuildAcceptIsForLacksOnly(t *testing.T) {
	decision := fixedDecision()
	decision.Effective.SecurityContext.Privileged = ptr(true)
	decision.Accept = []string{"", "securityContext.privileged", "privileged"}
	if _, err := Build(decision, fixedHost(), fixedSandbox(), Profiles{}); err == nil {
		t.Error("accepted")
	}
	decision = fixedDecision()
	host := fixedHost()
	host.LandlockABI, host.Cgroup.Base = 0, ""
	decision.Accept = []string{"", "kill.tree", "limits.timeoutSeconds"}
	if _, err := Build(decision, host, fixedSandbox(), Profiles{}); err == nil {
		t.Error("a tree that nothing ends is accepted")
	}
}

func TestBuildIdentity(t *testing.T) {
	for _, test := range []struct {
		name    string
		host    Host
		sandbox SandboxPlan
		edit    func(*policy.SecurityContext)
		want    Identity
		set     bool
		field   string
	}{
		{name: "root's sandbox", host: fixedHost(), sandbox: fixedSandbox(), want: Identity{200001, 200001, []int{}}, set: true},
		{name: "asked for", host: fixedHost(), sandbox: fixedSandbox(), want: Identity{1000, 2000, []int{3, 4}}, set: true, edit: func(c *policy.SecurityContext) {
			c.RunAsUser, c.RunAsGroup, c.SupplementalGroups = ptr[int64](1000), ptr[int64](2000), []int64{4, 3, 4}
		}},
		{name: "user namespace", host: ordinaryHost(), sandbox: ordinarySandbox(), want: Identity{1234, 1235, []int{20, 1235}}},
		{name: "the one id", host: ordinaryHost(), sandbox: ordinarySandbox(), want: Identity{1234, 1235, []int{20, 1235}}, edit: func(c *policy.SecurityContext) {
			c.RunAsUser, c.RunAsGroup = ptr[int64](InsideID), ptr[int64](InsideID)
		}},
		{name: "another id", host: ordinaryHost(), sandbox: ordinarySandbox(), field: "securityContext.runAsUser", edit: func(c *policy.SecurityContext) { c.RunAsUser = ptr[int64](1234) }},
		{name: "groups", host: ordinaryHost(), sandbox: ordinarySandbox(), field: "securityContext.supplementalGroups", edit: func(c *policy.SecurityContext) { c.SupplementalGroups = []int64{20} }},
	} {
		decision := fixedDecision()
		if test.edit != nil {
			test.edit(&decision.Effective.SecurityContext)
		}
		plan, err := Build(decision, test.host, test.sandbox, Profiles{})
		var refused *RefusedError
		if test.field != "" {
			if !errors.As(err, &refused) || refused.Field != test.field {
				t.Errorf("%s: %v", test.name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		if diff := cmp.Diff(test.want, plan.Identity); diff != "" || plan.SetIDs != test.set || plan.SetGroups != test.set {
			t.Errorf("%s: %v %v\n%s", test.name, plan.SetIDs, plan.SetGroups, diff)
		}
	}
}

func TestBuildLimits(t *testing.T) {
	for _, test := range []struct {
		name    string
		host    func(*Host)
		limits  policy.Limits
		cgroup  map[string]string
		rlimits map[string]int64 // some of them; -2: not there
	}{
		{name: "defaults", limits: policy.Limits{}.Defaulted(), cgroup: map[string]string{"pids.max": "512"}, rlimits: map[string]int64{"nofile": 1024, "nproc": -2, "fsize": -2, "core": 1}},
		{name: "memory in whole pages", limits: policy.Limits{MemoryBytes: 64<<20 + 5}, cgroup: map[string]string{"memory.max": "67108864", "memory.oom.group": "1", "memory.swap.max": "0"}},
		{name: "no swap accounting", limits: policy.Limits{MemoryBytes: 64 << 20}, host: func(h *Host) { h.Cgroup.Swap = false }, cgroup: map[string]string{"memory.max": "67108864", "memory.oom.group": "1"}},
		{name: "cpu", limits: policy.Limits{CPU: 1.239999}, cgroup: map[string]string{"cpu.max": "123999 100000"}},
		{name: "very little cpu", limits: policy.Limits{CPU: 0.0001}, cgroup: map[string]string{"cpu.max": "1000 100000"}},
		{name: "no pids controller", limits: policy.Limits{Pids: 20}, host: func(h *Host) { h.Cgroup.Controllers = nil }, cgroup: map[string]string{}, rlimits: map[string]int64{"nproc": 20}},
		{name: "no cgroup", limits: policy.Limits{Pids: 20, FileBytes: 1000}, host: func(h *Host) { h.Cgroup.Base = "" }, cgroup: nil, rlimits: map[string]int64{"nproc": 20, "fsize": 1000}},
		{name: "processor time", limits: policy.Limits{CPUSeconds: 1.5}, cgroup: map[string]string{}, rlimits: map[string]int64{"cpu": 3}},
		{name: "processor time without the controller", limits: policy.Limits{CPUSeconds: 0.01}, host: func(h *Host) { h.Cgroup.Controllers = nil },
			cgroup: map[string]string{}, rlimits: map[string]int64{"cpu": 2}},
		{name: "no processor time", limits: policy.Limits{CPU: 1}, cgroup: map[string]string{"cpu.max": "100000 100000"}, rlimits: map[string]int64{"cpu": -2}},
		{name: "the daemon's own limits", limits: policy.Limits{OpenFiles: 5000}, cgroup: map[string]string{},
			host:    func(h *Host) { h.RLimits["nofile"], h.RLimits["core"], h.RLimits["stack"] = 4096, 0, 1<<20 },
			rlimits: map[string]int64{"nofile": 4096, "core": 0, "stack": 1 << 20}},
	} {
		host, decision := fixedHost(), fixedDecision()
		if test.host != nil {
			test.host(&host)
		}
		decision.Effective.Limits = test.limits
		plan := mustBuild(t, decision, host, fixedSandbox())
		if !maps.Equal(plan.Cgroup, test.cgroup) || (plan.Cgroup == nil) != (test.cgroup == nil) {
			t.Errorf("%s: cgroup %v, want %v", test.name, plan.Cgroup, test.cgroup)
		}
		for name, want := range test.rlimits {
			got := int64(-2)
			for _, limit := range plan.RLimits {
				if limit.Name == name {
					got = limit.Value
				}
			}
			if got != want {
				t.Errorf("%s: rlimit %s is %d, want %d", test.name, name, got, want)
			}
		}
	}
	for resource, number := range map[string]int{"nofile": unix.RLIMIT_NOFILE, "core": unix.RLIMIT_CORE, "stack": unix.RLIMIT_STACK, "msgqueue": unix.RLIMIT_MSGQUEUE, "rtprio": unix.RLIMIT_RTPRIO} {
		for _, limit := range mustBuild(t, fixedDecision(), fixedHost(), fixedSandbox()).RLimits {
			if limit.Name == resource && limit.Resource != number {
				t.Errorf("%s is number %d, want %d", resource, limit.Resource, number)
			}
		}
	}
}

// Whatever is asked for, no limit is above what was asked or above the daemon's own, and the confinement never gets weaker by a limit.
func TestBuildNeverGivesMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		decision, host := fixedDecision(), fixedHost()
		asked := policy.Limits{
			MemoryBytes: rapid.Int64Range(minMemory, 1<<40).Draw(t, "memory"), Pids: rapid.Int64Range(1, 1<<22).Draw(t, "pids"),
			CPU: rapid.Float64Range(0.01, 512).Draw(t, "cpu"), OpenFiles: rapid.Int64Range(1, 1<<30).Draw(t, "files"), FileBytes: rapid.Int64Range(1, 1<<50).Draw(t, "file"),
		}
		host.RLimits["nofile"] = rapid.Int64Range(-1, 1<<20).Draw(t, "hard")
		if rapid.Bool().Draw(t, "no pids controller") {
			host.Cgroup.Controllers = []string{"cpu", "memory"}
		}
		decision.Effective.Limits = asked
		plan, err := Build(decision, host, fixedSandbox(), Profiles{})
		if err != nil {
			t.Fatal(err)
		}
		bounds := map[string]int64{"nofile": asked.OpenFiles, "fsize": asked.FileBytes, "nproc": asked.Pids}
		for _, limit := range plan.RLimits {
			hard, known := host.RLimits[limit.Name]
			if known && !atMost(limit.Value, hard) {
				t.Fatalf("%s %d is above the daemon's %d", limit.Name, limit.Value, hard)
			}
			if bound, asked := bounds[limit.Name]; asked && !atMost(limit.Value, bound) {
				t.Fatalf("%s %d is above %d", limit.Name, limit.Value, bound)
			}
			if limit.Value < 0 {
				t.Fatalf("%s is unlimited", limit.Name)
			}
		}
		if plan.Securebits != allSecurebits || !plan.DropBounding || plan.LastCapability != 40 || len(plan.Seccomp.Program) == 0 || plan.Landlock.HandledFS == 0 {
			t.Fatal("a limit weakened the rest")
		}
	})
}

func TestBuildIsAValue(t *testing.T) {
	decision, host, sandbox := fixedDecision(), fixedHost(), fixedSandbox()
	decision.Effective.Limits.MemoryBytes = 64 << 20
	first := mustBuild(t, decision, host, sandbox)
	digest := first.Digest()
	second := mustBuild(t, decision, host, sandbox)
	if second.Digest() != digest {
		t.Error("the same decision has two digests")
	}
	// A change to one plan must not reach another.
	second.RLimits[0].Value++
	second.Cgroup["memory.max"] = "max"
	second.Identity.Groups = append(second.Identity.Groups, 1)
	second.Landlock.Paths[0].Access = 0
	if first.Digest() != digest || mustBuild(t, decision, host, sandbox).Digest() != digest {
		t.Error("plans share memory")
	}
	if second.Digest() == digest {
		t.Error("another plan has the same digest")
	}
}

func BenchmarkBuild(b *testing.B) {
	decision, host, sandbox := fixedDecision(), fixedHost(), fixedSandbox()
	mustBuild(b, decision, host, sandbox)
	b.ReportAllocs()
	for b.Loop() {
		mustBuild(b, decision, host, sandbox)
	}
}

func BenchmarkPlanDigest(b *testing.B) {
	plan := mustBuild(b, fixedDecision(), fixedHost(), fixedSandbox())
	b.ReportAllocs()
	for b.Loop() {
		plan.Digest()
	}
}

// A network that lets something out is the fence's to hold: Landlock, which knows ports and no destinations, leaves it alone.
func TestBuildLetsOut(t *testing.T) {
	box := fixedSandbox()
	box.Network = fence.AnyIP(true, true)
	for name, spec := range map[string]policy.NetworkSpec{
		"a name":     {Egress: []policy.EgressRule{{Action: policy.NetworkAllow, Target: "example.org"}}},
		"everything": {DefaultAction: policy.NetworkAllow},
		"nothing":    {DefaultAction: policy.NetworkDeny, Egress: []policy.EgressRule{{Action: policy.NetworkDeny, Target: "example.org"}}},
	} {
		decision := fixedDecision()
		decision.Effective.Network = spec
		plan, err := Build(decision, fixedHost(), box, Profiles{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if refuses := plan.Landlock.HandledNet != 0; refuses != spec.DenyAll() {
			t.Errorf("%s: Landlock refuses TCP: %v", name, refuses)
		}
	}
	decision := fixedDecision()
	decision.Effective.Network.DefaultAction, decision.Accept = policy.NetworkAllow, []string{networkFence}
	if _, err := Build(decision, fixedHost(), fixedSandbox(), Profiles{}); err == nil {
		t.Error("a sandbox without a fence is let out since policy accepts that")
	}
}

// Where there is no memory controller and policy accepts that, memory is counted, and the kernel's own limit of a process stands behind the count.
func TestCountedMemory(t *testing.T) {
	host, decision := fixedHost(), fixedDecision()
	host.Cgroup.Controllers = nil
	decision.Effective.Limits.MemoryBytes, decision.Accept = 64<<20, []string{"cgroup.memory"}
	for _, kill := range []bool{true, false} { // with a group for the exec, and without one
		host.Cgroup.Kill = kill
		plan, err := Build(decision, host, fixedSandbox(), Profiles{})
		if err != nil {
			t.Fatal(err)
		}
		if plan.Memory != 64<<20 || plan.Cgroup["memory.max"] != "" {
			t.Errorf("kill %t: %d bytes counted, group %v", kill, plan.Memory, plan.Cgroup)
		}
		if i := slices.IndexFunc(plan.RLimits, func(l RLimit) bool { return l.Name == "data" }); i < 0 || plan.RLimits[i].Value != 320<<20 {
			t.Errorf("kill %t: limits %+v", kill, plan.RLimits)
		}
	}
	if plan, err := Build(decision, fixedHost(), fixedSandbox(), Profiles{}); err != nil || plan.Memory != 0 || plan.Cgroup["memory.max"] == "" {
		t.Errorf("with a controller nobody else counts: %+v, %v", plan, err)
	}
}
