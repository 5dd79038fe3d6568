package mount

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// layer makes the tmpfs of an overlay, puts it where the image has a place for it, and fills the upper layer with all that the root has of ours: files,
// links, and what is mounted on. A name in an upper layer hides whatever the image has under it, so that nothing is made through a link of the image.
// The mount is seen in this namespace alone, and goes with the old root.
func (b *builder) layer(r Root) error {
	over := r.Mounts[0]
	made, err := makeTmpfs(over, []string{"nodev", "nosuid"})
	if err != nil {
		return err
	}
	defer unix.Close(made)
	place, err := openNoLinks(unix.AT_FDCWD, over.Source+OverlayUpper)
	if err != nil {
		return err
	}
	defer unix.Close(place)
	if err := move(made, place, ""); err != nil {
		return err
	}
	for _, name := range []string{overlayTop, overlayWork} {
		if err := unix.Mkdirat(made, name[1:], over.Mode); err != nil {
			return fmt.Errorf("mkdir %s: %w", name, err)
		}
	}
	if b.root, err = unix.Openat(made, overlayTop[1:], unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return err
	}
	for _, m := range r.Mounts[1:] {
		if m.Type == TypeMask || m.Type == TypeSelf {
			continue
		}
		if err := b.makeTarget(m.Target, m.Dir); err != nil {
			return fmt.Errorf("%s: %w", m.Target, err)
		}
	}
	if err := b.fill(r); err != nil {
		return err
	}
	b.layered = true
	return unix.Close(b.root)
}

// makeOverlay is the overlay itself. Redirects are neither made nor followed: they are names in extended attributes, and an image's must mean nothing.
func makeOverlay(m Mount) (int, error) {
	parameters := OverlayOptions(m.Source)
	parameters["redirect_dir"] = "nofollow"
	if m.UserXattr {
		parameters["userxattr"] = ""
	}
	return makeNew("overlay", writable(m.Options), parameters)
}
