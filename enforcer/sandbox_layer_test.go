package enforcer

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer/landlock"
	"github.com/sandboxd/sandboxd/enforcer/mount"
	"github.com/sandboxd/sandboxd/enforcer/procfs"
)

func layeredPlan(t *testing.T) SandboxPlan {
	t.Helper()
	spec := sandboxSpec()
	spec.Layered, spec.WorkBytes = true, 1<<20
	plan, err := BuildSandbox(sandboxHost(0), spec)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// Each thing that could be otherwise in a layer is a row that doesn't hold.
func TestCheckLayer(t *testing.T) {
	option := func(name, value string) func(*SandboxState) {
		return func(s *SandboxState) {
			options := &s.Mounts[0].SuperOptions
			*options = slices.DeleteFunc(slices.Clone(*options), func(o string) bool { return strings.HasPrefix(o, name) })
			if value != "" {
				*options = append(*options, value)
			}
		}
	}
	for name, test := range map[string]struct {
		change func(*SandboxState)
		want   string
	}{
		"all as planned":         {func(*SandboxState) {}, ""},
		"on something else":      {option("lowerdir=", "lowerdir=/etc"), "mount /work"},
		"two below":              {option("lowerdir=", "lowerdir=/sys/lower:/etc"), "mount /work"},
		"written below":          {option("upperdir=", "upperdir=/sys/lower"), "mount /work"},
		"another work directory": {option("workdir=", "workdir=/"), "mount /work"},
		"redirects":              {option("redirect_dir=", "redirect_dir=on"), "mount /work"},
		"content elsewhere":      {option("metacopy=", "metacopy=on"), "mount /work"},
		"no layer":               {func(s *SandboxState) { s.Mounts[0].Type = "tmpfs" }, "mount /work"},
		"the host's":             {func(s *SandboxState) { s.HostDevices["0:99"] = true }, "mount /work"},
		"setuid":                 {func(s *SandboxState) { s.Mounts[0].Options = []string{"rw", "nodev"} }, "mount /work"},
		"shared":                 {func(s *SandboxState) { s.Mounts[0].Propagation = []string{"shared:1"} }, "mount /work"},
		"the lower one too":      {func(s *SandboxState) { s.Mounts = append(s.Mounts, s.Mounts[0]) }, "mount /work"},
		"larger":                 {func(s *SandboxState) { s.LayerSize = "size=4096k nr_inodes=1024" }, "size /work"},
		"without a limit":        {func(s *SandboxState) { s.LayerSize = "" }, "size /work"},
		"somebody's":             {func(s *SandboxState) { s.Owners["/work"] = Owner{UID: 7, GID: 7, Mode: 0o1777} }, "owner /work"},
	} {
		plan := layeredPlan(t)
		work, _ := plan.Mounted("/work")
		state := SandboxState{
			LayerSize: "size=1024k nr_inodes=1024", Owners: map[string]Owner{"/work": {UID: plan.Child.UID, GID: plan.Child.GID, Mode: 0o1777}}, HostDevices: map[string]bool{},
			Mounts: []procfs.Mount{{Dev: "0:99", Root: "/", Target: "/work", Type: "overlay", Options: append([]string{"rw", "relatime"}, work.Options...),
				SuperOptions: []string{"rw", "lowerdir=/sys/lower", "upperdir=/sys/top", "workdir=/sys/work", "redirect_dir=nofollow", "uuid=on"}}},
		}
		test.change(&state)
		var r sandboxRows
		r.mounts(plan, state)
		var failed []string
		for _, row := range r.rows {
			if !row.Held && strings.HasSuffix(row.Control, " /work") {
				failed = append(failed, row.Control)
			}
		}
		if got := strings.Join(failed, " "); got != test.want {
			t.Errorf("%s: %q doesn't hold, want %q", name, got, test.want)
		}
	}
}

// A layer is written to as a work directory is, and is for root to make.
func TestBuildLayer(t *testing.T) {
	sandbox := layeredPlan(t)
	if !sandbox.Layered() || fixedSandbox().Layered() {
		t.Error("which sandbox is layered")
	}
	plan, err := Build(fixedDecision(), fixedHost(), sandbox, Profiles{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(plan.Landlock.Paths, func(r landlock.PathRule) bool {
		return r.Path == "/work" && r.Access&unix.LANDLOCK_ACCESS_FS_WRITE_FILE != 0
	}) {
		t.Errorf("%+v", plan.Landlock.Paths)
	}
	if work, _ := sandbox.Mounted("/work"); work.Type != mount.TypeLayer || work.Size != 1<<20 {
		t.Errorf("%+v", work)
	}
	spec := sandboxSpec()
	spec.Layered = true
	var refused *RefusedError
	if _, err := BuildSandbox(sandboxHost(1234), spec); !errors.As(err, &refused) || refused.Lack != "sandbox.layer" {
		t.Errorf("as an ordinary user: %v", err)
	}
}
