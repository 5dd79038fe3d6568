package enforcer

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandboxd/sandboxd/enforcer/mount"
)

// sandboxHost is a host with a bit of everything that a root is made from.
func sandboxHost(uid int) Host {
	return Host{UID: uid, GID: uid, UserNamespaces: true,
		Namespaces: map[string]uint64{"cgroup": 1, "ipc": 2, "mnt": 3, "net": 4, "pid": 5, "time": 6, "user": 7, "uts": 8},
		Sources: []mount.Source{
			{Path: "/bin", Use: mount.Show, Link: "usr/bin"},
			{Path: "/dev/null", Use: mount.Device, Dev: "0:6", Root: "/null"},
			{Path: "/opt/py", Use: mount.Show, For: "/opt/py", Dir: true, Dev: "8:1", Root: "/opt/py"},
			{Path: "/proc/acpi", Use: mount.Hide, Root: "/acpi", Dir: true},
			{Path: "/proc/keys", Use: mount.Hide, Root: "/keys"},
			{Path: "/proc/sys", Use: mount.Freeze, Root: "/sys", Dir: true},
			{Path: "/usr", Use: mount.Show, Dir: true, Dev: "8:1", Root: "/usr", Options: []string{"noexec"}},
			{Path: "/usr/local", Use: mount.Sub, Dir: true, Dev: "8:2", Root: "/"},
		}}
}

func sandboxSpec() SandboxSpec {
	return SandboxSpec{TmpBytes: 1 << 20, WorkBytes: 1 << 20, Hostname: "box",
		Worker: Identity{UID: 200000, GID: 200000}, Child: Identity{UID: 200001, GID: 200001}}
}

func buildSandbox(t *testing.T, uid int) (SandboxPlan, Host) {
	t.Helper()
	host := sandboxHost(uid)
	plan, err := BuildSandbox(host, sandboxSpec())
	if err != nil {
		t.Fatal(err)
	}
	return plan, host
}

