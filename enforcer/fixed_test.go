package enforcer

import (
	"encoding/json/v2"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/sandboxd/sandboxd/enforcer/caps"
	"github.com/sandboxd/sandboxd/enforcer/cgroup"
	"github.com/sandboxd/sandboxd/enforcer/mount"
	"github.com/sandboxd/sandboxd/enforcer/procfs"
	"github.com/sandboxd/sandboxd/policy"
)

// fixedHost is a host that has everything, as an example that doesn't change with the machine.
func fixedHost() Host {
	return Host{
		Kernel: "6.18.0", Arch: "amd64", BootID: "00000000-0000-4000-8000-000000000000", Capabilities: caps.All(40), LastCapability: 40,
		InitialUserNamespace: true, UserNamespaces: true, LandlockABI: 7, SeccompActions: []string{"kill_process", "errno", "allow"},
		SeccompReadback: true, SeccompListener: true, Terminals: true, PassPidFD: true, PidFDInfo: true, Yama: -1,
		Cgroup: cgroup.Host{Layout: cgroup.LayoutV2, Mount: "/sys/fs/cgroup", Base: "/sys/fs/cgroup", Path: "/", Daemon: "sandboxd-7-8-9",
			Controllers: []string{"cpu", "io", "memory", "pids"}, Kill: true, Freeze: true, Swap: true},
		RLimits:    map[string]int64{"nofile": 1 << 20, "core": -1, "nproc": 96000, "fsize": -1, "stack": -1, "memlock": 8 << 20, "msgqueue": 819200, "sigpending": 96000, "nice": 0, "rtprio": 0},
		Namespaces: map[string]uint64{"cgroup": 1, "ipc": 2, "mnt": 3, "net": 4, "pid": 5, "time": 6, "user": 7, "uts": 8},
	}
}

// ordinaryHost is the same for an ordinary user without a cgroup.
func ordinaryHost() Host {
	host := fixedHost()
	host.UID, host.GID, host.Groups, host.Capabilities, host.SeccompReadback = 1234, 1235, []int{20, 1235}, 0, false
	host.Cgroup = cgroup.Host{Layout: cgroup.LayoutV2, Mount: "/sys/fs/cgroup", Why: "mkdir /sys/fs/cgroup/sandboxd-probe: permission denied"}
	return host
}

func fixedRoot() mount.Root {
	return mount.Root{Mounts: []mount.Mount{
		{Target: "/", Type: mount.TypeTmpfs, Dir: true, Options: []string{"nodev", "nosuid", "ro"}},
		{Target: "/usr", Type: mount.TypeBind, Dir: true, Options: []string{"nodev", "nosuid", "ro"}},
		{Target: "/dev", Type: mount.TypeTmpfs, Dir: true, Options: []string{"nodev", "noexec", "nosuid", "ro"}},
		{Target: "/dev/null", Type: mount.TypeBind, Device: true, Options: []string{"noexec", "nosuid", "ro"}},
		{Target: "/tmp", Type: mount.TypeTmpfs, Dir: true, Options: []string{"nodev", "nosuid"}},
		{Target: "/work", Type: mount.TypeTmpfs, Dir: true, Options: []string{"nodev", "nosuid"}},
	}}
}

func fixedSandbox() SandboxPlan {
	worker := Identity{UID: 200000, GID: 200000}
	return SandboxPlan{Namespaces: []string{"cgroup", "ipc", "mnt", "net", "pid", "uts"}, Root: fixedRoot(), Worker: worker, Outside: worker, Child: Identity{UID: 200001, GID: 200001}}
}

func ordinarySandbox() SandboxPlan {
	inside := Identity{UID: InsideID, GID: InsideID}
	return SandboxPlan{Namespaces: []string{"cgroup", "ipc", "mnt", "net", "pid", "uts", "user"}, Root: fixedRoot(), Worker: inside, Child: inside,
		Outside: Identity{UID: 1234, GID: 1235}, Degraded: []string{"ids.separate: one uid"}}
}

func fixedDecision() policy.Decision {
	return policy.Decision{ID: "d", Allow: true, Effective: policy.Effective{
		SecurityContext: policy.SecurityContext{}.Defaulted(), Network: policy.NetworkSpec{}.Defaulted(), Limits: policy.Limits{}.Defaulted()}}
}

