package mount

import (
	"encoding/json/v2"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// The test program applies a root in namespaces of its own when it has this name.
const applyName = "apply"

func TestMain(m *testing.M) {
	switch os.Args[0] {
	case applyName:
		os.Exit(applyHere())
	case coveredName:
		os.Exit(coveredHere())
	}
	os.Exit(m.Run())
}

// coveredName is the test program as a host that has something mounted beneath a directory that is shown.
const coveredName = "covered"

// coveredHere mounts a tmpfs over a directory with a secret, in a mount namespace of its own, and has a root with that directory made: once with
// the same privilege, and once in a user namespace, where the kernel refuses to show what the mount covers.
func coveredHere() int {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		fmt.Println(err)
		return 1
	}
	dir := os.Args[1]
	if err := unix.Mount("over", dir+"/sub", "tmpfs", unix.MS_NOEXEC, ""); err != nil {
		fmt.Println(err)
		return 1
	}
	sources, err := Sources([]string{dir})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	root := small()
	for _, s := range sources {
		if s.For == "" {
			continue
		}
		fmt.Println("source", s.Use, s.Path, s.Options)
		kind := map[string]string{Show: TypeBind, Sub: TypeSub}[s.Use]
		root.Mounts = append(root.Mounts, Mount{Target: s.Path, Type: kind, Source: s.Path, Dir: true, Options: []string{"nodev", "nosuid", "ro"}})
	}
	root.Files = []File{}
	for _, flags := range []uintptr{0, unix.CLONE_NEWUSER} {
		out, err := applyWith(root, flags)
		fmt.Printf("%s%v\n", out, err)
	}
	return 0
}

// TestApplyShowsNothingCovered: what the host has mounted beneath a shown directory comes along, with options of its own and ours.
func TestApplyShowsNothingCovered(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes the mount that covers")
	}
	dir, err := os.MkdirTemp("/var/tmp", "sandboxd-covered")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(dir+"/sub", 0o755)); err != nil {
		t.Fatal(err)
	}
	command := exec.Command("/proc/self/exe", dir)
	command.Args[0] = coveredName
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text := string(out)
	if !strings.Contains(text, "source show "+dir+" []\n") || !strings.Contains(text, "source sub "+dir+"/sub [noexec]\n") {
		t.Errorf("sources: %s", text)
	}
	// Each of the two roots has both rows.
	for target, options := range map[string]string{dir: " ro,nosuid,nodev,relatime - ", dir + "/sub": " ro,nosuid,nodev,noexec,relatime - "} {
		if n := strings.Count(text, " "+target+options); n != 2 {
			t.Errorf("%s with%sin %d of 2 roots:\n%s", target, options, n, text)
		}
	}
}

// applyHere takes the root from standard input and prints the mount table as it then is.
func applyHere() int {
	var root Root
	if err := json.UnmarshalRead(os.Stdin, &root); err != nil {
		fmt.Println(err)
		return 1
	}
	unix.Umask(0)
	if err := Apply(root, -1, -1); err != nil {
		fmt.Println(err)
		return 1
	}
	if table, err := os.ReadFile("/proc/self/mountinfo"); err == nil {
		os.Stdout.Write(table)
	}
	for _, f := range root.Files {
		data, err := os.ReadFile(f.Path)
		fmt.Printf("%s=%s %v\n", f.Path, data, err)
	}
	fmt.Println("up", os.Chdir(".."), up())
	return 0
}

// up says what is above the root: nothing but itself.
func up() bool {
	var root, above unix.Stat_t
	return errors.Join(unix.Stat("/", &root), unix.Stat("/../..", &above)) == nil && root.Ino == above.Ino && root.Dev == above.Dev
}

// apply runs applyHere in new namespaces; as an ordinary user with a user namespace in which this test has an id of its own.
func apply(t *testing.T, root Root) (string, error) {
	t.Helper()
	flags := uintptr(0)
	if os.Geteuid() != 0 {
		flags = unix.CLONE_NEWUSER
	}
	return applyWith(root, flags)
}

func applyWith(root Root, flags uintptr) (string, error) {
	input, err := json.Marshal(root)
	if err != nil {
		return "", err
	}
	command := exec.Command("/proc/self/exe")
	command.Args[0] = applyName
	command.Stdin = strings.NewReader(string(input))
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | flags}
	if flags != 0 {
		command.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		command.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	out, err := command.CombinedOutput()
	return string(out), err
}

