package mount

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const tableText = `22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 27 8:1 /sub\040dir /usr/local ro,nosuid,nodev,noexec,relatime shared:7 master:2 - ext4 /dev/sdb rw
31 30 0:40 / /usr/local/share rw - tmpfs tmpfs rw
32 31 0:41 / /usr/local/share rw,nosymfollow - tmpfs tmpfs rw
`

func TestParseTable(t *testing.T) {
	got, err := parseTable([]byte(tableText))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(row{id: 30, parent: 27, dev: "8:1", root: "/sub dir", target: "/usr/local",
		options: []string{"nodev", "noexec", "nosuid", "ro"}}, got[30], cmp.AllowUnexported(row{})); diff != "" {
		t.Error(diff)
	}
	if len(got) != 5 || !got.descends(got[32], 27) || got.descends(got[27], 30) {
		t.Errorf("%v", got)
	}
	for _, bad := range []string{"x\n", "a 1 8:1 / / rw - ext4 d rw\n", "1 b 8:1 / / rw - ext4 d rw\n"} {
		if _, err := parseTable([]byte(bad)); err == nil {
			t.Errorf("%q is a row", bad)
		}
	}
}

func FuzzParseTable(f *testing.F) {
	f.Add([]byte(tableText))
	f.Fuzz(func(t *testing.T, data []byte) {
		table, err := parseTable(data)
		if err != nil {
			return
		}
		for _, row := range table {
			for id := range table {
				table.descends(row, id) // ends, also when parents go in a circle
			}
		}
	})
}

func TestSources(t *testing.T) {
	sources, err := Sources(nil)
	if err != nil {
		t.Fatal(err)
	}
	byPath := map[string]Source{}
	for _, s := range sources {
		byPath[s.Path] = s
	}
	if usr := byPath["/usr"]; !usr.Dir || usr.Use != Show || usr.Dev == "" || usr.Root == "" {
		t.Errorf("/usr: %+v", usr)
	}
	if sys := byPath["/proc/sys"]; sys.Use != Freeze || sys.Root != "/sys" || !sys.Dir {
		t.Errorf("/proc/sys: %+v", sys)
	}
	for _, device := range devices {
		if s := byPath[device.path]; s.Use != Device || s.Dir {
			t.Errorf("%s: %+v", device.path, s)
		}
	}
	if !slices.IsSortedFunc(sources, func(a, b Source) int { return strings.Compare(a.Path, b.Path) }) {
		t.Error("not sorted, so a parent may come after what lies in it")
	}
	for _, path := range []string{"/home", "/root", "/etc", "/etc/shadow", "/sys", "/run", "/var"} {
		if s, shown := byPath[path]; shown {
			t.Errorf("shown by default: %+v", s)
		}
	}
}

func TestSourcesShow(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(dir, "/tmp") {
		if dir, err = os.MkdirTemp("/var/tmp", "sandboxd-sources"); err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
	}
	real, link, nested := dir+"/real", dir+"/link", dir+"/link/nested"
	if err := errors.Join(os.MkdirAll(real+"/nested", 0o755), os.Symlink("real", link)); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		show []string
		want []Source // path, for and link
	}{
		{[]string{real}, []Source{{Path: real, For: real}}},
		{[]string{link}, []Source{{Path: link, For: link, Link: real}, {Path: real, For: link}}},
		{[]string{real, real + "/nested"}, []Source{{Path: real, For: real}}},                                                    // covered
		{[]string{nested}, []Source{{Path: nested, For: nested, Link: real + "/nested"}, {Path: real + "/nested", For: nested}}}, // a link on the way
	} {
		sources, err := Sources(test.show)
		if err != nil {
			t.Fatalf("%v: %v", test.show, err)
		}
		var got []Source
		for _, s := range sources {
			if s.For != "" {
				got = append(got, Source{Path: s.Path, For: s.For, Link: s.Link})
			}
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%v: %s", test.show, diff)
		}
	}
	for _, bad := range []string{dir + "/none", "relative", dir + "/", dir + "/../x", "/", "/etc", "/proc/self", "/tmp/x", "/dev/null", "/work", "/sys"} {
		if _, err := Sources([]string{bad}); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := Sources([]string{dir + "/none"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what isn't there: %v", err)
	}
	for i, to := range []string{"/proc/1", "/etc", "/"} {
		sly := fmt.Sprint(dir, "/sly", i)
		if err := os.Symlink(to, sly); err != nil {
			t.Fatal(err)
		}
		if _, err := Sources([]string{sly}); err == nil || !strings.Contains(err.Error(), "leads to "+to) {
			t.Errorf("a link to %s: %v", to, err)
		}
	}
}

// TestSourcesHaveNoSockets: what is shown read-only can be connected to all the same.
func TestSourcesHaveNoSockets(t *testing.T) {
	dir, err := os.MkdirTemp("/var/tmp", "sandboxd-sockets")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := errors.Join(os.MkdirAll(dir+"/with/below", 0o755), os.Mkdir(dir+"/without", 0o755), os.Symlink(dir+"/with", dir+"/link")); err != nil {
		t.Fatal(err)
	}
	socket := dir + "/with/below/s"
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for _, show := range []string{dir, dir + "/with", dir + "/with/below", socket, dir + "/link", dir + "/link/below"} {
		if _, err := Sources([]string{show}); err == nil || !strings.Contains(err.Error(), show) || !strings.Contains(err.Error(), socket+" is a socket") {
			t.Errorf("%s: %v", show, err)
		}
	}
	if _, err := Sources([]string{dir + "/without"}); err != nil {
		t.Error(err)
	}
	// Where engines listen, it is refused whether one does or not.
	for path, refused := range map[string]bool{
		"/run": true, "/run/docker.sock": true, "/run/user/1000/bus": true, "/run/systemd/private": true, "/var": true, "/var/lib": true,
		dir + "/without": false, "/run/docker.sock.old": false,
	} {
		if err := withoutSockets(path); (err != nil) != refused {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestIsDevice(t *testing.T) {
	if err := isDevice("/dev/null", 1, 3); err != nil {
		t.Error(err)
	}
	link := filepath.Join(t.TempDir(), "null")
	if err := os.Symlink("/dev/null", link); err != nil {
		t.Fatal(err)
	}
	for path, minor := range map[string]uint32{"/dev/zero": 3, "/etc/passwd": 3, link: 3, "/dev": 3} {
		if isDevice(path, 1, minor) == nil {
			t.Errorf("%s is the device 1:%d", path, minor)
		}
	}
}
