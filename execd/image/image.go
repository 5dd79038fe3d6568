package image

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// Image is what is known of an image that is here.
type Image struct {
	// Digest is that of its configuration, which names its layers; of a plain root that of its files. "sha256:" and hex.
	Digest string `json:"digest"`
	// Tree is the [TreeDigest] of its files as they were unpacked.
	Tree string `json:"tree"`
	// Source says where it came from, Imported when.
	Source   string    `json:"source"`
	Imported time.Time `json:"imported"`
	// Bytes are those of its regular files, Entries what its layers had together.
	Bytes   int64 `json:"bytes"`
	Entries int   `json:"entries"`
	// Dropped is what its layers had and it hasn't.
	Dropped Dropped `json:"dropped"`
	// Owners says that files have the owners of their layers; else all are of whoever imported it.
	Owners bool `json:"owners"`

	// Invocation is what it says of its use, UID and GID its user in numbers: nil where it says none, or root.
	Invocation Invocation `json:"config"`
	UID        *int64     `json:"uid,omitempty"`
	GID        *int64     `json:"gid,omitempty"`
	// Top are the directories right below its root, Passwd and Group its /etc/passwd and /etc/group.
	Top    []string `json:"top"`
	Passwd string   `json:"passwd,omitempty"`
	Group  string   `json:"group,omitempty"`

	// Directory is where it is, not written down.
	Directory string `json:"-"`
	// Names are those that mean it, sorted.
	Names []string `json:"-"`
}

// ErrUnknown says that there is no image of that name or digest.
var ErrUnknown = errors.New("no such image")

// ErrInUse says that sandboxes are made of an image, so that it can't be removed.
var ErrInUse = errors.New("sandboxes use it; delete them, or stop the daemon that keeps them ready, and try again")

// folderOf is the name of the folder of a digest, digestOfFolder the digest of a folder.
func folderOf(digest string) string { return strings.Replace(digest, ":", "-", 1) }

func digestOfFolder(folder string) (string, bool) {
	digest := strings.Replace(folder, "-", ":", 1)
	return digest, checkDigest(digest) == nil
}

// DigestOf is the digest of the image whose directory, or a part of it, a path is. It is how the read-back of a mount becomes a digest again.
func DigestOf(path string) (string, error) {
	digest, found := digestOfFolder(filepath.Base(filepath.Dir(path)))
	if !found {
		return "", fmt.Errorf("%q isn't in the directory of an image", path)
	}
	return digest, nil
}
