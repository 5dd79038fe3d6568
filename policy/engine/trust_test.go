package engine

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sys/unix"
)

// The main thread is kept for the main goroutine: a thread that has entered another namespace ends with its goroutine, and the main one can't end.
func init() { runtime.LockOSThread() }

// policyDir is a directory with one file, that nobody else may write.
func policyDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "policy")
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "exec"), 0o755), os.WriteFile(filepath.Join(dir, "exec", "main.rego"), []byte("package x\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// projected is a directory as the kubelet projects a ConfigMap: mode 0777, a generation, and links of mode 0777 to what is in it.
func projected(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "policy")
	generation := filepath.Join(dir, "..2026_12_01_06_52_28.1234567890")
	if err := errors.Join(
		os.MkdirAll(generation, 0o755), os.WriteFile(filepath.Join(generation, "main.rego"), []byte("package x\n"), 0o644),
		os.Symlink(filepath.Base(generation), filepath.Join(dir, "..data")), os.Symlink("..data/main.rego", filepath.Join(dir, "main.rego")),
	); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestTrust(t *testing.T) {
	main := func(dir string) string { return filepath.Join(dir, "exec", "main.rego") }
	for name, row := range map[string]struct {
		dir    func(*testing.T) string
		change func(dir string) error
		want   string // of the error; empty: it is trusted
		root   bool
	}{
		"as it should be":           {policyDir, func(string) error { return nil }, "", false},
		"a file all may write":      {policyDir, func(dir string) error { return os.Chmod(main(dir), 0o666) }, "exec/main.rego has mode 0666", false},
		"a file the group may":      {policyDir, func(dir string) error { return os.Chmod(main(dir), 0o664) }, "exec/main.rego has mode 0664", false},
		"a folder all may write":    {policyDir, func(dir string) error { return os.Chmod(filepath.Dir(main(dir)), 0o757) }, "exec has mode 0757", false},
		"the directory itself":      {policyDir, func(dir string) error { return os.Chmod(dir, 0o775) }, "policy has mode 0775", false},
		"one above it":              {policyDir, func(dir string) error { return os.Chmod(filepath.Dir(dir), 0o777) }, "above it, ", false},
		"one above it, sticky":      {policyDir, func(dir string) error { return os.Chmod(filepath.Dir(dir), 0o777|os.ModeSticky) }, "", false},
		"another's file":            {policyDir, func(dir string) error { return os.Chown(main(dir), 61_501, 0) }, "exec/main.rego belongs to uid 61501", true},
		"another's directory":       {policyDir, func(dir string) error { return os.Chown(dir, 61_501, 0) }, "policy belongs to uid 61501", true},
		"another's, above":          {policyDir, func(dir string) error { return os.Chown(filepath.Dir(dir), 61_501, 0) }, "belongs to uid 61501", true},
		"a link to another's":       {policyDir, func(dir string) error { return linkTo(dir, 61_501, 0o644) }, "belongs to uid 61501", true},
		"a link to an open file":    {policyDir, func(dir string) error { return linkTo(dir, -1, 0o646) }, "link.rego has mode 0646", false},
		"a link out of the folder":  {policyDir, func(dir string) error { return linkTo(dir, -1, 0o644) }, "", false},
		"a ConfigMap":               {projected, func(string) error { return nil }, "", false},
		"a ConfigMap, writable":     {projected, func(dir string) error { return os.Chmod(dir, 0o777) }, "policy has mode 0777", false},
		"a ConfigMap's open file":   {projected, func(dir string) error { return os.Chmod(filepath.Join(dir, "main.rego"), 0o666) }, "main.rego has mode 0666", false},
		"what isn't of the bundle":  {policyDir, func(dir string) error { return os.WriteFile(filepath.Join(dir, ".swp"), nil, 0o600) }, "", false},
		"a directory that is gone":  {policyDir, os.RemoveAll, "no such file", false},
		"a generation that is gone": {projected, func(dir string) error { return os.RemoveAll(filepath.Join(dir, "..2026_12_01_06_52_28.1234567890")) }, "no such file", false},
	} {
		t.Run(name, func(t *testing.T) {
			if row.root && os.Geteuid() != 0 {
				t.Skip("needs root, to give files to others")
			}
			dir := row.dir(t)
			if err := row.change(dir); err != nil {
				t.Fatal(err)
			}
			_, err := Inspect(dir)
			if _, read := readDirectory(dir); (read == nil) != (err == nil) {
				t.Errorf("inspected: %v, read: %v", err, read)
			}
			if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
				t.Errorf("%v, want %q", err, row.want)
			}
			if row.want != "" && row.want != "no such file" && !strings.Contains(err.Error(), "chmod") && !strings.Contains(err.Error(), "chown") {
				t.Errorf("%v doesn't say what to do", err)
			}
		})
	}
}

func linkTo(dir string, uid int, mode os.FileMode) error {
	elsewhere := filepath.Join(filepath.Dir(dir), "elsewhere.rego")
	return errors.Join(
		os.WriteFile(elsewhere, []byte("package y\n"), 0o644), os.Chmod(elsewhere, mode), os.Chown(elsewhere, uid, -1),
		os.Symlink(elsewhere, filepath.Join(dir, "link.rego")),
	)
}

// TestUntrustedPolicy: a daemon doesn't start with a policy that others may write, and goes on with the last good one when it becomes so.
func TestUntrustedPolicy(t *testing.T) {
	dir := policyDir(t)
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "mode 0777") {
		t.Errorf("opened with %v", err)
	}
	running := t.TempDir()
	writeBundle(t, running, withoutNumbers(t))
	e, reloads := watched(t, running, Options{Poll: 50 * time.Millisecond})
	good := e.Status()
	// Who may write there has written: a policy that would be good, were it anybody's to trust.
	if err := os.Chmod(running, 0o777); err != nil {
		t.Fatal(err)
	}
	writeBundle(t, running, fstest.MapFS{"data.json": lowered(t)["data.json"]})
	status := next(t, reloads)
	for status.Revision == good.Revision && !strings.Contains(status.Error, "mode 0777") { // the mode and the file are two changes
		status = next(t, reloads)
	}
	if !status.Stale || status.Revision != good.Revision || !strings.Contains(status.Error, "mode 0777") {
		t.Errorf("want the last good one and why, got %+v", status)
	}
	if decision := e.Decide(t.Context(), shorter()); !decision.Allow || decision.Revision != good.Revision {
		t.Errorf("the last good policy doesn't judge: %+v", decision)
	}
	if err := os.Chmod(running, 0o755); err != nil {
		t.Fatal(err)
	}
	for status = next(t, reloads); status.Stale; status = next(t, reloads) {
		if status.Revision != good.Revision {
			t.Fatalf("in force meanwhile: %+v", status)
		}
	}
	wantDenied(t, e.Decide(t.Context(), shorter()), "limits.maximum")
}

