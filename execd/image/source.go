package image

import (
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json/v2"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// loaded is an image that can be unpacked: what it says of itself, and its layers from the lowest.
type loaded struct {
	// digest is that of the configuration, and so of all of the image, since that has the digests of the layers. Empty for a plain root.
	digest string
	config config
	layers []layer
}

// layer is one layer as it lies there.
type layer struct {
	open func() (io.ReadCloser, error)
	// blob is the digest of what is there, empty where nobody says; diff that of the tar in it.
	blob, diff string
}

// config is the configuration of an image (OCI image-spec 1.1, config.md) as far as it means something here; the rest is for others.
type config struct {
	Architecture string     `json:"architecture"`
	OS           string     `json:"os"`
	Config       Invocation `json:"config"`
	RootFS       struct {
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
}

// Invocation is what an image says of how it is meant to be used.
type Invocation struct {
	Env        []string `json:"Env,omitempty"`
	Entrypoint []string `json:"Entrypoint,omitempty"`
	Cmd        []string `json:"Cmd,omitempty"`
	WorkingDir string   `json:"WorkingDir,omitempty"`
	User       string   `json:"User,omitempty"`
}

// descriptor points to a blob (descriptor.md).
type descriptor struct {
	MediaType string    `json:"mediaType"`
	Digest    string    `json:"digest"`
	Size      int64     `json:"size"`
	Platform  *platform `json:"platform"`
	// Annotations has the tag that somebody gave it in a layout.
	Annotations map[string]string `json:"annotations"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

// files is where an image lies: a directory, or a tar. Names are relative, without dots.
type files interface {
	open(name string) (io.ReadCloser, error)
	has(name string) bool
}

// document reads a small file whole. want is its digest, empty where nobody says.
func document(from files, name, want string) ([]byte, error) {
	file, err := from.open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, mostDocument+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(data) > mostDocument {
		return nil, fmt.Errorf("%s: more than %d bytes", name, mostDocument)
	}
	if got := digestOf(data); want != "" && got != want {
		return nil, fmt.Errorf("%s: its digest is %s, not %s", name, got, want)
	}
	return data, nil
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return digestPrefix + hex.EncodeToString(sum[:])
}

const digestPrefix = "sha256:"

// checkDigest refuses whatever isn't "sha256:" and 64 digits: it becomes the name of a file.
func checkDigest(digest string) error {
	hexed, found := strings.CutPrefix(digest, digestPrefix)
	if !found || len(hexed) != 64 || strings.Trim(hexed, "0123456789abcdef") != "" {
		return fmt.Errorf("%q is no digest by sha256", cut(digest))
	}
	return nil
}

// blobName is where a layout has the blob of a digest.
func blobName(digest string) (string, error) {
	if err := checkDigest(digest); err != nil {
		return "", err
	}
	return "blobs/sha256/" + strings.TrimPrefix(digest, digestPrefix), nil
}

// readConfig reads what an image says of itself, and holds that it has as many layers as it says.
func readConfig(data []byte, layers int) (config, error) {
	var c config
	if err := json.Unmarshal(data, &c); err != nil {
		return c, fmt.Errorf("the image's configuration: %w", err)
	}
	if c.OS != "" && c.OS != "linux" {
		return c, fmt.Errorf("an image for %s", cut(c.OS))
	}
	if c.Architecture != "" && c.Architecture != architecture {
		return c, fmt.Errorf("an image for %s, and this machine is %s", cut(c.Architecture), architecture)
	}
	if len(c.RootFS.DiffIDs) != layers || layers > mostLayers {
		return c, fmt.Errorf("%d layers, and the configuration has the digests of %d; at most %d", layers, len(c.RootFS.DiffIDs), mostLayers)
	}
	for _, digest := range c.RootFS.DiffIDs {
		if err := checkDigest(digest); err != nil {
			return c, err
		}
	}
	return c, nil
}

// apply unpacks a layer, and then holds it against its digests: whoever calls throws everything away where they don't match.
func (l layer) apply(u *unpacking) error {
	file, err := l.open()
	if err != nil {
		return err
	}
	defer file.Close()
	blob := &hashed{reader: file, hash: sha256.New()}
	plain, err := decompress(blob)
	if err != nil {
		return err
	}
	defer plain.Close()
	diff := &hashed{reader: &bounded{plain, &u.stream}, hash: sha256.New()}
	if err := u.layer(diff); err != nil {
		return err
	}
	// What comes after the end of an archive belongs to its digest.
	if _, err := io.Copy(io.Discard, diff); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, &bounded{blob, &u.stream}); err != nil {
		return err
	}
	if got := diff.digest(); l.diff != "" && got != l.diff {
		return fmt.Errorf("the digest of its tar is %s, not %s", got, l.diff)
	}
	if got := blob.digest(); l.blob != "" && got != l.blob {
		return fmt.Errorf("its digest is %s, not %s", got, l.blob)
	}
	return nil
}

// hashed hashes what is read.
type hashed struct {
	reader io.Reader
	hash   hash.Hash
}

func (h *hashed) Read(p []byte) (int, error) {
	n, err := h.reader.Read(p)
	h.hash.Write(p[:n])
	return n, err
}

func (h *hashed) digest() string { return digestPrefix + hex.EncodeToString(h.hash.Sum(nil)) }

// bounded reads no more than is left, for all that share it.
type bounded struct {
	reader io.Reader
	left   *int64
}

var errTooMuch = errors.New("its layers have more bytes than an image may have")

func (b *bounded) Read(p []byte) (int, error) {
	if *b.left <= 0 {
		if n, err := b.reader.Read(make([]byte, 1)); n == 0 && errors.Is(err, io.EOF) {
			return 0, io.EOF
		}
		return 0, errTooMuch
	}
	n, err := b.reader.Read(p[:min(int64(len(p)), *b.left)])
	*b.left -= int64(n)
	return n, err
}

// decompress finds out by its first bytes how a stream is compressed: media types and file names are what somebody says.
func decompress(from io.Reader) (io.ReadCloser, error) {
	buffered := bufio.NewReaderSize(from, 64<<10)
	first, err := buffered.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case strings.HasPrefix(string(first), "\x1f\x8b"):
		return gzip.NewReader(buffered)
	case string(first) == "\x28\xb5\x2f\xfd":
		// One goroutine, and no more of a window than the format wants every reader to have.
		decoder, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(64<<20), zstd.WithDecoderMaxWindow(8<<20))
		if err != nil {
			return nil, err
		}
		return decoder.IOReadCloser(), nil
	}
	return uncompressed{buffered}, nil
}

// uncompressed is a stream as it came.
type uncompressed struct{ io.Reader }

func (uncompressed) Close() error { return nil }
