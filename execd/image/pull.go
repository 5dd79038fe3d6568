package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// CheckReference says whether a text names an image of a registry by its digest: "registry.example/app@sha256:…". A tag may mean another image tomorrow,
// and a registry says what it means; a digest is held against every byte that comes.
func CheckReference(text string) error {
	_, err := reference(text)
	return err
}

// IsReference says whether a text is meant as such a name, right or wrong: no path is.
func IsReference(text string) bool {
	return strings.Contains(text, "@") && !strings.HasPrefix(text, "/")
}

func reference(text string) (name.Digest, error) {
	found, err := name.NewDigest(text, name.StrictValidation)
	if err != nil {
		return name.Digest{}, fmt.Errorf("%q: want an image of a registry by its digest, such as registry.example/app@sha256:…: %w", cut(text), err)
	}
	if err := checkDigest(found.DigestStr()); err != nil {
		return name.Digest{}, err
	}
	return found, nil
}

// fetch asks a registry for an image. Nobody's credentials are used. Layers come when they are unpacked, and nothing else of them is kept.
func (s *Store) fetch(ctx context.Context, text string) (*loaded, error) {
	named, err := reference(text)
	if err != nil {
		return nil, err
	}
	remoteImage, err := remote.Image(named, remote.WithContext(ctx), remote.WithAuth(authn.Anonymous), remote.WithPlatform(v1.Platform{OS: "linux", Architecture: architecture}))
	if err != nil {
		return nil, err
	}
	manifest, err := remoteImage.Manifest()
	if err != nil {
		return nil, err
	}
	if manifest.Config.Size > mostDocument {
		return nil, fmt.Errorf("a configuration of %d bytes", manifest.Config.Size)
	}
	var left = s.limits.Bytes
	for _, one := range manifest.Layers {
		if left -= one.Size; one.Size < 0 || left < 0 {
			return nil, fmt.Errorf("its compressed layers have more than %d bytes", s.limits.Bytes)
		}
	}
	data, err := remoteImage.RawConfigFile()
	if err != nil {
		return nil, err
	}
	image := &loaded{digest: digestOf(data)}
	if said := manifest.Config.Digest.String(); image.digest != said {
		return nil, fmt.Errorf("the digest of its configuration is %s, not %s", image.digest, said)
	}
	if image.config, err = readConfig(data, len(manifest.Layers)); err != nil {
		return nil, err
	}
	for i, one := range manifest.Layers {
		image.layers = append(image.layers, layer{blob: one.Digest.String(), diff: image.config.RootFS.DiffIDs[i], open: func() (io.ReadCloser, error) {
			remoteLayer, err := remoteImage.LayerByDigest(one.Digest)
			if err != nil {
				return nil, err
			}
			return remoteLayer.Compressed()
		}})
	}
	return image, nil
}

// Pull is [Store.Import] of an image of a registry; the order's path is its reference. One that came from there before is here already: a digest is the
// same wherever it is asked for.
func (s *Store) Pull(ctx context.Context, o Order) (Image, error) {
	if err := CheckReference(o.Path); err != nil {
		return Image{}, err
	}
	if o.Tag != "" {
		return Image{}, errors.New("a digest means one image; there is no tag beside it")
	}
	all, err := s.List()
	if err != nil {
		return Image{}, err
	}
	for _, one := range all {
		if one.Source == o.Path {
			return one, s.name(o.Name, one.Digest)
		}
	}
	return s.bring(ctx, o, func(string) (*found, error) {
		image, err := s.fetch(ctx, o.Path)
		return &found{image: image}, err
	})
}
