package cgroup

import "testing"

func TestLayout(t *testing.T) {
	unified := Mount{Type: "cgroup2", Root: "/", Target: "/sys/fs/cgroup", Options: []string{"rw", "nsdelegate"}}
	hybrid := Mount{Type: "cgroup2", Root: "/", Target: "/sys/fs/cgroup/unified", Options: []string{"rw"}}
	memory := Mount{Type: "cgroup", Root: "/", Target: "/sys/fs/cgroup/memory", Options: []string{"rw", "memory"}}
	systemd := Mount{Type: "cgroup", Root: "/", Target: "/sys/fs/cgroup/systemd", Options: []string{"rw", "name=systemd"}}
	disk := Mount{Type: "ext4", Root: "/", Target: "/", Options: []string{"rw", "memory"}}
	for _, test := range []struct {
		name   string
		mounts []Mount
		want   string
		target string
	}{
		{"nothing mounted", []Mount{disk}, LayoutNone, ""},
		{"version 2 only", []Mount{disk, unified}, LayoutV2, "/sys/fs/cgroup"},
		{"controllers on version 1", []Mount{memory, systemd, hybrid}, LayoutHybrid, "/sys/fs/cgroup/unified"},
		{"a named hierarchy holds no controller", []Mount{systemd, hybrid}, LayoutV2, "/sys/fs/cgroup/unified"},
		{"version 1 only", []Mount{memory}, LayoutV1, ""},
	} {
		got, mount := layout(test.mounts)
		target := ""
		if mount != nil {
			target = mount.Target
		}
		if got != test.want || target != test.target {
			t.Errorf("%s: %s at %q, want %s at %q", test.name, got, target, test.want, test.target)
		}
	}
}

func TestDirectory(t *testing.T) {
	for _, test := range []struct {
		root, group, want string
		ok                bool
	}{
		{"/", "/", "/cg", true},
		{"/", "/a/b", "/cg/a/b", true},
		{"/a", "/a", "/cg", true},
		{"/a", "/a/b", "/cg/b", true},
		{"/a", "/ab", "", false},
		{"/a", "/", "", false},
		{"/", "/../other", "", false}, // a process of another cgroup namespace
	} {
		got, ok := directory(Mount{Root: test.root, Target: "/cg"}, test.group)
		if ok != test.ok || ok && got != test.want {
			t.Errorf("%s in a mount of %s: %q, %v; want %q, %v", test.group, test.root, got, ok, test.want, test.ok)
		}
	}
}

func TestName(t *testing.T) {
	if got := Name(12, 34, 56); got != "sandboxd-12-34-56" {
		t.Fatal(got)
	}
	if pid, start, namespace, ok := parseName(Name(12, 34, 56)); !ok || pid != 12 || start != 34 || namespace != 56 {
		t.Errorf("%d %d %d %v", pid, start, namespace, ok)
	}
	for _, other := range []string{"sandboxd-12", "sandboxd-12-34", "sandboxd-12-34-56x", "sandboxd-012-34-56", "sandboxd--1-34-56", "sandboxd-0-1-2", "system.slice", ""} {
		if _, _, _, ok := parseName(other); ok {
			t.Errorf("%q is taken for one of ours", other)
		}
	}
}

func TestFieldAndPopulated(t *testing.T) {
	for data, want := range map[string]string{"populated 1\nfrozen 0\n": "1", "frozen 0\npopulated 0\n": "0"} {
		some, err := populated([]byte(data))
		if err != nil || some != (want == "1") {
			t.Errorf("%q: %v, %v", data, some, err)
		}
	}
	// A missing or strange word is never "empty".
	for _, data := range []string{"", "frozen 0\n", "populated\n", "populated 2\n", "populated0\n"} {
		if _, err := populated([]byte(data)); err == nil {
			t.Errorf("%q is understood", data)
		}
	}
}