func mustBuild(t testing.TB, d policy.Decision, h Host, s SandboxPlan) Plan {
	t.Helper()
	plan, err := Build(d, h, s, Profiles{})
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// held is a plan with an expectation and a state that hold, both at the gate and after execve (started).
type held struct {
	plan    Plan
	expect  Expect
	gate    State
	started State
}

// heldAs is one for root with a cgroup, or for an ordinary user with a shepherd.
func heldAs(t testing.TB, host Host, sandbox SandboxPlan) held {
	t.Helper()
	decision := fixedDecision()
	if host.UID == 0 {
		decision.Effective.Limits.MemoryBytes, decision.Effective.Limits.CPU = 64<<20, 0.5
	}
	plan := mustBuild(t, decision, host, sandbox)
	namespaces := map[string]uint64{"cgroup": 1, "ipc": 12, "mnt": 13, "net": 14, "pid": 15, "time": 6, "user": 17, "uts": 18}
	expect := Expect{
		PID: 4000, WorkerPID: 3990, StepsPlanned: 80, StepsWalked: 80, Extra: 1,
		FDs:        map[int]string{0: "pipe:[1]", 1: "pipe:[2]", 2: "pipe:[3]", 3: "pipe:[4]", 4: "socket:[5]", 6: "/usr/bin/true"},
		Namespaces: namespaces, Root: "/", RootID: "0:60:1", Cwd: "/work", WorkerID: "0:1:99", Target: "/usr/bin/true", Cgroup: "/sandboxd-7-8-9/a/b",
	}
	u, g := plan.Identity.UID, plan.Identity.GID
	state := State{
		Threads: []procfs.Status{{
			Name: "runner", TGID: 4000, PID: 4000, PPID: 3990, NSPID: []int{4000, 9}, NSSID: []int{4000, 9},
			UIDs: [4]int{u, u, u, u}, GIDs: [4]int{g, g, g, g}, Groups: slices.Clone(plan.Identity.Groups), Umask: 0o022,
			NoNewPrivs: 1, Seccomp: 2, SeccompFilters: 1,
		}},
		Namespaces: maps.Clone(namespaces), Root: "/", RootID: "0:60:1", Cwd: "/work", Exe: "/memfd:sandboxd-runner (deleted)", ExeID: "0:1:99",
		FDs: maps.Clone(expect.FDs), Cgroup: "/sandboxd-7-8-9/a/b", CgroupValues: maps.Clone(plan.Cgroup), EnvironOwner: 0,
	}
	for _, resource := range procfs.Resources {
		l := procfs.Limit{Name: resource.Name, Soft: -1, Hard: -1}
		for _, limit := range plan.RLimits {
			if limit.Name == resource.Name {
				l.Soft, l.Hard = limit.Value, limit.Value
			}
		}
		state.Limits = append(state.Limits, l)
	}
	started := cloneState(t, state)
	started.Threads[0].SigBlocked, started.Threads[0].Umask, started.Threads[0].SigIgnored = 0, 0o077, 1<<12
	second := cloneState(t, started).Threads[0]
	second.PID, second.NSPID = 4001, []int{4001, 10}
	started.Threads = append(started.Threads, second)
	started.Exe, started.ExeID, started.Cwd, started.EnvironOwner = "/usr/bin/true", "8:1:77", "/tmp", u
	delete(started.FDs, 4)
	delete(started.FDs, 6)
	started.FDs[9] = "/usr/lib/libc.so.6"
	if plan.Readback {
		state.Filter = plan.Seccomp.Program.Bytes()
	}
	return held{plan: plan, expect: expect, gate: state, started: started}
}

func cloneState(t testing.TB, s State) State {
	t.Helper()
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var clone State
	if err := json.Unmarshal(data, &clone); err != nil {
		t.Fatal(err)
	}
	return clone
}

// examples are both ways in which a sandbox is made.
func examples(t testing.TB) map[string]held {
	return map[string]held{"root": heldAs(t, fixedHost(), fixedSandbox()), "ordinary": heldAs(t, ordinaryHost(), ordinarySandbox())}
}

func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	path := "testdata/" + file
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != string(got) {
		t.Errorf("%s differs (UPDATE_GOLDEN=1 writes it anew); got\n%s", path, got)
	}
}
