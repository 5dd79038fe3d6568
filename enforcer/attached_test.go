package enforcer

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/enforcer/landlock"
	"github.com/sandboxd/sandboxd/enforcer/network/fence"
	"github.com/sandboxd/sandboxd/enforcer/procfs"
	"github.com/sandboxd/sandboxd/policy"
)

// attachedHost is a sidecar's: no capability, and a launcher of another uid.
func attachedHost() Host {
	h := ordinaryHost()
	h.Attached, h.Opaque, h.UserNamespaces, h.Fence, h.SeccompReadback, h.Capabilities, h.PodFenceWhy = true, true, false, false, false, 0, "no NET_ADMIN"
	h.Cgroup.Base, h.Cgroup.Controllers, h.Cgroup.Kill = "", nil, false
	return h
}

// foundLauncher is a launcher as one should be.
func foundLauncher() SandboxState {
	thread := procfs.Status{TGID: 77, PID: 77, NSPID: []int{77}, UIDs: [4]int{4711, 4711, 4711, 4711}, GIDs: [4]int{4711, 4711, 4711, 4711}, Groups: []int{}, NoNewPrivs: 1,
		SeccompFilters: 1}
	second := thread
	second.PID = 78
	return SandboxState{Threads: []procfs.Status{thread, second}, Hostname: "pod", EnvironOwner: 0,
		Mounts: []procfs.Mount{{ID: 90, Dev: "0:50", Root: "/", Target: "/", Options: []string{"rw"}}, {ID: 91, Dev: "0:51", Root: "/", Target: "/tmp", Options: []string{"rw"}},
			{ID: 92, Dev: "0:52", Root: "/", Target: "/work", Options: []string{"ro"}}},
		Outline: Outline{Network: 1, Root: 90, UserMap: "[[0 0 1]]", Cgroup: "/pod/runner", Depth: 1}, Own: Outline{Network: 1, Root: 20, UserMap: "[[0 0 1]]", Cgroup: "/pod/sidecar", Depth: 1},
		OwnMounts: []procfs.Mount{{ID: 20, Dev: "0:40", Root: "/", Target: "/"}, {ID: 21, Dev: "8:1", Root: "/volumes/state", Target: "/state"}}}
}

func attachedPlan(h Host) SandboxPlan {
	return BuildAttached(h, AttachedSpec{UID: 4711}, foundLauncher())
}

func TestBuildAttached(t *testing.T) {
	plan := attachedPlan(attachedHost())
	if v := CheckAttached(plan, attachedHost(), foundLauncher(), []string{"/state"}); !v.Held() || v.Tier != policy.TierRestricted {
		t.Errorf("%s\n%s", v.Tier, failed(v))
	}
	if plan.Home() != "/tmp" { // /work is read-only
		t.Errorf("home %s", plan.Home())
	}
	same := attachedHost()
	same.UID = 4711
	if said := strings.Join(attachedPlan(same).Degraded, "\n"); !strings.Contains(said, "ids.daemon") {
		t.Errorf("one uid for all isn't said: %s", said)
	}
	pod, err := fence.Pod(fence.PodSpec{Runner: []uint32{4711}, Allowed: []uint32{4712}})
	if err != nil {
		t.Fatal(err)
	}
	fenced := BuildAttached(attachedHost(), AttachedSpec{UID: 4711, Fence: pod}, foundLauncher())
	said := CheckAttached(fenced, attachedHost(), foundLauncher(), []string{"/state"}).Degraded
	for _, unseen := range []string{"fence.cgroup-bpf", "fence.bpf-links", "fence.xfrm"} {
		if !slices.ContainsFunc(said, func(text string) bool { return strings.HasPrefix(text, unseen+": ") }) {
			t.Errorf("the verdict on a pod doesn't say that %s isn't seen: %q", unseen, said)
		}
	}
	made := mustBuild(t, fixedDecision(), attachedHost(), plan)
	if !made.Attached || made.Network != NetworkFilter || made.Kill != KillShepherd || made.Filters != 1 || made.Identity.UID != 4711 || made.SetIDs || made.Tier != policy.TierRestricted {
		t.Errorf("%+v", made)
	}
	for _, rule := range made.Landlock.Paths {
		if rule.Access&landlock.Write&^landlock.Read&^landlock.Device != 0 && rule.Path != "/tmp" || rule.Path == landlock.ProbeDevice {
			t.Errorf("granted: %+v", rule)
		}
	}
}

