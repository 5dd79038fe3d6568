package runner

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/enforcer/mount"
)

// imageDirectory is an image as the store keeps one, with files that try to be in the way of what each root has of ours.
func imageDirectory(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	root := dir + mount.OverlayLower
	for _, name := range []string{mount.OverlayUpper, mount.OverlayLower, mount.OverlayLower + "/etc", mount.OverlayLower + "/srv"} {
		if err := os.MkdirAll(dir+name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"tmp": "/srv", "work": "../../..", "etc/resolv.conf": "/srv/resolv.conf", "proc": "srv", "dev": "/etc"} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(root+"/etc/hosts", []byte("the image's"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, library := range libraries(t) {
		data, err := os.ReadFile(library)
		if err == nil {
			err = errors.Join(os.MkdirAll(filepath.Dir(root+library), 0o755), os.WriteFile(root+library, data, 0o755))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// libraries are those that this test program loads: none, but under the race detector, which is C. It is the launcher of these sandboxes.
func libraries(t *testing.T) (paths []string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("ldd", self).CombinedOutput()
	if err != nil {
		if strings.Contains(string(out), "not a dynamic executable") {
			return nil
		}
		t.Fatalf("ldd: %v\n%s", err, out)
	}
	for word := range strings.FieldsSeq(string(out)) {
		if strings.HasPrefix(word, "/") {
			paths = append(paths, word)
		}
	}
	return paths
}

// topOf are the directories at the top of an image.
func topOf(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir + mount.OverlayLower)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.IsDir() {
			names = append(names, entry.Name())
		}
	}
	return names
}

// imageConfig is a sandbox of that image.
func imageConfig(t *testing.T, dir string, writable bool) Config {
	t.Helper()
	c := testConfig(t)
	spec := testSpec()
	spec.Image = &enforcer.ImageRoot{Directory: dir, Digest: "sha256:0", Top: topOf(t, dir), Writable: writable, Bytes: 1 << 20}
	var err error
	if c.Plan, err = enforcer.BuildSandbox(c.Host, spec); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestImageRootHolds: links of an image at the places of what is ours lead nowhere, and what the kernel says of the root is as planned.
func TestImageRootHolds(t *testing.T) {
	for _, writable := range []bool{false, true} {
		t.Run(fmt.Sprintf("writable %t", writable), func(t *testing.T) {
			dir := imageDirectory(t)
			s := startSandbox(t, imageConfig(t, dir, writable))
			found := 0
			for _, row := range s.Verdict().Rows {
				if !row.Held {
					t.Errorf("%s: want %s, got %s", row.Control, row.Want, row.Got)
				}
				if row.Control == "mount /" && strings.Contains(row.Got, "lowerdir="+dir+"/root upperdir="+dir+"/upper/top ") || row.Control == "size /" || row.Control == "owner /" {
					found++
				}
			}
			if found != 3 {
				t.Errorf("%d of 3 rows say what the root is", found)
			}
			var stat unix.Stat_t
			if err := unix.Lstat(fmt.Sprintf("/proc/%d/root/etc/resolv.conf", s.PID()), &stat); err != nil || stat.Mode&unix.S_IFMT != unix.S_IFREG {
				t.Errorf("/etc/resolv.conf: %o %v, want a file of ours", stat.Mode, err)
			}
			if left, err := os.ReadDir(dir + "/upper"); err != nil || len(left) != 0 {
				t.Errorf("what a sandbox writes is seen outside of it: %v %v", left, err)
			}
			if left, err := os.ReadDir(dir + "/root/srv"); err != nil || len(left) != 0 {
				t.Errorf("the image was written to: %v %v", left, err)
			}
		})
	}
}
