package image

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// registryHere is a registry on the loopback, whose answers may be changed; asked counts what it was asked.
func registryHere(t *testing.T, change func(http.ResponseWriter, *http.Request) bool) (host string, asked *atomic.Int64) {
	t.Helper()
	handler := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	asked = &atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if change == nil || !change(w, r) {
			handler.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://"), asked
}

// pushed is an image of two layers in a registry, by its digest.
func pushed(t *testing.T, host string) (reference string, image v1.Image) {
	t.Helper()
	lower, upper := twoLayers(t)
	image, err := tarball.ImageFromPath(saved(t, []string{"app:1"}, useOf, lower, upper).tar(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(host + "/app:1")
	if err == nil {
		err = remote.Write(tag, image)
	}
	digest, digestErr := image.Digest()
	if err != nil || digestErr != nil {
		t.Fatal(err, digestErr)
	}
	return host + "/app@" + digest.String(), image
}

// TestPull: an image of a registry is the one that a saved tar of it is, and once it is here nobody is asked again.
func TestPull(t *testing.T) {
	host, asked := registryHere(t, nil)
	reference, _ := pushed(t, host)
	lower, upper := twoLayers(t)
	s := openStore(t, smallLimits)
	made, err := s.Pull(t.Context(), Order{Name: "app", Path: reference})
	if err != nil {
		t.Fatal(err)
	}
	same := importOf(t, openStore(t, smallLimits), saved(t, nil, useOf, lower, upper).tar(t))
	if made.Digest != same.Digest || made.Tree != same.Tree || made.Source != reference || !slices.Equal(made.Names, []string{"app"}) {
		t.Errorf("%+v, want it as %+v", made, same)
	}
	before := asked.Load()
	if again, err := s.Pull(t.Context(), Order{Name: "again", Path: reference}); err != nil || again.Digest != made.Digest || asked.Load() != before {
		t.Errorf("%v: %d requests for what is here", err, asked.Load()-before)
	}
}

// TestPullOfAnIndex takes the image for this machine.
func TestPullOfAnIndex(t *testing.T) {
	host, _ := registryHere(t, nil)
	_, image := pushed(t, host)
	other := v1.Platform{OS: "linux", Architecture: "s390x"}
	index := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: empty.Image, Descriptor: v1.Descriptor{Platform: &other}},
		mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: architecture}}})
	tag, err := name.NewTag(host + "/many:1")
	if err == nil {
		err = remote.WriteIndex(tag, index)
	}
	digest, digestErr := index.Digest()
	if err != nil || digestErr != nil {
		t.Fatal(err, digestErr)
	}
	made, err := openStore(t, smallLimits).Pull(t.Context(), Order{Name: "app", Path: host + "/many@" + digest.String()})
	if err != nil || !slices.Contains(seen(t, made.root()), "bin/sh=shell") {
		t.Error(err)
	}
}

// TestPullRefuses: what isn't named by its digest, and what a registry has changed.
func TestPullRefuses(t *testing.T) {
	lie := ""
	host, _ := registryHere(t, func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || lie == "" || !strings.Contains(r.URL.Path, lie) {
			return false
		}
		_, _ = w.Write([]byte(`{"schemaVersion":2,"lie":"` + r.URL.Path + `"}`))
		return true
	})
	reference, image := pushed(t, host)
	manifest, err := image.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ reference, lie, want string }{
		"a tag":                 {host + "/app:1", "", "by its digest"},
		"nothing":               {host + "/app", "", "by its digest"},
		"another digest":        {host + "/app@sha256:" + strings.Repeat("0", 64), "", "MANIFEST_UNKNOWN"},
		"no digest":             {host + "/app@sha256:00", "", "by its digest"},
		"another manifest":      {reference, "/manifests/", "digest"},
		"another configuration": {reference, manifest.Config.Digest.Hex, "expected size"},
		"another layer":         {reference, manifest.Layers[1].Digest.Hex, "layer 2 of 2"},
	} {
		lie = test.lie
		s := openStore(t, smallLimits)
		_, err := s.Pull(t.Context(), Order{Name: "app", Path: test.reference})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
		if left := seen(t, s.dir); len(left) != 0 {
			t.Errorf("%s: left %q", name, left)
		}
	}
	lie = ""
	s := openStore(t, Limits{Bytes: 100, Entries: 10})
	if _, err := s.Pull(t.Context(), Order{Name: "app", Path: reference}); err == nil || !strings.Contains(err.Error(), "more than 100 bytes") {
		t.Error(err)
	}
}
