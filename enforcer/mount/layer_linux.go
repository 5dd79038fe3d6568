package mount

import (
	"fmt"
	"maps"

	"golang.org/x/sys/unix"
)

// makeLayer is an overlay over the mount lower, which it puts in its place. Names lead through the old root still: an overlay takes its directories by name, and only
// from mounts of the caller's namespace.
func makeLayer(m Mount, lower int) (int, error) {
	if lower < 0 {
		return -1, fmt.Errorf("there is nothing to lie on")
	}
	upper, err := makeTmpfs(m, []string{"nodev", "nosuid"})
	if err != nil {
		return -1, err
	}
	defer unix.Close(upper)
	place, err := openNoLinks(unix.AT_FDCWD, layerPlace)
	if err != nil {
		return -1, err
	}
	defer unix.Close(place)
	if err := move(upper, place, ""); err != nil {
		return -1, err
	}
	for name, mode := range map[string]uint32{overlayTop: m.Mode, overlayWork: 0o700, "/lower": 0o700} {
		if err := unix.Mkdirat(upper, name[1:], mode); err != nil {
			return -1, fmt.Errorf("mkdir %s: %w", name, err)
		}
	}
	// What the layer's own directory is like is what the upper one is.
	if err := unix.Fchownat(upper, overlayTop[1:], m.UID, m.GID, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return -1, fmt.Errorf("chown: %w", err)
	}
	if err := unix.Fchmodat(upper, overlayTop[1:], m.Mode, 0); err != nil {
		return -1, fmt.Errorf("chmod: %w", err)
	}
	if err := move(lower, upper, "lower"); err != nil {
		return -1, err
	}
	parameters := maps.Clone(LayerOptions)
	parameters["redirect_dir"] = "nofollow"
	return makeNew("overlay", writable(m.Options), parameters)
}
