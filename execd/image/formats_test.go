package image

import (
	"bytes"
	"io"
	"io/fs"
	"testing"
)

// inMemory are files that lie nowhere.
type inMemory struct{ parts }

func (m inMemory) open(name string) (io.ReadCloser, error) {
	data, there := m.parts[name]
	if !there {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

func (m inMemory) has(name string) bool { return m.parts[name] != nil }

// FuzzDocuments: whatever an image says of itself, it is refused or has as many layers as digests, and each digest is one.
func FuzzDocuments(f *testing.F) {
	lower := layerOf(f, entry{name: "x", body: "x"})
	oci, docker := layout(f, Invocation{User: "1:2"}, lower), saved(f, []string{"a:1"}, Invocation{}, lower)
	f.Add(oci["index.json"], []byte(nil), docker["config.json"], "")
	f.Add([]byte(nil), docker["manifest.json"], docker["config.json"], "1")
	f.Add([]byte(`{"manifests":[{"digest":"sha256:0"}]}`), []byte(`[{}]`), []byte(`{"rootfs":{"diff_ids":[""]}}`), "x")
	f.Fuzz(func(t *testing.T, index, manifest, config []byte, tag string) {
		p := parts{"oci-layout": []byte("{}"), "index.json": index, "manifest.json": manifest, "config.json": config, "l/layer.tar": lower}
		for name, data := range oci {
			if p[name] == nil {
				p[name] = data
			}
		}
		for _, read := range []func(files, string) (*loaded, error){loadLayout, loadSaved} {
			image, err := read(inMemory{p}, tag)
			if err != nil {
				continue
			}
			if len(image.layers) != len(image.config.RootFS.DiffIDs) || checkDigest(image.digest) != nil {
				t.Errorf("%d layers with %d digests, as %q", len(image.layers), len(image.config.RootFS.DiffIDs), image.digest)
			}
			for _, one := range image.layers {
				if checkDigest(one.diff) != nil || one.blob != "" && checkDigest(one.blob) != nil {
					t.Errorf("digests %q and %q", one.diff, one.blob)
				}
			}
		}
	})
}

func TestFindUser(t *testing.T) {
	const passwd = "# who\nroot:x:0:0::/root:/bin/sh\napp:x:1000:1001::/:/bin/sh\nbroken:x:one:1\ntoor:x:0:0::/:/bin/sh\nshort\n"
	const group = "root:x:0:\nstaff:x:50:app\n"
	for said, want := range map[string][2]int64{ // 0: nobody is said
		"": {}, "root": {}, "0": {}, "0:50": {}, "toor": {}, "root:staff": {},
		"app": {1000, 1001}, "1000": {1000, 1001}, "app:staff": {1000, 50}, "app:7": {1000, 7}, "7": {7, 0}, "7:8": {7, 8}, "7:staff": {7, 50}, "app:0": {1000, 0},
	} {
		uid, gid, err := findUser(said, passwd, group)
		var got [2]int64
		if uid != nil {
			got[0] = *uid
		}
		if gid != nil {
			got[1] = *gid
		}
		if err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", said, got, err, want)
		}
	}
	for _, said := range []string{"nobody", "-1", "app:nogroup", "app:-1", "99999999999", "broken", "1:2:3"} {
		if uid, gid, err := findUser(said, passwd, group); err == nil {
			t.Errorf("%q is %v:%v", said, uid, gid)
		}
	}
}
