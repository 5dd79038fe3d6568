package mount

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// layer makes the tmpfs of an overlay, puts it where the image has a place for it, and fills the upper layer with all that the root has of ours: files,
// links, and what is mounted on. A name in an upper layer hides whatever the image has under it, so that nothing is made through a link of the image.
// The mount is seen in this namespace alone, and goes with the old root.
func (b *builder) layer(r Root, owners int) error {
	over := r.Mounts[0]
	if over.RootUID != 0 || over.RootGID != 0 {
		if err := giveAway(over, owners); err != nil {
			return fmt.Errorf("owners: %w", err)
		}
	}
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

// giveAway mounts the image's files on themselves once more, with the owners that the user namespace maps theirs to (mount_setattr(2), "ID-mapped mounts"):
// in this namespace, and for nobody else.
func giveAway(over Mount, owners int) error {
	lower, err := openNoLinks(unix.AT_FDCWD, over.Source+OverlayLower)
	if err != nil {
		return err
	}
	defer unix.Close(lower)
	made, err := mapped(lower, owners)
	if err != nil {
		return err
	}
	defer unix.Close(made)
	return move(made, lower, "")
}

// mapped is a detached mount of a directory, read-only, with owners by a user namespace.
func mapped(dir, owners int) (int, error) {
	made, err := unix.OpenTree(dir, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		return -1, fmt.Errorf("open_tree: %w", err)
	}
	attributes := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP | unix.MOUNT_ATTR_RDONLY, Userns_fd: uint64(owners)}
	if err := unix.MountSetattr(made, "", unix.AT_EMPTY_PATH, &attributes); err != nil {
		unix.Close(made)
		return -1, fmt.Errorf("mount_setattr: %w", err)
	}
	return made, nil
}

// MapsOwners says why a directory's file system can't have other owners by a user namespace. Nothing is mounted anywhere for it.
func MapsOwners(dir string, owners int) error {
	fd, err := openNoLinks(unix.AT_FDCWD, dir)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	made, err := mapped(fd, owners)
	if err != nil {
		return err
	}
	return unix.Close(made)
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
