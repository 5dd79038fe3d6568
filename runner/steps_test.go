package runner

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/enforcer/landlock"
	"github.com/sandboxd/sandboxd/enforcer/seccomp"
)

// fullPlan has every kind of step.
func fullPlan() enforcer.Plan {
	return enforcer.Plan{
		Identity: enforcer.Identity{UID: 200001, GID: 200001, Groups: []int{7, 8}}, SetIDs: true, SetGroups: true,
		Securebits: 0xef, DropBounding: true, LastCapability: 40, Umask: 0o22,
		RLimits:  []enforcer.RLimit{{Name: "core", Resource: unix.RLIMIT_CORE, Value: 1}, {Name: "nofile", Resource: unix.RLIMIT_NOFILE, Value: -1}},
		Landlock: landlock.For(7, []landlock.PathRule{{Path: "/", Access: landlock.Read}}, nil),
		Seccomp: seccomp.Filter{
			Program: seccomp.Program{{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ALLOW}},
			Probes:  []seccomp.Probe{{Name: "unshare", Nr: unix.SYS_UNSHARE, Errno: int(unix.EPERM)}},
		},
		Kill: enforcer.KillShepherd,
	}
}

func anyPlan(t *rapid.T) enforcer.Plan {
	p := fullPlan()
	p.SetIDs = rapid.Bool().Draw(t, "setIds")
	p.SetGroups = rapid.Bool().Draw(t, "setGroups")
	p.DropBounding = rapid.Bool().Draw(t, "dropBounding")
	p.LastCapability = rapid.IntRange(0, 63).Draw(t, "lastCapability")
	p.Identity.Groups = rapid.SliceOfN(rapid.IntRange(1, 1<<31), 0, 4).Draw(t, "groups")
	p.RLimits = p.RLimits[:rapid.IntRange(0, 2).Draw(t, "rlimits")]
	p.Landlock = landlock.For(rapid.IntRange(0, 10).Draw(t, "abi"), nil, nil)
	if rapid.Bool().Draw(t, "unconfined") {
		p.Seccomp = seccomp.Filter{}
	}
	if rapid.Bool().Draw(t, "listens") {
		p.Seccomp = p.Seccomp.Explaining()
	}
	if rapid.Bool().Draw(t, "noSecurebits") {
		p.Securebits = 0
	}
	return p
}

// The model of the order: which calls need privilege, which calls the filter leaves, and what must stand after what.
var (
	privileged = []uintptr{unix.SYS_SETGROUPS, unix.SYS_SETRESGID, unix.SYS_SETRESUID}
	// afterFilter is what every profile lets through, whatever else it refuses.
	afterFilter = []uintptr{unix.SYS_WRITE, unix.SYS_READ, unix.SYS_RT_SIGPROCMASK, unix.SYS_EXECVEAT}
	orders      = [][2]string{
		{"born", "stdio.0"}, {"stdio.2", "descriptor.gate"}, {"descriptor.target", "close_range"}, {"close_range", "setsid"},
		{"rlimit.core", "capset"}, {"rlimit.core", "setresuid"}, {"probe.capability.bounding", "seccomp"},
		{"securebits", "setresuid"}, {"setgroups", "setresgid"}, {"setresgid", "setresuid"}, {"setresuid", "capset"}, {"setresuid", "chdir"},
		{"capset", "chdir"}, {"capset", "dumpable"}, {"setresuid", "pdeathsig"}, {"pdeathsig", "parent"}, {"no_new_privs", "landlock.restrict_self"},
		{"no_new_privs", "seccomp"}, {"landlock.restrict_self", "landlock.close"}, {"landlock.restrict_self", "probe.landlock.fs"},
		{"landlock.restrict_self", "seccomp"}, {"probe.securebits", "seccomp"}, {"seccomp", "probe.seccomp.unshare"}, {"seccomp", "seccomp.listener"}, {"seccomp.listener", "probe.seccomp.unshare"},
		{"probe.seccomp.unshare", "ready"}, {"seccomp", "sigmask"}, {"probe.seccomp.unshare", "sigmask"}, {"sigmask", "ready"}, {"ready", "gate"}, {"gate", "execve"},
	}
)

func TestStepsKeepTheirOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plan := anyPlan(t)
		inv := enforcer.Invocation{Argv: []string{"a"}, Cwd: "/work", Extra: rapid.IntRange(0, maxExtra).Draw(t, "extra")}
		steps, err := Steps(plan, inv, 3)
		if err != nil {
			t.Fatal(err)
		}
		names := Names(steps)
		if doubled := len(names) - len(slices.Compact(slices.Sorted(slices.Values(names)))); doubled != 0 {
			t.Fatalf("%d names are not unique: %v", doubled, names)
		}
		for _, order := range orders {
			first, second := slices.Index(names, order[0]), slices.Index(names, order[1])
			if first >= 0 && second >= 0 && first >= second {
				t.Errorf("%s at %d, %s at %d", order[0], first, order[1], second)
			}
		}
		if names[0] != "born" || !slices.Equal(names[len(names)-4:], []string{"sigmask", "ready", "gate", "execve"}) {
			t.Errorf("begins with %s, ends with %v", names[0], names[len(names)-4:])
		}
		capset, filter := slices.Index(names, "capset"), slices.Index(names, "seccomp")
		for i, step := range steps {
			needs := slices.Contains(privileged, step.Nr) || step.Nr == unix.SYS_PRCTL && step.Args[0] == unix.PR_SET_SECUREBITS
			if needs && i > capset {
				t.Errorf("%s needs privilege and stands after capset", step.Name)
			}
			if filter >= 0 && i > filter && !step.Probe && !slices.Contains(afterFilter, step.Nr) {
				t.Errorf("%s stands after seccomp", step.Name)
			}
		}
	})
}

// The descriptors are moved in a small model of a table of files: who reads where what.
func TestStepsMoveDescriptors(t *testing.T) {
	for extra := range maxExtra + 1 {
		files := map[uint64]string{0: "worker", 1: "worker", 2: "worker", 3: "worker", 7: "worker", 200: "worker"}
		for fd, name := range map[uint64]string{sourceStdin: "stdin", sourceStdout: "stdout", sourceStderr: "stderr", sourceGate: "gate", sourceCgroup: "cgroup", sourceRules: "rules", sourceTarget: "target"} {
			files[fd] = name
		}
		want := map[uint64]string{0: "stdin", 1: "stdout", 2: "stderr", 3 + uint64(extra): "gate", 5 + uint64(extra): "target"}
		for i := range uint64(extra) {
			files[sourceExtra+i] = fmt.Sprint("extra", i)
			want[3+i] = fmt.Sprint("extra", i)
		}
		steps, err := Steps(fullPlan(), enforcer.Invocation{Argv: []string{"a"}, Cwd: "/", Extra: extra}, 3)
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range steps {
			if files[uint64(step.Gate)] != "gate" {
				t.Fatalf("extra %d: %s tells its failure to %q", extra, step.Name, files[uint64(step.Gate)])
			}
			switch step.Nr {
			case unix.SYS_DUP3:
				if step.Args[0] < 10 || step.Args[0] <= uint64(5+extra) {
					t.Errorf("extra %d: %s takes from %d, which may be a target", extra, step.Name, step.Args[0])
				}
				files[step.Args[1]] = files[step.Args[0]]
			case unix.SYS_CLOSE_RANGE:
				for fd := range files {
					if fd >= step.Args[0] && fd <= step.Args[1] {
						delete(files, fd)
					}
				}
			case unix.SYS_CLOSE:
				delete(files, step.Args[0])
			}
			if step.Name == "close_range" { // from here the worker's own are gone
				for fd, file := range files {
					if file == "worker" {
						t.Errorf("extra %d: the worker's descriptor %d is left", extra, fd)
					}
				}
			}
		}
		if fmt.Sprint(files) != fmt.Sprint(want) {
			t.Errorf("extra %d: at the gate %v, want %v", extra, files, want)
		}
	}
}

