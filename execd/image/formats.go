package image

import (
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"path"
	"runtime"
	"slices"
	"strings"
)

// architecture is this machine's, as images say it.
var architecture = runtime.GOARCH

// loadSaved reads the manifest of docker save and podman save: manifest.json.
func loadSaved(from files, tag string) (*loaded, error) {
	data, err := document(from, "manifest.json", "")
	if err != nil {
		return nil, err
	}
	var saved []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	if err := json.Unmarshal(data, &saved); err != nil {
		return nil, fmt.Errorf("manifest.json: %w", err)
	}
	var names []string
	found := -1
	for i, one := range saved {
		names = append(names, one.RepoTags...)
		if tag == "" || slices.ContainsFunc(one.RepoTags, func(name string) bool { return sameTag(name, tag) }) {
			if found >= 0 {
				return nil, errChoose(names)
			}
			found = i
		}
	}
	if found < 0 {
		return nil, errNoTag(tag, names)
	}
	one := saved[found]
	if data, err = document(from, path.Clean(one.Config), ""); err != nil {
		return nil, err
	}
	image := &loaded{digest: digestOf(data)}
	if image.config, err = readConfig(data, len(one.Layers)); err != nil {
		return nil, err
	}
	for i, name := range one.Layers {
		image.layers = append(image.layers, layer{diff: image.config.RootFS.DiffIDs[i], open: func() (io.ReadCloser, error) { return from.open(path.Clean(name)) }})
	}
	return image, nil
}

// sameTag says that a tag is the one that is meant: whole, or the part after the last colon.
func sameTag(name, tag string) bool { return name == tag || strings.HasSuffix(name, ":"+tag) }

func errChoose(names []string) error {
	return fmt.Errorf("several images (%s); say which by --tag", strings.Join(names[:min(len(names), 16)], ", "))
}

func errNoTag(tag string, names []string) error {
	if tag == "" {
		return errors.New("no image in it")
	}
	return fmt.Errorf("no image %q in it; there are: %s", tag, strings.Join(names[:min(len(names), 16)], ", "))
}

// Annotations of a descriptor in a layout that name it: OCI's own, and containerd's.
var tagAnnotations = []string{"org.opencontainers.image.ref.name", "io.containerd.image.name"}

// loadLayout reads an OCI layout (image-spec 1.1, image-layout.md): index.json and blobs by their digest.
func loadLayout(from files, tag string) (*loaded, error) {
	data, err := document(from, "index.json", "")
	if err != nil {
		return nil, err
	}
	manifest, err := findManifest(from, data, tag, 0)
	if err != nil {
		return nil, err
	}
	var m struct {
		Config descriptor   `json:"config"`
		Layers []descriptor `json:"layers"`
	}
	if err := json.Unmarshal(manifest, &m); err != nil {
		return nil, fmt.Errorf("the manifest: %w", err)
	}
	name, err := blobName(m.Config.Digest)
	if err != nil {
		return nil, err
	}
	if data, err = document(from, name, m.Config.Digest); err != nil {
		return nil, err
	}
	image := &loaded{digest: m.Config.Digest}
	if image.config, err = readConfig(data, len(m.Layers)); err != nil {
		return nil, err
	}
	for i, one := range m.Layers {
		name, err := blobName(one.Digest)
		if err != nil {
			return nil, err
		}
		image.layers = append(image.layers, layer{blob: one.Digest, diff: image.config.RootFS.DiffIDs[i], open: func() (io.ReadCloser, error) { return from.open(name) }})
	}
	return image, nil
}

// findManifest goes down from an index to the one manifest that is for this machine.
func findManifest(from files, index []byte, tag string, depth int) ([]byte, error) {
	if depth > deepestIndex {
		return nil, fmt.Errorf("more than %d indexes within each other", deepestIndex)
	}
	var list struct {
		Manifests []descriptor `json:"manifests"`
	}
	if err := json.Unmarshal(index, &list); err != nil {
		return nil, fmt.Errorf("index: %w", err)
	}
	var found []descriptor
	var names []string
	for _, one := range list.Manifests {
		if one.Platform != nil && (one.Platform.OS != "linux" || one.Platform.Architecture != architecture) {
			continue // another machine's, or an attestation, which has the platform unknown/unknown
		}
		matches := tag == ""
		for _, key := range tagAnnotations {
			if name := one.Annotations[key]; name != "" {
				names = append(names, name)
				matches = matches || sameTag(name, tag)
			}
		}
		if matches {
			found = append(found, one)
		}
	}
	found = slices.CompactFunc(found, func(a, b descriptor) bool { return a.Digest == b.Digest })
	switch {
	case len(found) == 0 && tag == "":
		return nil, fmt.Errorf("no image for linux/%s in it", architecture)
	case len(found) == 0:
		return nil, errNoTag(tag, names)
	case len(found) > 1:
		return nil, errChoose(names)
	}
	name, err := blobName(found[0].Digest)
	if err != nil {
		return nil, err
	}
	data, err := document(from, name, found[0].Digest)
	if err != nil {
		return nil, err
	}
	var head struct {
		Manifests []descriptor `json:"manifests"`
	}
	if err := json.Unmarshal(data, &head); err == nil && len(head.Manifests) > 0 {
		return findManifest(from, data, "", depth+1)
	}
	return data, nil
}
