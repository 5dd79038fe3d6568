package procfs

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func limitsFile() string {
	text := "Limit                     Soft Limit           Hard Limit           Units     \n"
	for i, resource := range Resources {
		soft, unit := "unlimited", "bytes"
		if i%2 == 0 {
			soft = "8388608"
		}
		if i == 13 || i == 14 {
			unit = "" // nice and rtprio have none
		}
		text += pad(resource.Title, 26) + pad(soft, 21) + pad("unlimited", 21) + pad(unit, 10) + "\n"
	}
	return text
}

func pad(text string, width int) string { return text + strings.Repeat(" ", width-len(text)) }

func TestParseLimits(t *testing.T) {
	file := limitsFile()
	limits, err := ParseLimits([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	if len(limits) != 16 || limits[0] != (Limit{"cpu", 8388608, -1}) || limits[7] != (Limit{"nofile", -1, -1}) || limits[14] != (Limit{"rtprio", 8388608, -1}) {
		t.Errorf("%+v", limits)
	}
	for _, bad := range []string{
		"", "Limit\n", strings.Join(strings.SplitAfter(file, "\n")[1:], ""),
		strings.Replace(file, "Max open files ", "Max open fules ", 1),
		strings.Replace(file, "8388608", "-1     ", 1), strings.Replace(file, "8388608", "838860x", 1), strings.Replace(file, "8388608", "       ", 1),
		strings.Replace(file, "unlimited", "unlimite ", 1),
		strings.Join(strings.SplitAfter(file, "\n")[:16], ""), file + file, file + "Max more\n", strings.TrimSuffix(file, "\n"),
	} {
		if limits, err := ParseLimits([]byte(bad)); err == nil {
			t.Errorf("%q is understood: %v", bad, limits)
		}
	}
}

func TestParseMounts(t *testing.T) {
	file := `23 1 8:1 / / rw,relatime - ext4 /dev/root rw
31 23 0:28 /a\040b /mnt\011tab\134x ro,nosuid shared:1 master:2 propagate_from:3 unbindable - tmpfs tm\043pfs rw,mode=755
32 23 0:29 / /proc rw - proc  rw
33 23 0:30 /- /- rw - fuse.x - rw
`
	mounts, err := ParseMounts([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	want := []Mount{
		{ID: 23, Parent: 1, Dev: "8:1", Root: "/", Target: "/", Options: []string{"rw", "relatime"}, Type: "ext4", Source: "/dev/root", SuperOptions: []string{"rw"}},
		{ID: 31, Parent: 23, Dev: "0:28", Root: "/a b", Target: "/mnt\ttab\\x", Options: []string{"ro", "nosuid"},
			Propagation: []string{"shared:1", "master:2", "propagate_from:3", "unbindable"}, Type: "tmpfs", Source: "tm#pfs", SuperOptions: []string{"rw", "mode=755"}},
		{ID: 32, Parent: 23, Dev: "0:29", Root: "/", Target: "/proc", Options: []string{"rw"}, Type: "proc", Source: "", SuperOptions: []string{"rw"}},
		{ID: 33, Parent: 23, Dev: "0:30", Root: "/-", Target: "/-", Options: []string{"rw"}, Type: "fuse.x", Source: "-", SuperOptions: []string{"rw"}},
	}
	if diff := cmp.Diff(want, mounts); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{
		"23 1 8:1 / / rw - ext4 /dev/root rw", // no newline
		"23 1 8:1 / / rw ext4 /dev/root rw x\n", "23 1 8:1 / / rw - ext4 /dev/root\n", "23 1 8:1 / / rw - ext4 /dev/root rw more\n",
		"x 1 8:1 / / rw - ext4 /dev/root rw\n", "23 -1 8:1 / / rw - ext4 /dev/root rw\n", "23 1 8 / / rw - ext4 /dev/root rw\n", "23 1 8:x / / rw - ext4 /dev/root rw\n",
		`23 1 8:1 / /a\04 rw - ext4 /dev/root rw` + "\n", `23 1 8:1 / /a\0 rw - ext4 /dev/root rw` + "\n", `23 1 8:1 / /a\777 rw - ext4 /dev/root rw` + "\n",
		`23 1 8:1 / /a\x20 rw - ext4 /dev/root rw` + "\n", "23 1 8:1 / relative rw - ext4 /dev/root rw\n", "\n",
	} {
		if mounts, err := ParseMounts([]byte(bad)); err == nil {
			t.Errorf("%q is understood: %+v", bad, mounts)
		}
	}
}

func TestParseNamespace(t *testing.T) {
	if inode, err := ParseNamespace("mnt", "mnt:[4026531841]"); err != nil || inode != 4026531841 {
		t.Errorf("%d, %v", inode, err)
	}
	for _, bad := range []string{"", "mnt:[]", "mnt:[0]", "mnt:[1", "mnt:1]", "pid:[1]", "mnt:[-1]", "mnt:[1]x", "mnt:[18446744073709551616]", "/proc/1/ns/mnt"} {
		if inode, err := ParseNamespace("mnt", bad); err == nil {
			t.Errorf("%q is %d", bad, inode)
		}
	}
}

func TestParseCgroup(t *testing.T) {
	for file, want := range map[string]string{
		"0::/\n": "/", "0::/a b/c:d\n": "/a b/c:d", "9:name=systemd:/\n4:memory:/x\n1:cpu,cpuacct:/\n0::/y\n": "/y", "0::/gone (deleted)\n": "/gone (deleted)", "0::/../up\n": "/../up",
	} {
		if got, err := ParseCgroup([]byte(file)); err != nil || got != want {
			t.Errorf("%q: %q, %v", file, got, err)
		}
	}
	for _, bad := range []string{"", "0::/", "0::\n", "0:/\n", "4:memory:/x\n", "0::/a\n0::/b\n", "0:memory:/a\n", "x::/\n", "0::relative\n", "::/\n"} {
		if got, err := ParseCgroup([]byte(bad)); err == nil {
			t.Errorf("%q is %q", bad, got)
		}
	}
}

func TestParseStat(t *testing.T) {
	stat := "12 (a) S 1 (b)) R 1 12 12 0 -1 4194560 100 0 0 0 1 2 0 0 20 0 1 0 987654 1000 100 18446744073709551615\n"
	got, err := ParseStat([]byte(stat))
	if err != nil || got != (Stat{Flags: 4194560, StartTime: 987654}) || got.Exiting() {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := ParseStat([]byte(strings.Replace(stat, "4194560", "4194564", 1))); err != nil || !got.Exiting() {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{
		"", "12 a S 1", "12 (a) S 1 2 3", strings.Replace(stat, "987654", "x", 1), strings.Replace(stat, "4194560", "x", 1), strings.Replace(stat, "4194560", "-1", 1),
	} {
		if got, err := ParseStat([]byte(bad)); err == nil {
			t.Errorf("%q is %+v", bad, got)
		}
	}
}

func TestParseIDMap(t *testing.T) {
	rows, err := ParseIDMap([]byte("         0          0 4294967295\n      1000       1234          1\n"))
	if err != nil || len(rows) != 2 || rows[0] != [3]uint32{0, 0, 1<<32 - 1} || rows[1] != [3]uint32{1000, 1234, 1} {
		t.Errorf("%v, %v", rows, err)
	}
	for _, bad := range []string{"0 0\n", "0 0 1 1\n", "0 x 1\n", "\n", "0 0 4294967296\n"} {
		if rows, err := ParseIDMap([]byte(bad)); err == nil {
			t.Errorf("%q is %v", bad, rows)
		}
	}
}

func TestEntry(t *testing.T) {
	entry := func(name string) []byte {
		data := make([]byte, 19, 40)
		data = append(data, name...)
		data = append(data, 0)
		for len(data)%8 != 0 {
			data = append(data, 0)
		}
		data[16] = byte(len(data))
		return data
	}
	for name, want := range map[string]int{".": -1, "..": -1, "0": 0, "4194304": 4194304} {
		data := entry(name)
		if number, length, err := parseEntry(data); err != nil || number != want || length != len(data) {
			t.Errorf("%q: %d, %d, %v", name, number, length, err)
		}
	}
	long := entry("1")
	long[16] = 200
	short := entry("1")
	short[16] = 3
	for _, bad := range [][]byte{nil, make([]byte, 19), entry("x"), entry(""), long, short} {
		if number, length, err := parseEntry(bad); err == nil {
			t.Errorf("%q: %d, %d", bad, number, length)
		}
	}
}

func FuzzLimits(f *testing.F) {
	f.Add([]byte(limitsFile()))
	f.Fuzz(func(t *testing.T, data []byte) {
		if limits, err := ParseLimits(data); err == nil && len(limits) != len(Resources) {
			t.Errorf("%q: %v", data, limits)
		}
	})
}

func FuzzMounts(f *testing.F) {
	f.Add([]byte("31 23 0:28 /a\\040b /mnt ro shared:1 - tmpfs tmpfs rw\n"))
	f.Add([]byte("32 23 0:29 / /proc rw - proc  rw\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		mounts, err := ParseMounts(data)
		if err != nil {
			return
		}
		if len(mounts) != strings.Count(string(data), "\n") {
			t.Errorf("%q: %d rows", data, len(mounts))
		}
		for _, mount := range mounts {
			if !strings.HasPrefix(mount.Target, "/") || !deviceNumber(mount.Dev) {
				t.Errorf("%q: %+v", data, mount)
			}
		}
	})
}

func FuzzCgroup(f *testing.F) {
	f.Add([]byte("4:memory:/x\n0::/y\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if path, err := ParseCgroup(data); err == nil && !strings.Contains(string(data), "0::"+path+"\n") {
			t.Errorf("%q: %q", data, path)
		}
	})
}

func FuzzSmall(f *testing.F) {
	f.Add([]byte("mnt:[4026531841]"))
	f.Add([]byte("0 0 4294967295\n"))
	f.Add([]byte("12 (a) S 1 12 12 0 -1 4194560 100 0 0 0 1 2 0 0 20 0 1 0 987654 1000 100\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if inode, err := ParseNamespace("mnt", string(data)); err == nil && inode == 0 {
			t.Errorf("%q is namespace 0", data)
		}
		if _, err := ParseStat(data); err == nil && !strings.Contains(string(data), ")") {
			t.Errorf("%q is a stat", data)
		}
		if rows, err := ParseIDMap(data); err == nil && len(rows) > strings.Count(string(data), "\n")+1 {
			t.Errorf("%q: %v", data, rows)
		}
		parseEntry(data)
	})
}
