package enforcer

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer/mount"
	"github.com/sandboxd/sandboxd/enforcer/procfs"
)

// imagePlan is a sandbox of an image whose root can be written, as root makes it.
func imagePlan(t *testing.T, change func(*ImageRoot)) SandboxPlan {
	t.Helper()
	spec := sandboxSpec()
	spec.Image = &ImageRoot{Directory: "/state/images/sha256-0", Digest: "sha256:0", Top: []string{"etc", "proc", "tmp", "usr"}, Writable: true, Bytes: 1 << 20,
		GiveAway: true, Passwd: "app:x:1:1::/:/bin/sh"}
	if change != nil {
		change(spec.Image)
	}
	plan, err := BuildSandbox(sandboxHost(0), spec)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// imageState is what the kernel says of it when all is as planned, as far as the root goes.
func imageState(p SandboxPlan) SandboxState {
	root := p.Root.Mounts[0]
	return SandboxState{
		RootSize: "size=2048k nr_inodes=1024",
		Owners:   map[string]Owner{"/": {Mode: 0o755}},
		Mounts: []procfs.Mount{{Dev: "0:99", Root: "/", Target: "/", Type: "overlay", Options: append([]string{"rw", "relatime"}, root.Options...),
			SuperOptions: []string{"rw", "lowerdir=/state/images/sha256-0/root", "upperdir=/state/images/sha256-0/upper/top",
				"workdir=/state/images/sha256-0/upper/work", "redirect_dir=nofollow", "uuid=on"}}},
		ImageOwners: map[string][2]int{"usr": {0, p.Child.UID}, "etc": {0, 0}, "srv": {0, 0}},
		HostDevices: map[string]bool{"8:1": true},
	}
}

// failedRoot has the rows of a root that don't hold.
func failedRoot(p SandboxPlan, s SandboxState) (failed []string) {
	var r sandboxRows
	r.mounts(p, s)
	r.owners(p, s)
	for _, row := range r.rows {
		if !row.Held && strings.HasSuffix(row.Control, " /") {
			failed = append(failed, row.Control)
		}
	}
	return failed
}

// TestCheckImageRoot: each thing that could be otherwise in a root of an image is a row that doesn't hold.
func TestCheckImageRoot(t *testing.T) {
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
		"all as planned":            {func(*SandboxState) {}, ""},
		"a kernel that says less":   {option("uuid=", ""), ""},
		"another image":             {option("lowerdir=", "lowerdir=/state/images/sha256-1/root"), "mount /"},
		"two below":                 {option("lowerdir=", "lowerdir=/state/images/sha256-0/root:/etc"), "mount /"},
		"written to the disk":       {option("upperdir=", "upperdir=/var/tmp/upper"), "mount /"},
		"no upper layer":            {option("upperdir=", ""), "mount /"},
		"another work directory":    {option("workdir=", "workdir=/"), "mount /"},
		"redirects":                 {option("redirect_dir=", "redirect_dir=on"), "mount /"},
		"content elsewhere":         {option("metacopy=", "metacopy=on"), "mount /"},
		"marks of an ordinary user": {option("userxattr", "userxattr"), "mount /"},
		"an unknown option":         {option("new=", "new=1"), "mount /"},
		"another file system":       {func(s *SandboxState) { s.Mounts[0].Type = "tmpfs" }, "mount /"},
		"the host's":                {func(s *SandboxState) { s.HostDevices["0:99"] = true }, "mount /"},
		"a part of it":              {func(s *SandboxState) { s.Mounts[0].Root = "/usr" }, "mount /"},
		"setuid":                    {func(s *SandboxState) { s.Mounts[0].Options = []string{"rw", "nodev"} }, "mount /"},
		"read-only":                 {func(s *SandboxState) { s.Mounts[0].Options = append(s.Mounts[0].Options, "ro") }, "mount /"},
		"shared":                    {func(s *SandboxState) { s.Mounts[0].Propagation = []string{"shared:1"} }, "mount /"},
		"one more on top":           {func(s *SandboxState) { s.Mounts = append(s.Mounts, s.Mounts[0]) }, "mount /"},
		"larger":                    {func(s *SandboxState) { s.RootSize = "size=4096k nr_inodes=1024" }, "size /"},
		"without a limit":           {func(s *SandboxState) { s.RootSize = "size=0k nr_inodes=0" }, "size /"},
		"everybody's root":          {func(s *SandboxState) { s.Owners["/"] = Owner{Mode: 0o777} }, "owner /"},
		"not given away":            {func(s *SandboxState) { s.ImageOwners["usr"] = [2]int{0, 0} }, "owners /"},
		"another's":                 {func(s *SandboxState) { s.ImageOwners["usr"] = [2]int{7, 8} }, "owners /"},
	} {
		plan := imagePlan(t, nil)
		state := imageState(plan)
		test.change(&state)
		if got := strings.Join(failedRoot(plan, state), " "); got != test.want {
			t.Errorf("%s: %q doesn't hold, want %q", name, got, test.want)
		}
	}
	// Nobody's files change hands where the root is read-only, or where it can't be.
	for _, change := range []func(*ImageRoot){func(i *ImageRoot) { i.Writable = false }, func(i *ImageRoot) { i.GiveAway = false }} {
		if root := imagePlan(t, change).Root.Mounts[0]; root.RootUID != 0 || root.RootGID != 0 {
			t.Errorf("%+v", root)
		}
	}
}

