package image

import (
	"archive/tar"
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// seen is all that a directory has, by name, as a test can compare it.
func seen(t testing.TB, dir string) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		switch {
		case entry.IsDir():
			name += "/"
		case entry.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			name += " -> " + target
		case entry.Type().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			name += "=" + string(data)
		default:
			name += " " + entry.Type().String()
		}
		list = append(list, name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// unpackLayers unpacks layers into a directory whose surroundings are watched: a file beside it and one above must stay as they are, and nothing may come.
func unpackLayers(t *testing.T, limits Limits, layers ...[]byte) ([]string, Dropped, error) {
	t.Helper()
	around := t.TempDir()
	dir := filepath.Join(around, "a", "root")
	for _, name := range []string{"a/root", "secret/dir"} {
		if err := os.MkdirAll(filepath.Join(around, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"victim", "a/victim", "secret/key"} {
		if err := os.WriteFile(filepath.Join(around, name), []byte("mine"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	outside := func() []string {
		return slices.DeleteFunc(seen(t, around), func(name string) bool { return strings.HasPrefix(name, "a/root/") })
	}
	before := outside()
	root, err := openRoot(dir, os.Geteuid() == 0)
	if err != nil {
		t.Fatal(err)
	}
	defer root.close()
	u := newUnpacking(root, limits)
	for i, data := range layers {
		if err = u.layer(bytes.NewReader(data)); err != nil {
			t.Logf("layer %d: %v", i, err)
			break
		}
	}
	if err == nil {
		err = u.finish()
	}
	if after := outside(); !slices.Equal(before, after) {
		t.Errorf("outside of the root:\n%q, was\n%q", after, before)
	}
	return seen(t, dir), u.dropped, err
}

// TestLayersStayInside: each layer tries to get out, or to have something made that gives power. What is made is said, or that it is refused.
func TestLayersStayInside(t *testing.T) {
	// Where a link that isn't kept inside would lead a file to, for a moment.
	escaped := filepath.Join(os.TempDir(), "sandboxd-victim")
	t.Cleanup(func() { os.Remove(escaped) })
	link := func(name, to string) entry { return entry{name: name, link: to, kind: tar.TypeSymlink} }
	hard := func(name, to string) entry { return entry{name: name, link: to, kind: tar.TypeLink} }
	file := func(name string) entry { return entry{name: name, body: "theirs"} }
	for name, test := range map[string]struct {
		layers  [][]entry
		want    []string
		refused string
		dropped Dropped
	}{
		"dots":                          {layers: [][]entry{{file("../victim")}}, refused: `".."`},
		"dots in the middle":            {layers: [][]entry{{file("a/../../victim")}}, refused: `".."`},
		"dots that stay":                {layers: [][]entry{{file("a/../b")}}, refused: `".."`},
		"an absolute name":              {layers: [][]entry{{file("/victim")}}, want: []string{"victim=theirs"}},
		"a link up, and through":        {layers: [][]entry{{link("up", "../.."), file("up/victim")}}, want: []string{"up -> ../..", "victim=theirs"}},
		"an absolute link, and through": {layers: [][]entry{{link("l", os.TempDir()), file("l/sandboxd-victim")}}, refused: "mkdirat"},
		"a link to /, and through":      {layers: [][]entry{{{name: "d/"}, link("l", "/d"), file("l/victim")}}, want: []string{"d/", "d/victim=theirs", "l -> /d"}},
		"through a link of the layer below": {
			layers: [][]entry{{link("etc", "../../secret")}, {file("etc/key")}}, refused: "mkdirat"},
		"a chain of links": {layers: [][]entry{{{name: "d/"}, link("a", "b"), link("b", "../../../d"), file("a/x")}},
			want: []string{"a -> b", "b -> ../../../d", "d/", "d/x=theirs"}},
		"a loop of links":            {layers: [][]entry{{link("a", "b"), link("b", "a"), file("a/x")}}, refused: "symbolic links"},
		"a link in a file's place":   {layers: [][]entry{{link("x", "/../../victim"), file("x")}}, want: []string{"x=theirs"}},
		"a link in a folder's place": {layers: [][]entry{{link("x", "../../secret"), {name: "x/"}, file("x/key")}}, want: []string{"x/", "x/key=theirs"}},
		"a hard link outside":        {layers: [][]entry{{hard("x", "../../victim")}}, refused: `".."`},
		"a hard link by /":           {layers: [][]entry{{hard("x", "/victim")}}, refused: "no such file"},
		"a hard link through a link": {layers: [][]entry{{link("up", "../.."), hard("x", "up/victim")}}, refused: "no such file"},
		"a hard link to a folder":    {layers: [][]entry{{{name: "d/"}, hard("x", "d")}}, refused: "no file"},
		"a hard link to a link":      {layers: [][]entry{{link("l", "../../victim"), hard("x", "l"), file("x")}}, want: []string{"l -> ../../victim", "x=theirs"}},
		"a hard link to itself":      {layers: [][]entry{{file("x"), hard("x", "x")}}, want: []string{"x=theirs"}},
		"a hard link":                {layers: [][]entry{{file("x"), hard("d/y", "x")}}, want: []string{"d/", "d/y=theirs", "x=theirs"}},
		"devices": {layers: [][]entry{{{name: "sda", kind: tar.TypeBlock}, {name: "mem", kind: tar.TypeChar}, {name: "p", kind: tar.TypeFifo}}},
			dropped: Dropped{Devices: 3}},
		"a device in a file's place": {layers: [][]entry{{file("x")}, {{name: "x", kind: tar.TypeChar}}}, dropped: Dropped{Devices: 1}},
		"setuid, setgid and a folder's": {layers: [][]entry{{{name: "su", body: "x", mode: 0o4755}, {name: "sg", body: "x", mode: 0o2755}, {name: "d/", mode: 0o2775}}},
			want: []string{"d/", "sg=x", "su=x"}, dropped: Dropped{Setuid: 3}},
		"attributes": {layers: [][]entry{{{name: "cap", body: "x", xattr: "security.capability"}, {name: "d/", xattr: "trusted.overlay.opaque"}, {name: "r/", xattr: "user.overlay.redirect"}}},
			want: []string{"cap=x", "d/", "r/"}, dropped: Dropped{Attributes: 3}},
		"an unknown kind":       {layers: [][]entry{{{name: "x", kind: 'Q'}}}, refused: "kind"},
		"an empty name":         {layers: [][]entry{{{name: "", body: "x"}}}, refused: "0 bytes"},
		"the root as a file":    {layers: [][]entry{{{name: ".", body: "x"}}}, refused: "directory"},
		"the root as a device":  {layers: [][]entry{{{name: ".", kind: tar.TypeChar}}}, refused: "directory"},
		"the root as a link":    {layers: [][]entry{{link("/", "/etc")}}, refused: "directory"},
		"a name with a line":    {layers: [][]entry{{file("a\nb")}}, want: []string{"a\nb=theirs"}},
		"a long part":           {layers: [][]entry{{file(strings.Repeat("n", 256))}}, refused: "256 bytes"},
		"deep":                  {layers: [][]entry{{file(strings.Repeat("d/", 257) + "x")}}, refused: "256 directories"},
		"the same name twice":   {layers: [][]entry{{{name: "x", body: "first"}, {name: "x", body: "second"}}}, want: []string{"x=second"}},
		"a folder, then a file": {layers: [][]entry{{{name: "x/"}, file("x/y"), file("x")}}, want: []string{"x=theirs"}},

		"a whiteout":                      {layers: [][]entry{{file("d/x"), file("d/y")}, {{name: "d/.wh.x"}}}, want: []string{"d/", "d/y=theirs"}},
		"a whiteout of a folder":          {layers: [][]entry{{file("d/x/y/z"), file("k")}, {{name: "d/.wh.x"}}}, want: []string{"d/", "k=theirs"}},
		"a whiteout of a link":            {layers: [][]entry{{link("l", "../../secret")}, {{name: ".wh.l"}}}},
		"a whiteout through a link":       {layers: [][]entry{{link("l", "../../secret")}, {{name: "l/.wh.key"}}}, want: []string{"l -> ../../secret"}},
		"a whiteout of ..":                {layers: [][]entry{{file("x")}, {{name: ".wh..."}}}, refused: "no name"},
		"a whiteout of the folder itself": {layers: [][]entry{{file("d/x")}, {{name: "d/.wh.."}}}, refused: "no name"},
		"a whiteout of no name":           {layers: [][]entry{{{name: ".wh."}}}, refused: "no name"},
		"a whiteout of aufs":              {layers: [][]entry{{{name: ".wh..wh.plnk"}}}, refused: "no standard"},
		"a whiteout before its like":      {layers: [][]entry{{file("x/old")}, {{name: ".wh.x"}, file("x/new")}}, want: []string{"x/", "x/new=theirs"}},
		"a whiteout after its like":       {layers: [][]entry{{file("x/old")}, {file("x/new"), {name: ".wh.x"}}}, want: []string{"x/", "x/new=theirs"}},
		"opaque":                          {layers: [][]entry{{file("d/x"), file("d/y/z")}, {{name: "d/"}, {name: "d/.wh..wh..opq"}, file("d/n")}}, want: []string{"d/", "d/n=theirs"}},
		"opaque, last":                    {layers: [][]entry{{file("d/x"), file("d/y/z")}, {file("d/y/n"), {name: "d/.wh..wh..opq"}}}, want: []string{"d/", "d/y/", "d/y/n=theirs"}},
		"opaque through a link":           {layers: [][]entry{{link("l", "../../secret")}, {{name: "l/.wh..wh..opq"}}}, want: []string{"l -> ../../secret"}},
		"opaque at the root":              {layers: [][]entry{{file("x"), file("d/y")}, {{name: ".wh..wh..opq"}, file("n")}}, want: []string{"n=theirs"}},
	} {
		t.Run(name, func(t *testing.T) {
			var layers [][]byte
			for _, entries := range test.layers {
				layers = append(layers, layerOf(t, entries...))
			}
			got, dropped, err := unpackLayers(t, smallLimits, layers...)
			if test.refused != "" {
				if err == nil || !strings.Contains(err.Error(), test.refused) {
					t.Errorf("error %v, want one of %q", err, test.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("made %q, want %q", got, test.want)
			}
			if dropped != test.dropped {
				t.Errorf("dropped %+v, want %+v", dropped, test.dropped)
			}
		})
	}
}

// TestUnpackedBits: no file on the disk has a bit or an attribute that its layer would have liked.
func TestUnpackedBits(t *testing.T) {
	s := openStore(t, smallLimits)
	layer := layerOf(t, entry{name: "su", body: "x", mode: 0o6755}, entry{name: "shut", body: "x", mode: 0o1000}, entry{name: "d/", mode: 0o3000},
		entry{name: "cap", body: "x", mode: 0o755, xattr: "security.capability"})
	made := importOf(t, s, layout(t, Invocation{}, layer).folder(t))
	for name, want := range map[string]uint32{"su": 0o755, "shut": 0o1400, "d": 0o1700, "cap": 0o755} {
		var stat unix.Stat_t
		if err := unix.Lstat(filepath.Join(made.root(), name), &stat); err != nil || stat.Mode&0o7777 != want {
			t.Errorf("%s: mode %o, %v; want %o", name, stat.Mode&0o7777, err, want)
		}
		if n, err := unix.Llistxattr(filepath.Join(made.root(), name), nil); err == nil && n > 0 {
			t.Errorf("%s has %d bytes of extended attributes", name, n)
		}
	}
}

// TestLayersAreBounded: what a layer says of its size counts before any of it is written, and what it has counts whatever it says.
func TestLayersAreBounded(t *testing.T) {
	// A header that says 1 TiB, with nothing behind it.
	header := layerOf(t, entry{name: "x", body: ""})
	var huge bytes.Buffer
	w := tar.NewWriter(&huge)
	if err := w.WriteHeader(&tar.Header{Name: "huge", Typeflag: tar.TypeReg, Size: 1 << 40, Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	var many []entry
	for i := range 1001 {
		many = append(many, entry{name: "d/" + strings.Repeat("x", i%200+1)})
	}
	for name, layer := range map[string][]byte{
		"a terabyte":                   huge.Bytes(),
		"files of a megabyte together": layerOf(t, entry{name: "a", body: strings.Repeat("a", 600<<10)}, entry{name: "a", body: strings.Repeat("a", 600<<10)}),
		"entries":                      layerOf(t, many...),
	} {
		if _, _, err := unpackLayers(t, smallLimits, layer); err == nil || !strings.Contains(err.Error(), "more than") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := unpackLayers(t, smallLimits, header); err != nil {
		t.Error(err)
	}
	// Zeros after the end of the archive: a bomb that no file of the image has.
	bomb := append(layerOf(t), make([]byte, 64<<20)...)
	s := openStore(t, smallLimits)
	_, err := s.Import(t.Context(), Order{Name: "bomb", Path: layout(t, Invocation{}, bomb).folder(t)})
	if err == nil || !strings.Contains(err.Error(), errTooMuch.Error()) {
		t.Errorf("a bomb: %v", err)
	}
	if left := seen(t, s.dir); len(left) != 0 {
		t.Errorf("left of it: %q", left)
	}
}

// FuzzLayer: whatever a layer is, nothing outside of the root changes, and what is inside is files, directories and links only.
func FuzzLayer(f *testing.F) {
	for _, entries := range [][]entry{
		{{name: "a/"}, {name: "a/b", body: "x"}, {name: "a/.wh.b"}, {name: "l", link: "../..", kind: tar.TypeSymlink}, {name: "l/x", body: "y"}},
		{{name: "x", body: "1"}, {name: "y", link: "x", kind: tar.TypeLink}, {name: "d/.wh..wh..opq"}, {name: "dev", kind: tar.TypeChar}},
	} {
		f.Add(layerOf(f, entries...), layerOf(f, backward(entries)...))
	}
	f.Fuzz(func(t *testing.T, lower, upper []byte) {
		around := t.TempDir()
		dir := filepath.Join(around, "root")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		root, err := openRoot(dir, false)
		if err != nil {
			t.Fatal(err)
		}
		defer root.close()
		u := newUnpacking(root, Limits{Bytes: 1 << 16, Entries: 200})
		if u.layer(bytes.NewReader(lower)) == nil && u.layer(bytes.NewReader(upper)) == nil {
			if err := u.finish(); err != nil {
				t.Fatal(err)
			}
			if _, err := TreeDigest(dir); err != nil {
				t.Error(err)
			}
		}
		if left, err := os.ReadDir(around); err != nil || len(left) != 1 {
			t.Fatalf("beside the root: %v %v", left, err)
		}
		for _, name := range seen(t, dir) {
			if strings.HasSuffix(name, " D---------") || strings.HasSuffix(name, " p---------") {
				t.Errorf("made %q", name)
			}
		}
	})
}

func backward(entries []entry) []entry {
	turned := slices.Clone(entries)
	slices.Reverse(turned)
	return turned
}
