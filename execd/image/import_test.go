package image

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"
)

// lower and upper are two layers of an image that has most of what images have.
func twoLayers(t testing.TB) (lower, upper []byte) {
	t.Helper()
	lower = layerOf(t, entry{name: "etc/"}, entry{name: "etc/passwd", body: "root:x:0:0::/:/bin/sh\napp:x:1234:1235::/app:/bin/sh\n", mode: 0o644},
		entry{name: "bin/", mode: 0o755}, entry{name: "bin/sh", body: "shell"}, entry{name: "gone", body: "x"}, entry{name: "lib", link: "usr/lib", kind: tar.TypeSymlink},
		entry{name: "usr/lib/"}, entry{name: "app/data", body: "x", uid: 1234})
	upper = layerOf(t, entry{name: ".wh.gone"}, entry{name: "lib/more", body: "so"})
	return lower, upper
}

var useOf = Invocation{Env: []string{"A=b"}, WorkingDir: "/app", User: "app", Entrypoint: []string{"/bin/sh"}, Cmd: []string{"-c"}}

// TestFormats: one image in each of its forms has the same files and the same digest, and says the same of its use.
func TestFormats(t *testing.T) {
	lower, upper := twoLayers(t)
	oci, docker := layout(t, useOf, lower, upper), saved(t, []string{"app:1", "app:latest"}, useOf, lower, upper)
	gz, err := os.ReadFile(docker.tar(t))
	if err != nil {
		t.Fatal(err)
	}
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	var first Image
	for name, path := range map[string]string{
		"OCI, a folder": oci.folder(t), "OCI, a tar": oci.tar(t), "saved, a tar": docker.tar(t), "saved, a folder": docker.folder(t),
		"saved, gzip": fileOf(t, gzipped(t, gz)), "saved, zstd": fileOf(t, encoder.EncodeAll(gz, nil)),
	} {
		made := importOf(t, openStore(t, smallLimits), path)
		want := []string{"app/", "app/data=x", "bin/", "bin/sh=shell", "etc/", "etc/passwd=root:x:0:0::/:/bin/sh\napp:x:1234:1235::/app:/bin/sh\n",
			"lib -> usr/lib", "usr/", "usr/lib/", "usr/lib/more=so"}
		if got := seen(t, made.root()); !slices.Equal(got, want) {
			t.Errorf("%s: %q", name, got)
		}
		if first.Digest == "" {
			first = made
		}
		if made.Digest != first.Digest || made.Tree != first.Tree {
			t.Errorf("%s: %s with the files %s; another form is %s with %s", name, made.Digest, made.Tree, first.Digest, first.Tree)
		}
		if made.Invocation.WorkingDir != "/app" || made.UID == nil || *made.UID != 1234 || made.GID == nil || *made.GID != 1235 {
			t.Errorf("%s: %+v, user %v", name, made.Invocation, made.UID)
		}
		if !slices.Equal(made.Top, []string{"app", "bin", "etc", "usr"}) || !slices.Equal(made.Names, []string{"image:1"}) {
			t.Errorf("%s: top %q, names %q", name, made.Top, made.Names)
		}
		var stat unix.Stat_t
		if err := unix.Stat(filepath.Join(made.root(), "app/data"), &stat); err != nil || made.Owners && stat.Uid != 1234 || !made.Owners && int(stat.Uid) != os.Geteuid() {
			t.Errorf("%s: app/data belongs to %d: %v", name, stat.Uid, err)
		}
		if stat.Mtim.Sec != 1_700_000_000 {
			t.Errorf("%s: app/data is of %d", name, stat.Mtim.Sec)
		}
	}
}