func TestBuildSandbox(t *testing.T) {
	plan, _ := buildSandbox(t, 0)
	var got []string
	for _, m := range plan.Root.Mounts {
		got = append(got, m.Type+" "+m.Target+" "+strings.Join(m.Options, ","))
	}
	// The order of making: a parent before what lies on it, masks after /proc.
	want := []string{
		"tmpfs / nodev,nosuid,ro",
		"bind /usr nodev,noexec,nosuid,ro", // and what the host's mount has
		"sub /usr/local nodev,nosuid,ro",
		"proc /proc nodev,noexec,nosuid",
		"mask /proc/acpi nodev,noexec,nosuid,ro",
		"mask /proc/keys noexec,nosuid,ro",
		"self /proc/sys nodev,noexec,nosuid,ro",
		"tmpfs /dev nodev,noexec,nosuid,ro",
		"bind /dev/null noexec,nosuid,ro",
		"tmpfs /dev/shm nodev,noexec,nosuid",
		"tmpfs /tmp nodev,nosuid",
		"tmpfs /work nodev,nosuid",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if plan.UserNamespace() || len(plan.Degraded) != 0 {
		t.Errorf("as root: namespaces %v, degraded %v", plan.Namespaces, plan.Degraded)
	}
}

func TestBuildSandboxShowsWhatIsAsked(t *testing.T) {
	host, spec := sandboxHost(0), sandboxSpec()
	for _, test := range []struct {
		show []string
		want bool
	}{{nil, false}, {[]string{"/opt/py"}, true}, {[]string{"/opt/py/lib"}, true}, {[]string{"/usr/lib"}, false}} {
		spec.Show = test.show
		plan, err := BuildSandbox(host, spec)
		if err != nil {
			t.Fatalf("show %v: %v", test.show, err)
		}
		if _, got := plan.Mounted("/opt/py"); got != test.want {
			t.Errorf("show %v: /opt/py mounted: %t", test.show, got)
		}
	}
}

func TestBuildSandboxAsOrdinaryUser(t *testing.T) {
	plan, _ := buildSandbox(t, 4711)
	if !plan.UserNamespace() || plan.Worker.UID != InsideID || plan.Outside.UID != 4711 || plan.Child.UID != InsideID {
		t.Errorf("namespaces %v, worker %v, child %v, outside %v", plan.Namespaces, plan.Worker, plan.Child, plan.Outside)
	}
	if len(plan.Degraded) != 2 {
		t.Errorf("degraded %q", plan.Degraded)
	}
	for _, m := range plan.Root.Mounts { // 0 has no meaning in a user namespace of one id
		if m.Type == mount.TypeTmpfs && m.UID != InsideID {
			t.Errorf("%s belongs to %d", m.Target, m.UID)
		}
	}
}

func TestBuildSandboxRefuses(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*Host, *SandboxSpec)
		field  string
	}{
		{"uid 0", func(_ *Host, s *SandboxSpec) { s.Child.UID = 0 }, "sandbox.identity"},
		{"uid -1", func(_ *Host, s *SandboxSpec) { s.Child.UID = -1 }, "sandbox.identity"},
		{"uid -1 of 32 bits", func(_ *Host, s *SandboxSpec) { s.Child.UID = 1<<32 - 1 }, "sandbox.identity"},
		{"gid -1 of 16 bits", func(_ *Host, s *SandboxSpec) { s.Worker.GID = 1<<16 - 1 }, "sandbox.identity"},
		{"worker is child", func(_ *Host, s *SandboxSpec) { s.Child.UID = s.Worker.UID }, "sandbox.identity"},
		{"worker's group is child's", func(_ *Host, s *SandboxSpec) { s.Child.GID = s.Worker.GID }, "sandbox.identity"},
		{"worker with groups", func(_ *Host, s *SandboxSpec) { s.Worker.Groups = []int{27} }, "sandbox.identity"},
		{"suid_dumpable", func(h *Host, _ *SandboxSpec) { h.SuidDumpable = 1 }, "sandbox.identity"},
		{"no hostname", func(_ *Host, s *SandboxSpec) { s.Hostname = "" }, "sandbox.hostname"},
		{"hostname with a dot", func(_ *Host, s *SandboxSpec) { s.Hostname = "a.b" }, "sandbox.hostname"},
		{"hostname with a line", func(_ *Host, s *SandboxSpec) { s.Hostname = "a\nroot::0" }, "sandbox.hostname"},
		{"long hostname", func(_ *Host, s *SandboxSpec) { s.Hostname = strings.Repeat("a", 64) }, "sandbox.hostname"},
		{"unlimited tmp", func(_ *Host, s *SandboxSpec) { s.TmpBytes = 0 }, "sandbox.tmpBytes"},
		{"negative work", func(_ *Host, s *SandboxSpec) { s.WorkBytes = -1 }, "sandbox.workBytes"},
		{"show what isn't there", func(_ *Host, s *SandboxSpec) { s.Show = []string{"/srv"} }, "sandbox.show"},
		{"show like a prefix", func(_ *Host, s *SandboxSpec) { s.Show = []string{"/opt/python"} }, "sandbox.show"},
		{"two at one place", func(h *Host, s *SandboxSpec) {
			h.Sources = append(h.Sources, mount.Source{Path: "/etc/hosts", Use: mount.Show, Dev: "8:1", Root: "/etc/hosts"})
		}, "sandbox.show"},
		{"no null device", func(h *Host, _ *SandboxSpec) { h.Sources[1].Path = "/dev/zero" }, "sandbox.devices"},
		{"devices on nodev", func(h *Host, _ *SandboxSpec) { h.Sources[1].Options = []string{"nodev"} }, "sandbox.devices"},
		{"no user namespace", func(h *Host, _ *SandboxSpec) { h.UID, h.UserNamespaces = 1, false }, "sandbox"},
	} {
		host, spec := sandboxHost(0), sandboxSpec()
		test.change(&host, &spec)
		_, err := BuildSandbox(host, spec)
		var refused *RefusedError
		if !errors.As(err, &refused) || refused.Field != test.field || refused.HowTo == "" {
			t.Errorf("%s: %v, want a refusal of %s", test.name, err, test.field)
		}
	}
}