// TestCheckAttachedNoticesEveryChange: whatever of a launcher is other than it should be, or than it was.
func TestCheckAttachedNoticesEveryChange(t *testing.T) {
	h, plan := attachedHost(), attachedPlan(attachedHost())
	for control, change := range map[string]func(*SandboxState){
		"launcher.uid":                func(s *SandboxState) { s.Threads[1].UIDs[3] = 0 },
		"launcher.gid":                func(s *SandboxState) { s.Threads[0].GIDs[1] = 0 },
		"launcher.groups":             func(s *SandboxState) { s.Threads[0].Groups = []int{5} },
		"launcher.capabilities":       func(s *SandboxState) { s.Threads[1].Permitted = 1 },
		"launcher.no_new_privs":       func(s *SandboxState) { s.Threads[1].NoNewPrivs = 0 },
		"launcher.seccomp.filters":    func(s *SandboxState) { s.Threads[0].SeccompFilters = 2 },
		"launcher.tracer":             func(s *SandboxState) { s.Threads[0].Tracer = 5 },
		"launcher.dumpable":           func(s *SandboxState) { s.EnvironOwner = 4711 },
		"launcher.root":               func(s *SandboxState) { s.Outline.Root++ },
		"launcher.mounts":             func(s *SandboxState) { s.Mounts[2].Options[0] = "rw" },
		"launcher.cgroup":             func(s *SandboxState) { s.Outline.Cgroup = "/" },
		"namespace.user":              func(s *SandboxState) { s.Outline.UserMap = "[]" },
		"namespace.net":               func(s *SandboxState) { s.Outline.Network++ },
		"sandbox.hostname":            func(s *SandboxState) { s.Hostname = "another" },
		"private /state":              func(s *SandboxState) { s.Mounts[1].Dev, s.Mounts[1].Root = "8:1", "/volumes" },
		"launcher.uid of nobody read": func(s *SandboxState) { s.Threads = nil },
	} {
		s := foundLauncher()
		change(&s)
		v := CheckAttached(plan, h, s, []string{"/state"})
		name, _, _ := strings.Cut(control, " of nobody")
		if !slices.ContainsFunc(v.Failed(), func(r policy.Row) bool { return r.Control == name }) {
			t.Errorf("%s: %s", control, failed(v))
		}
	}
	for _, uid := range []int{0, -1} {
		s := foundLauncher()
		s.Threads[0].UIDs, s.Threads[1].UIDs = [4]int{uid, uid, uid, uid}, [4]int{uid, uid, uid, uid}
		if v := CheckAttached(BuildAttached(h, AttachedSpec{UID: uid}, s), h, s, nil); v.Held() {
			t.Errorf("a launcher of uid %d is fit", uid)
		}
	}
	// A mount that lies over a directory of the daemon's hides it.
	s := foundLauncher()
	s.Mounts = append(s.Mounts, procfs.Mount{ID: 93, Dev: "8:1", Root: "/", Target: "/host"}, procfs.Mount{ID: 94, Dev: "0:60", Root: "/", Target: "/host/volumes/state"})
	if v := CheckAttached(BuildAttached(h, AttachedSpec{UID: 4711}, s), h, s, []string{"/state"}); !v.Held() {
		t.Errorf("hidden: %s", failed(v))
	}
}