// TestPlainRoots: a directory and a tar of it are one image, whoever owns the files, and what is no file isn't in it.
func TestPlainRoots(t *testing.T) {
	dir := t.TempDir()
	for _, err := range []error{
		os.MkdirAll(dir+"/usr/bin", 0o755), os.WriteFile(dir+"/usr/bin/x", []byte("x"), 0o755), os.Symlink("usr/bin", dir+"/bin"),
		os.Link(dir+"/usr/bin/x", dir+"/usr/bin/y"), unix.Mkfifo(dir+"/pipe", 0o644), os.Chmod(dir+"/usr/bin/x", 0o4755|os.ModeSetuid),
		os.WriteFile(dir+"/.wh.x", []byte("a file"), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	s := openStore(t, smallLimits)
	made := importOf(t, s, dir)
	if want := []string{".wh.x=a file", "bin -> usr/bin", "usr/", "usr/bin/", "usr/bin/x=x", "usr/bin/y=x"}; !slices.Equal(seen(t, made.root()), want) {
		t.Errorf("%q", seen(t, made.root()))
	}
	if made.Digest != made.Tree || made.Dropped.Devices != 1 || made.Dropped.Setuid == 0 {
		t.Errorf("%+v", made)
	}
	packed := layerOf(t, entry{name: ".wh.x", body: "a file", mode: 0o644}, entry{name: "usr/", uid: 77}, entry{name: "usr/bin/"}, entry{name: "usr/bin/x", body: "x", uid: 77},
		entry{name: "bin", link: "usr/bin", kind: tar.TypeSymlink}, entry{name: "usr/bin/y", link: "usr/bin/x", kind: tar.TypeLink})
	again := importOf(t, s, fileOf(t, packed))
	if again.Digest != made.Digest || again.Directory != made.Directory {
		t.Errorf("the tar is %s, the directory %s", again.Digest, made.Digest)
	}
	var stat unix.Stat_t
	if err := unix.Stat(made.root()+"/usr/bin/x", &stat); err != nil || int(stat.Uid) != os.Geteuid() || stat.Mode&0o7777 != 0o755 {
		t.Errorf("%d, mode %o: %v", stat.Uid, stat.Mode, err)
	}
}

// TestImportRefuses: what isn't what it says leaves nothing.
func TestImportRefuses(t *testing.T) {
	lower, upper := twoLayers(t)
	change := func(p parts, name string, data []byte) parts { p[name] = data; return p }
	blob := func(p parts, data []byte) string {
		return "blobs/sha256/" + strings.TrimPrefix(digestOf(data), digestPrefix)
	}
	oci := layout(t, useOf, lower, upper)
	other := gzipped(t, layerOf(t, entry{name: "other", body: "x"}))
	foreign := configOf(useOf, lower)
	foreign["architecture"] = "s390x"
	windows := configOf(useOf, lower)
	windows["os"] = "windows"
	relative := useOf
	relative.WorkingDir = "../etc"
	nobody := useOf
	nobody.User = "whoever"
	one := saved(t, []string{"a:1"}, useOf, lower)
	for name, test := range map[string]struct {
		path, tag, want string
	}{
		"a blob that is another":                        {path: change(layout(t, useOf, lower, upper), blob(oci, gzipped(t, upper)), other).folder(t), want: "the digest of its tar is"},
		"a configuration that is another":               {path: change(layout(t, useOf, lower), blob(oci, must(t, configOf(useOf, lower))), []byte("{}")).folder(t), want: "its digest is"},
		"a layer that is another":                       {path: change(saved(t, nil, useOf, lower, upper), "ll/layer.tar", lower).tar(t), want: "the digest of its tar is"},
		"trailing bytes":                                {path: change(saved(t, nil, useOf, lower), "l/layer.tar", append(slices.Clone(lower), 0)).tar(t), want: "the digest of its tar is"},
		"a layer too few":                               {path: change(saved(t, nil, useOf, lower), "manifest.json", []byte(`[{"Config":"config.json","Layers":[]}]`)).tar(t), want: "0 layers"},
		"no layer there":                                {path: change(saved(t, nil, useOf, lower), "manifest.json", []byte(`[{"Config":"config.json","Layers":["x"]}]`)).tar(t), want: "not exist"},
		"a layer outside":                               {path: change(saved(t, nil, useOf, lower), "manifest.json", []byte(`[{"Config":"config.json","Layers":["../../etc/hostname"]}]`)).folder(t), want: "escapes"},
		"a configuration outside":                       {path: change(saved(t, nil, useOf, lower), "manifest.json", []byte(`[{"Config":"/etc/hostname","Layers":["l/layer.tar"]}]`)).folder(t), want: "escapes"},
		"another machine's":                             {path: change(one, "config.json", must(t, foreign)).tar(t), want: "an image for s390x"},
		"another system's":                              {path: change(saved(t, nil, useOf, lower), "config.json", must(t, windows)).tar(t), want: "an image for windows"},
		"a digest that is none":                         {path: change(saved(t, nil, useOf, lower), "config.json", []byte(`{"rootfs":{"diff_ids":["sha256:../../x"]}}`)).tar(t), want: "no digest"},
		"an index of a file outside":                    {path: change(layout(t, useOf, lower), "index.json", []byte(`{"manifests":[{"digest":"sha256:../../../../etc/hostname"}]}`)).folder(t), want: "no digest"},
		"an empty index":                                {path: change(layout(t, useOf, lower), "index.json", []byte(`{}`)).folder(t), want: "no image for linux"},
		"a manifest that is large":                      {path: change(saved(t, nil, useOf, lower), "manifest.json", bytes.Repeat([]byte(" "), mostDocument+1)).tar(t), want: "more than"},
		"a working directory":                           {path: saved(t, nil, relative, lower).tar(t), want: "isn't absolute"},
		"a user that nobody is":                         {path: saved(t, nil, nobody, lower).tar(t), want: `"whoever"`},
		"a tag that isn't there":                        {path: saved(t, []string{"a:1"}, useOf, lower).tar(t), tag: "2", want: "there are: a:1"},
		"a tag of a plain root":                         {path: t.TempDir(), tag: "2", want: "plain root"},
		"no such file":                                  {path: "/nowhere", want: "no such file"},
		"a device":                                      {path: "/dev/null", want: "neither"},
		"no tar":                                        {path: fileOf(t, bytes.Repeat([]byte("x"), 4096)), want: "not a tar"},
		"a tar that is cut":                             {path: fileOf(t, lower[:len(lower)-2500]), want: "EOF"},
		"layers that are compressed for another digest": {path: change(saved(t, nil, useOf, lower), "l/layer.tar", other).tar(t), want: "the digest of its tar is"},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, smallLimits)
			_, err := s.Import(t.Context(), Order{Name: "x", Path: test.path, Tag: test.tag})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one of %q", err, test.want)
			}
			left, err := os.ReadDir(s.dir)
			if err != nil || len(left) != 0 {
				t.Errorf("left: %v %v", left, err)
			}
		})
	}
}

