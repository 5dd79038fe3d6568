package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// entry is one of a layer, in a test's words.
type entry struct {
	name, body, link string
	kind             byte // 0: a file, or a directory when the name ends in a slash
	mode             int64
	xattr            string
	uid              int
}

// layerOf is a tar of entries.
func layerOf(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Linkname: e.link, Typeflag: e.kind, Mode: e.mode, Size: int64(len(e.body)), Uid: e.uid, ModTime: time.Unix(1_700_000_000, 0)}
		if e.kind == 0 {
			h.Typeflag = tar.TypeReg
			if strings.HasSuffix(e.name, "/") {
				h.Typeflag = tar.TypeDir
			}
		}
		if h.Mode == 0 {
			h.Mode = 0o755
		}
		if e.xattr != "" {
			h.PAXRecords = map[string]string{"SCHILY.xattr." + e.xattr: "value"}
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(e.body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func gzipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// parts of an image: files by name, as a directory or a tar has them.
type parts map[string][]byte

func (p parts) put(t testing.TB, name string, value any) string {
	t.Helper()
	data, ok := value.([]byte)
	if !ok {
		var err error
		if data, err = json.Marshal(value, json.Deterministic(true)); err != nil {
			t.Fatal(err)
		}
	}
	digest := digestOf(data)
	if name == "" {
		name = "blobs/sha256/" + strings.TrimPrefix(digest, digestPrefix)
	}
	p[name] = data
	return digest
}

type object map[string]any

// configOf is the configuration of an image of these layers.
func configOf(said Invocation, layers ...[]byte) object {
	var diffs []string
	for _, layer := range layers {
		diffs = append(diffs, digestOf(layer))
	}
	return object{"architecture": architecture, "os": "linux", "config": said, "rootfs": object{"type": "layers", "diff_ids": diffs}}
}

// layout is an OCI layout, its layers compressed.
func layout(t testing.TB, said Invocation, layers ...[]byte) parts {
	t.Helper()
	p := parts{"oci-layout": []byte(`{"imageLayoutVersion":"1.0.0"}`)}
	config := p.put(t, "", configOf(said, layers...))
	descriptors := []object{}
	for _, layer := range layers {
		packed := gzipped(t, layer)
		descriptors = append(descriptors, object{"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "digest": p.put(t, "", packed), "size": len(packed)})
	}
	manifest := p.put(t, "", object{"schemaVersion": 2, "config": object{"digest": config}, "layers": descriptors})
	attestation := p.put(t, "", object{"schemaVersion": 2, "layers": []object{}})
	p.put(t, "index.json", object{"schemaVersion": 2, "manifests": []object{
		{"digest": attestation, "platform": object{"os": "unknown", "architecture": "unknown"}},
		{"digest": manifest, "platform": object{"os": "linux", "architecture": architecture}, "annotations": object{"org.opencontainers.image.ref.name": "1.0"}},
	}})
	return p
}

// saved is what docker save writes.
func saved(t testing.TB, tags []string, said Invocation, layers ...[]byte) parts {
	t.Helper()
	p := parts{}
	config := p.put(t, "config.json", configOf(said, layers...))
	_ = config
	var names []string
	for i, layer := range layers {
		name := strings.Repeat("l", i+1) + "/layer.tar"
		p.put(t, name, layer)
		names = append(names, name)
	}
	p.put(t, "manifest.json", []object{{"Config": "config.json", "RepoTags": tags, "Layers": names}})
	return p
}

func (p parts) folder(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for name, data := range p {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func (p parts) tar(t testing.TB) string {
	t.Helper()
	var entries []entry
	for name, data := range p {
		entries = append(entries, entry{name: name, body: string(data)})
	}
	return fileOf(t, layerOf(t, entries...))
}

func fileOf(t testing.TB, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image.tar")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func openStore(t testing.TB, limits Limits) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "images"), limits)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// smallLimits are enough for all images of these tests.
var smallLimits = Limits{Bytes: 1 << 20, Entries: 1000}

func importOf(t testing.TB, s *Store, path string) Image {
	t.Helper()
	made, err := s.Import(t.Context(), Order{Name: "image:1", Path: path})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func (i Image) root() string { return filepath.Join(i.Directory, rootDir) }