// TestAttachedLacks: what the place hasn't got is refused by its name, and policy may accept it.
func TestAttachedLacks(t *testing.T) {
	h := attachedHost()
	found := foundLauncher()
	for i := range found.Threads {
		found.Threads[i].Bounding = 1 << 7
	}
	full := BuildAttached(h, AttachedSpec{UID: 4711, ProxyPort: 15001}, found)
	open := fixedDecision()
	open.Effective.Network.Egress = []policy.EgressRule{{Action: policy.NetworkAllow, Target: "example.org"}}
	memory := fixedDecision()
	memory.Effective.Limits.MemoryBytes = 64 << 20
	for lack, test := range map[string]struct {
		decision policy.Decision
		sandbox  SandboxPlan
	}{
		"capabilities.bounding": {fixedDecision(), full},
		"network.destination":   {open, BuildAttached(h, AttachedSpec{UID: 4711, ProxyPort: 15001}, foundLauncher())},
		"cgroup.memory":         {memory, attachedPlan(h)},
	} {
		_, err := Build(test.decision, h, test.sandbox, Profiles{})
		var refused *RefusedError
		if !errors.As(err, &refused) || refused.Lack != lack || refused.HowTo == "" {
			t.Errorf("%s: %v", lack, err)
		}
		test.decision.Accept = []string{lack}
		plan, err := Build(test.decision, h, test.sandbox, Profiles{})
		if err != nil || !slices.ContainsFunc(plan.Degraded, func(text string) bool { return strings.HasPrefix(text, lack+": ") }) {
			t.Errorf("%s accepted: %v %v", lack, plan.Degraded, err)
		}
	}
	_, err := Build(open, h, attachedPlan(h), Profiles{})
	var refused *RefusedError
	if !errors.As(err, &refused) || refused.Lack != "network.fence" || !strings.Contains(refused.HowTo, "NET_ADMIN") {
		t.Errorf("no way out: %v", err)
	}
}

// TestCheckOpaque: a child that may not be traced is held against what everybody may read of it.
func TestCheckOpaque(t *testing.T) {
	h := attachedHost()
	plan := mustBuild(t, fixedDecision(), h, attachedPlan(h))
	example := heldAs(t, fixedHost(), fixedSandbox())
	outline := foundLauncher().Outline
	e, s := example.expect, example.gate
	e.Outline, s.Outline, s.Opaque = outline, outline, true
	s.Namespaces, s.FDs, s.Root, s.RootID, s.Cwd, s.Exe, s.ExeID, s.Cgroup, e.Cgroup = nil, nil, "", "", "", "", "", "", ""
	of := func(v policy.Verdict, control string) policy.Row {
		i := slices.IndexFunc(v.Rows, func(r policy.Row) bool { return r.Control == control })
		if i < 0 {
			t.Fatalf("no row %s", control)
		}
		return v.Rows[i]
	}
	for control, change := range map[string]func(*State){
		"namespaces.mnt (root mount)": func(s *State) { s.Outline.Root++ },
		"namespaces.net (net/dev)":    func(s *State) { s.Outline.Network++ },
		"namespaces.pid (depth)":      func(s *State) { s.Outline.Depth++ },
		"namespaces.user (uid_map)":   func(s *State) { s.Outline.UserMap = "[]" },
		"cgroup (not ours to make)":   func(s *State) { s.Outline.Cgroup = "/elsewhere" },
	} {
		if row := of(Check(plan, e, s), control); !row.Held || row.Evidence != policy.EvidenceKernel {
			t.Errorf("%+v", row)
		}
		changed := s
		change(&changed)
		if of(Check(plan, e, changed), control).Held || of(CheckStarted(plan, e, changed), control).Held {
			t.Errorf("%s changed, and holds", control)
		}
	}
	for _, control := range []string{"fd", "exe", "cwd"} {
		if row := of(Check(plan, e, s), control); !row.Held || row.Evidence != policy.EvidenceReport {
			t.Errorf("%+v", row)
		}
		fewer := e
		fewer.StepsWalked--
		if of(Check(plan, fewer, s), control).Held {
			t.Errorf("%s holds with a step missing", control)
		}
	}
}