// mounted does something in a mount namespace of its own, on a thread that ends with it.
func mounted(t *testing.T, do func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount")
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked
		err := errors.Join(unix.Unshare(unix.CLONE_NEWNS|unix.CLONE_FS), unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
		if err == nil {
			do()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// TestPinned: of mounts that the kernel really has, those are told that will never show an update.
func TestPinned(t *testing.T) {
	generation := func(dir string) string { return filepath.Join(dir, "..2026_12_01_06_52_28.1234567890") }
	for name, row := range map[string]struct {
		source, on func(volume, dir string) string
		want       string
	}{
		"no mount":              {nil, nil, ""},
		"the whole volume":      {func(volume, _ string) string { return volume }, func(_, dir string) string { return dir }, ""},
		"a subPath of a folder": {func(volume, _ string) string { return generation(volume) }, func(_, dir string) string { return dir }, "subPath"},
		"a subPath of a file":   {func(volume, _ string) string { return generation(volume) + "/main.rego" }, func(_, dir string) string { return dir + "/exec/main.rego" }, "subPath"},
		"a file by itself": {func(_, dir string) string { return filepath.Dir(dir) + "/one.rego" },
			func(_, dir string) string { return dir + "/exec/main.rego" }, "mounted by itself"},
	} {
		t.Run(name, func(t *testing.T) {
			volume, dir := projected(t), policyDir(t)
			if err := os.WriteFile(filepath.Join(filepath.Dir(dir), "one.rego"), []byte("package z\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			mounted(t, func() {
				if row.source != nil {
					if err := unix.Mount(row.source(volume, dir), row.on(volume, dir), "", unix.MS_BIND, ""); err != nil {
						t.Error(err)
						return
					}
				}
				warnings, err := Inspect(dir)
				if got := strings.Join(warnings, "; "); err != nil || row.want == "" && got != "" || !strings.Contains(got, row.want) || row.want != "" && len(warnings) != 1 {
					t.Errorf("%q, %v; want %q", warnings, err, row.want)
				}
			})
		})
	}
}

// TestReadOnlyMount: by a mount that is read-only nobody writes, whatever the mode says: so are ConfigMaps mounted, whose directory has mode 0777.
func TestReadOnlyMount(t *testing.T) {
	dir := projected(t)
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	mounted(t, func() {
		if _, err := Inspect(dir); err == nil {
			t.Error("writable and trusted")
		}
		if err := errors.Join(unix.Mount(dir, dir, "", unix.MS_BIND, ""), unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")); err != nil {
			t.Error(err)
			return
		}
		if err := os.WriteFile(filepath.Join(dir, "evil.rego"), nil, 0o644); !errors.Is(err, unix.EROFS) {
			t.Errorf("written: %v", err)
		}
		if warnings, err := Inspect(dir); err != nil || len(warnings) != 0 {
			t.Errorf("read-only: %v, %q", err, warnings)
		}
	})
}

func FuzzPinnedMounts(f *testing.F) {
	f.Add("36 35 98:0 / /p rw - ext4 /dev/sda rw\n", "/p")
	f.Add(`36 35 98:0 /v/..2026_12_01_06_52_28.1/main.rego /p/a\040b rw - ext4 /dev/sda rw`, "/p")
	f.Add(`36 35 98:0 /v//deleted /p\134 rw - ext4 \04`, `/p\`)
	f.Fuzz(func(t *testing.T, mountinfo, dir string) {
		for _, warning := range pinnedMounts(mountinfo, dir) {
			if !strings.HasPrefix(warning, dir) {
				t.Errorf("%q of %q", warning, dir)
			}
		}
	})
}