func TestStepsHaveEachProbe(t *testing.T) {
	steps, err := Steps(fullPlan(), enforcer.Invocation{Argv: []string{"a"}, Cwd: "/"}, 3)
	if err != nil {
		t.Fatal(err)
	}
	names := Names(steps)
	for _, probe := range []string{"probe.capability.bounding", "probe.securebits", "probe.landlock.fs", "probe.landlock.abstract", "probe.landlock.bind", "probe.landlock.connect", "probe.seccomp.unshare"} {
		if !slices.Contains(names, probe) {
			t.Errorf("no %s in %v", probe, names)
		}
	}
	if slices.Contains(names, "probe.landlock.signal") {
		t.Error("probe.landlock.signal although another uid is refused anyway")
	}
	plan := fullPlan()
	plan.SetIDs = false
	steps, err = Steps(plan, enforcer.Invocation{Argv: []string{"a"}, Cwd: "/"}, 3)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(Names(steps), "probe.landlock.signal") {
		t.Error("no probe.landlock.signal although the uid is the worker's")
	}
	for _, step := range steps {
		for _, memory := range step.Memory {
			if memory.Arg > 5 || memory.Bytes == nil && memory.Strings == nil && memory.Program == nil && memory.Word == noWord && step.Name != "execve" {
				t.Errorf("%s: argument %d points to nothing", step.Name, memory.Arg)
			}
		}
	}
}

func TestStepsRefuse(t *testing.T) {
	type pair struct {
		plan enforcer.Plan
		inv  enforcer.Invocation
	}
	for _, test := range []struct {
		name string
		want string
		edit func(*pair)
	}{
		{"uid 0", "uid 0", func(p *pair) { p.plan.Identity.UID = 0 }},
		{"uid -1", "uid -1", func(p *pair) { p.plan.Identity.UID = -1 }},
		{"uid -1 as the kernel has it", "uid 4294967295", func(p *pair) { p.plan.Identity.UID = 1<<32 - 1 }},
		{"gid 0", "gid 0", func(p *pair) { p.plan.Identity.GID = 0 }},
		{"gid -1", "gid -1", func(p *pair) { p.plan.Identity.GID = -1 }},
		{"uid beyond 32 bits", "uid 4294967296", func(p *pair) { p.plan.Identity.UID = 1 << 32 }},
		{"group 0", "group 0", func(p *pair) { p.plan.Identity.Groups = []int{5, 0} }},
		{"last capability", "last capability", func(p *pair) { p.plan.LastCapability = 64 }},
		{"no argv", "argv is empty", func(p *pair) { p.inv.Argv = nil }},
		{"empty argv[0]", "argv is empty", func(p *pair) { p.inv.Argv = []string{""} }},
		{"NUL in argv", "NUL byte in argv", func(p *pair) { p.inv.Argv = []string{"a", "b\x00c"} }},
		{"NUL in env", "NUL byte in env", func(p *pair) { p.inv.Env = []string{"A=\x00"} }},
		{"NUL in cwd", "NUL byte in cwd", func(p *pair) { p.inv.Cwd = "/a\x00" }},
		{"relative cwd", "isn't absolute", func(p *pair) { p.inv.Cwd = "work" }},
		{"too many extras", "extra descriptors", func(p *pair) { p.inv.Extra = maxExtra + 1 }},
		{"fewer than none", "extra descriptors", func(p *pair) { p.inv.Extra = -1 }},
	} {
		p := pair{fullPlan(), enforcer.Invocation{Argv: []string{"a"}, Cwd: "/"}}
		if _, err := Steps(p.plan, p.inv, 3); err != nil {
			t.Fatal(err)
		}
		test.edit(&p)
		_, err := Steps(p.plan, p.inv, 3)
		if !errors.Is(err, ErrTable) || !strings.Contains(fmt.Sprint(err), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
}