// small is a root with one mount of each type.
func small() Root {
	tmpfs := func(target string, options ...string) Mount {
		return Mount{Target: target, Type: TypeTmpfs, Dir: true, Options: options, Size: 1 << 20, Inodes: 64, Mode: 0o755}
	}
	quiet := []string{"nodev", "noexec", "nosuid"}
	return Root{
		Mounts: []Mount{
			tmpfs("/", "nosuid", "ro"),
			{Target: "/usr", Type: TypeBind, Source: "/usr", Dir: true, Options: []string{"nodev", "nosuid", "ro"}},
			{Target: "/proc", Type: TypeProc, Dir: true, Options: quiet},
			{Target: "/proc/version", Type: TypeMask, Source: "/dev/null", Options: []string{"ro"}},
			{Target: "/proc/fs", Type: TypeMask, Dir: true, Options: []string{"ro"}, Size: 65536, Inodes: 2, Mode: 0o555},
			{Target: "/proc/sys", Type: TypeSelf, Root: "/sys", Dir: true, Options: []string{"ro"}},
			tmpfs("/a/b", "nodev"),
			{Target: "/a/b/zero", Type: TypeBind, Source: "/dev/zero", Device: true, Options: []string{"ro"}},
		},
		Files:    []File{{Path: "/etc/deep/name", Content: "content", Mode: 0o444}},
		Symlinks: []Symlink{{Path: "/etc/link", Target: "deep"}},
		FIFOs:    []string{"/fifo"},
	}
}

func TestApply(t *testing.T) {
	out, err := apply(t, small())
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var targets []string
	for line := range strings.Lines(out) {
		if fields := strings.Fields(line); len(fields) > 9 {
			targets = append(targets, fields[4])
			if fields[6] != "-" {
				t.Errorf("not private: %s", line)
			}
		}
	}
	want := []string{"/", "/usr", "/proc", "/proc/version", "/proc/fs", "/proc/sys", "/a/b", "/a/b/zero"}
	targets = slices.DeleteFunc(targets, func(s string) bool { return strings.HasPrefix(s, "/usr/") }) // what this host mounts there
	if !slices.Equal(targets, want) {
		t.Errorf("mounted %v, want %v", targets, want)
	}
	if !strings.Contains(out, "/etc/deep/name=content <nil>\n") || !strings.Contains(out, "up <nil> true\n") {
		t.Error(out)
	}
}

// TestApplyRefuses: a plan that can't be made as it stands is an error that names the place.
func TestApplyRefuses(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*Root)
		want   string
	}{
		{"no root", func(r *Root) { r.Mounts = r.Mounts[1:] }, "the first mount of a root"},
		{"nothing", func(r *Root) { r.Mounts = nil }, "the first mount of a root"},
		{"unlimited tmpfs", func(r *Root) { r.Mounts[6].Size = 0 }, "/a/b"},
		{"unlimited files", func(r *Root) { r.Mounts[6].Inodes = 0 }, "/a/b"},
		{"unknown option", func(r *Root) { r.Mounts[1].Options = []string{"rox"} }, `"rox"`},
		{"unknown type", func(r *Root) { r.Mounts[1].Type = "overlay" }, "/usr"},
		{"source through a link", func(r *Root) { r.Mounts[1].Source = "/proc/self/root/usr" }, "/proc/self/root/usr"},
		{"a file for a directory", func(r *Root) { r.Mounts[1].Source = "/etc/passwd" }, "/usr"},
		{"a mask of another device", func(r *Root) { r.Mounts[3].Source = "/dev/zero" }, "/proc/version"},
		{"a mask of a file", func(r *Root) { r.Mounts[3].Source = "/etc/passwd" }, "/proc/version"},
		{"a device that is a file", func(r *Root) { r.Mounts[7].Source = "/etc/passwd" }, "/a/b/zero"},
		{"a target behind a link", func(r *Root) { r.Mounts[7].Target = "/proc/self/cwd/zero" }, "/proc/self/cwd"},
		{"a file twice", func(r *Root) { r.Files = append(r.Files, r.Files[0]) }, "/etc/deep/name"},
		{"a file behind a link", func(r *Root) { r.Files = append(r.Files, File{Path: "/proc/self/cwd/x"}) }, "/proc/self/cwd"},
		{"a file below a bind", func(r *Root) { r.Files = append(r.Files, File{Path: "/usr/sandboxd-test-file"}) }, "/usr/sandboxd-test-file"},
	} {
		root := small()
		test.change(&root)
		out, err := apply(t, root)
		if err == nil || !strings.Contains(out, test.want) {
			t.Errorf("%s: %v, %q, want an error that has %s", test.name, err, out, test.want)
		}
	}
}