func must(t testing.TB, value any) []byte {
	t.Helper()
	p := parts{}
	p.put(t, "x", value)
	return p["x"]
}

// TestSeveralImages: which one is meant must be said.
func TestSeveralImages(t *testing.T) {
	lower, upper := twoLayers(t)
	p := saved(t, nil, useOf, lower)
	p.put(t, "second.json", configOf(useOf, lower, upper))
	p["u.tar"] = upper
	p.put(t, "manifest.json", []object{{"Config": "config.json", "RepoTags": []string{"app:1"}, "Layers": []string{"l/layer.tar"}},
		{"Config": "second.json", "RepoTags": []string{"app:2"}, "Layers": []string{"l/layer.tar", "u.tar"}}})
	s := openStore(t, smallLimits)
	if _, err := s.Import(t.Context(), Order{Name: "x", Path: p.tar(t)}); err == nil || !strings.Contains(err.Error(), "several images (app:1, app:2)") {
		t.Error(err)
	}
	made, err := s.Import(t.Context(), Order{Name: "x", Path: p.tar(t), Tag: "app:2"})
	if err != nil || made.Digest != digestOf(p["second.json"]) {
		t.Errorf("%s, %v", made.Digest, err)
	}
}

// TestStore: names, what is in use, what is half there.
func TestStore(t *testing.T) {
	lower, upper := twoLayers(t)
	s := openStore(t, smallLimits)
	one := importOf(t, s, saved(t, nil, useOf, lower).tar(t))
	if _, err := s.Import(t.Context(), Order{Name: "alias", Path: saved(t, nil, useOf, lower).folder(t)}); err != nil {
		t.Fatal(err)
	}
	two, err := s.Import(t.Context(), Order{Name: "two", Path: saved(t, nil, useOf, lower, upper).tar(t)})
	if err != nil {
		t.Fatal(err)
	}
	found, err := s.Find("alias")
	if err != nil || found.Digest != one.Digest || !slices.Equal(found.Names, []string{"alias", "image:1"}) {
		t.Errorf("%s %q %v", found.Digest, found.Names, err)
	}
	if all, err := s.List(); err != nil || len(all) != 2 {
		t.Errorf("%d images: %v", len(all), err)
	}
	if _, err := s.Find("three"); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}

	// Another process, which is another store here, sees what this one uses.
	other, err := Open(s.dir, smallLimits)
	if err != nil {
		t.Fatal(err)
	}
	release, err := s.Use(two.Digest)
	if err != nil {
		t.Fatal(err)
	}
	again, err := s.Use(two.Digest)
	if err != nil {
		t.Fatal(err)
	}
	release()
	release() // once is enough
	if _, err := other.Remove("two"); !errors.Is(err, ErrInUse) {
		t.Errorf("removed in use: %v", err)
	}
	if _, err := s.Find("two"); err != nil {
		t.Error(err)
	}
	again()
	if _, err := other.Remove("two"); err != nil {
		t.Error(err)
	}
	if _, err := s.Use(two.Digest); !errors.Is(err, ErrUnknown) {
		t.Errorf("used what is gone: %v", err)
	}
	if _, err := s.Remove("alias"); err != nil {
		t.Error(err)
	}
	if _, err := s.Find("image:1"); err != nil {
		t.Errorf("went with another name: %v", err)
	}
	if err := s.Verify(one); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(one.root()+"/bin/sh", []byte("other"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := s.Verify(one); err == nil || !strings.Contains(err.Error(), "import it again") {
		t.Errorf("a changed file: %v", err)
	}
	if _, err := s.Remove(one.Digest); err != nil {
		t.Error(err)
	}
	if left := seen(t, s.dir); !slices.Equal(left, []string{"lock=", "names.json={}"}) {
		t.Errorf("left: %q", left)
	}
}

// TestSweep: what is half there goes, what somebody works on stays.
func TestSweep(t *testing.T) {
	s := openStore(t, smallLimits)
	half, held, err := s.begin()
	if err != nil {
		t.Fatal(err)
	}
	dead := filepath.Join(s.dir, newPrefix+"dead")
	unwhole := filepath.Join(s.dir, "sha256-"+strings.Repeat("0", 64))
	for _, dir := range []string{dead + "/root/d", unwhole + "/root"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(s.dir, smallLimits); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{half: true, dead: false, unwhole: false} {
		if _, err := os.Lstat(path); (err == nil) != want {
			t.Errorf("%s: %v, want it there: %t", path, err, want)
		}
	}
	held.Close()
	if _, err := Open(s.dir, smallLimits); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(s.dir); err != nil || len(left) != 0 {
		t.Errorf("left: %v %v", left, err)
	}
}

// TestOpenRefuses: who could put an image there could choose what runs.
func TestOpenRefuses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "images")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o770)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, smallLimits); err == nil || !strings.Contains(err.Error(), "nobody else may write") {
		t.Error(err)
	}
}

// TestImportIsBrokenOff: nobody waits for it any more.
func TestImportIsBrokenOff(t *testing.T) {
	lower, _ := twoLayers(t)
	s := openStore(t, smallLimits)
	ctx, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	if _, err := s.Import(ctx, Order{Name: "x", Path: saved(t, nil, useOf, lower).tar(t)}); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if left, err := os.ReadDir(s.dir); err != nil || len(left) != 0 {
		t.Errorf("left: %v %v", left, err)
	}
}