// TestBuildImageRoot: what is the host's isn't in it, and what can't be said to the kernel is refused.
func TestBuildImageRoot(t *testing.T) {
	plan := imagePlan(t, func(i *ImageRoot) { i.Writable = false })
	for _, m := range plan.Root.Mounts {
		if m.Type == mount.TypeBind && !m.Device || m.Type == mount.TypeSub {
			t.Errorf("the host's %s is in the root of an image", m.Target)
		}
	}
	if root := plan.Root.Mounts[0]; root.Type != mount.TypeOverlay || !slices.Contains(root.Options, "ro") || plan.WritableRoot() {
		t.Errorf("%+v", root)
	}
	i := slices.IndexFunc(plan.Root.Files, func(f mount.File) bool { return f.Path == "/etc/passwd" })
	if i < 0 || !strings.HasPrefix(plan.Root.Files[i].Content, "sandbox:x:") || !strings.HasSuffix(plan.Root.Files[i].Content, "\napp:x:1:1::/:/bin/sh\n") {
		t.Error("/etc/passwd")
	}
	for _, directory := range []string{"state", "/state/../x", "/state:x", "/state,x", "/sta te", "/state\\x", "/state/\n", "/state/"} {
		spec := sandboxSpec()
		spec.Image = &ImageRoot{Directory: directory}
		if _, err := BuildSandbox(sandboxHost(0), spec); err == nil {
			t.Errorf("%q was taken", directory)
		}
	}
}

// TestReadOnlyOfAWritableRoot: an exec writes where its plan says so, by a rule for each of the image's directories and none for what lies on them; one that
// says nothing gets none, which takes Landlock.
func TestReadOnlyOfAWritableRoot(t *testing.T) {
	host, decision := fixedHost(), fixedDecision()
	decision.Effective.SecurityContext.ReadOnlyRootFilesystem = new(true)
	writes := func(p Plan) (paths []string) {
		for _, rule := range p.Landlock.Paths {
			if rule.Access&unix.LANDLOCK_ACCESS_FS_MAKE_REG != 0 {
				paths = append(paths, rule.Path)
			}
		}
		return paths
	}
	plain, err := Build(decision, host, imagePlan(t, nil), Profiles{})
	if err != nil {
		t.Fatal(err)
	}
	decision.Effective.SecurityContext.ReadOnlyRootFilesystem = new(false)
	open, err := Build(decision, host, imagePlan(t, nil), Profiles{})
	if err != nil {
		t.Fatal(err)
	}
	more := slices.DeleteFunc(writes(open), func(path string) bool { return slices.Contains(writes(plain), path) })
	if !slices.Equal(more, []string{"/etc", "/usr"}) {
		t.Errorf("may write to %q more", more)
	}
	if !plain.WritableRoot || plain.Digest() == open.Digest() {
		t.Error("the plan doesn't say it")
	}
	if _, err := Build(decision, host, imagePlan(t, func(i *ImageRoot) { i.Writable = false }), Profiles{}); err == nil {
		t.Error("a root that can't be written was taken for one that can")
	}
	decision.Effective.SecurityContext.ReadOnlyRootFilesystem = new(true)
	host.LandlockABI = 0
	decision.Accept = append(decision.Accept, "landlock")
	var refused *RefusedError
	if _, err := Build(decision, host, imagePlan(t, nil), Profiles{}); !errors.As(err, &refused) || refused.Field != "securityContext.readOnlyRootFilesystem" {
		t.Errorf("without Landlock: %v", err)
	}
}
