package mount

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Apply makes r in the caller's mount namespace, which must be new, and makes it the root; the caller is in it, in "/", on return, and the
// old root is gone. owners is a user namespace in which 0 is RootUID and RootGID of the overlay, -1 where the plan names none; lower is
// the detached mount that a layer lies on, -1 where there is none. The caller is the only process in the namespace: nothing here can be raced from within. Its umask must be 0.
//
// The order, and what breaks otherwise:
//
//  1. "/" private, recursively: else what follows shows in the host's namespace, and what the host mounts later shows here.
//  2. The new root, a tmpfs or an overlay, on top of "/": from here every path of the sandbox is opened below its descriptor, and every path of the host
//     still from the old root, which is what "/" means to a process that was in it before.
//  3. The mounts, in the order of the plan: a parent before what lies on it. Each is made detached, gets its options while nobody can reach
//     it, and is then moved into place. Masks of /proc come after /proc, and their source is looked at once more as it is mounted.
//  4. Files, links and FIFOs, while what holds them is writable. On an overlay they are in its upper layer before it is made, with what is mounted on:
//     there an image has no link yet that could lead anywhere.
//  5. Read-only, on what is to be: from here nothing of the root changes.
//  6. pivot_root, and the old root detached: chroot alone would leave it reachable by a descriptor or by "..".
func Apply(r Root, owners, lower int) error {
	if len(r.Mounts) == 0 || r.Mounts[0].Target != "/" || r.Mounts[0].Type != TypeTmpfs && r.Mounts[0].Type != TypeOverlay {
		return fmt.Errorf("mount: the first mount of a root is a tmpfs or an overlay on /")
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make / private: %w", err)
	}
	b := builder{root: -1, lower: lower}
	defer func() { unix.Close(b.root) }()
	if r.Mounts[0].Type == TypeOverlay {
		if err := b.layer(r, owners); err != nil {
			return fmt.Errorf("layer over %s: %w", r.Mounts[0].Source, err)
		}
	}
	for _, m := range r.Mounts {
		if err := b.mount(m); err != nil {
			return fmt.Errorf("mount %s on %s: %w", m.Type, m.Target, err)
		}
	}
	if err := b.fill(r); err != nil {
		return err
	}
	for _, m := range r.Mounts {
		if (m.Type == TypeTmpfs || m.Type == TypeOverlay) && slices.Contains(m.Options, "ro") {
			if err := b.freeze(m); err != nil {
				return fmt.Errorf("make %s read-only: %w", m.Target, err)
			}
		}
	}
	return b.pivot()
}

// builder has the descriptor of the new root.
type builder struct {
	root int
	// layered says that what the root has of ours was put into an overlay's upper layer, and so is there.
	layered bool
	// lower is what a layer lies on.
	lower int
}

// mount makes one mount and puts it in its place.
func (b *builder) mount(m Mount) error {
	if m.Type == TypeSub {
		return nil // came with the mount above it, and got its options with that
	}
	made, err := b.make(m)
	if err != nil {
		return err
	}
	if m.Target == "/" {
		b.root = made
		return move(made, unix.AT_FDCWD, "/")
	}
	defer unix.Close(made)
	if m.Type != TypeMask && m.Type != TypeSelf {
		if err := b.makeTarget(m.Target, m.Dir); err != nil {
			return err
		}
	}
	target, err := b.open(m.Target, unix.O_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(target)
	return move(made, target, "")
}

// make gives a detached mount with its options set; "ro" of a tmpfs waits until it has been filled.
func (b *builder) make(m Mount) (int, error) {
	switch {
	case m.Type == TypeTmpfs:
		return makeTmpfs(m, writable(m.Options))
	case m.Type == TypeMask && m.Dir:
		return makeTmpfs(m, m.Options)
	case m.Type == TypeOverlay:
		return makeOverlay(m)
	case m.Type == TypeLayer:
		return makeLayer(m, b.lower)
	case m.Type == TypeProc:
		// hidepid: a child sees no process that it couldn't trace, so not the launcher and not the workers, whose uid or dumpable attribute differ.
		return makeNew("proc", m.Options, map[string]string{"hidepid": "invisible"})
	case m.Type == TypeBind, m.Type == TypeMask:
		source, err := openNoLinks(unix.AT_FDCWD, m.Source)
		if err != nil {
			return -1, err
		}
		return clone(source, m)
	case m.Type == TypeSelf:
		source, err := b.open(m.Target, unix.O_PATH)
		if err != nil {
			return -1, err
		}
		return clone(source, m)
	}
	return -1, fmt.Errorf("unknown type")
}

// writable are options without "ro", which waits until what is to be in it is there.
func writable(options []string) []string {
	return slices.DeleteFunc(slices.Clone(options), func(o string) bool { return o == "ro" })
}

func makeTmpfs(m Mount, options []string) (int, error) {
	if m.Size <= 0 || m.Inodes <= 0 {
		return -1, fmt.Errorf("a tmpfs of %d bytes and %d files: 0 would be no limit", m.Size, m.Inodes)
	}
	return makeNew("tmpfs", options, map[string]string{"size": fmt.Sprint(m.Size), "nr_inodes": fmt.Sprint(m.Inodes),
		"mode": fmt.Sprintf("%o", m.Mode), "uid": fmt.Sprint(m.UID), "gid": fmt.Sprint(m.GID)})
}

// makeNew is a new file system of its own superblock.
func makeNew(kind string, options []string, parameters map[string]string) (int, error) {
	attributes, err := attributes(options)
	if err != nil {
		return -1, err
	}
	context, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("fsopen: %w", err)
	}
	defer unix.Close(context)
	if err := unix.FsconfigSetString(context, "source", "sandboxd"); err != nil {
		return -1, fmt.Errorf("fsconfig source: %w", err)
	}
	for key, value := range parameters {
		set := func() error { return unix.FsconfigSetString(context, key, value) }
		if value == "" {
			set = func() error { return unix.FsconfigSetFlag(context, key) }
		}
		if err := set(); err != nil {
			return -1, fmt.Errorf("fsconfig %s=%s: %w", key, value, err)
		}
	}
	if err := unix.FsconfigCreate(context); err != nil {
		return -1, fmt.Errorf("fsconfig create: %w", err)
	}
	made, err := unix.Fsmount(context, unix.FSMOUNT_CLOEXEC, int(attributes))
	if err != nil {
		return -1, fmt.Errorf("fsmount: %w", err)
	}
	return made, nil
}

// clone is a detached bind of source, which it closes. What is checked is the descriptor that will be mounted: a name that has become
// something else since the host was probed can't get in (CVE-2025-31133: a mask that was a link to another file).
func clone(source int, m Mount) (int, error) {
	defer unix.Close(source)
	attributes, err := attributes(m.Options)
	if err != nil {
		return -1, err
	}
	flags := uint(unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_EMPTY_PATH)
	set := uint(unix.AT_EMPTY_PATH)
	if m.Type == TypeBind && m.Dir {
		flags |= unix.AT_RECURSIVE
		set |= unix.AT_RECURSIVE
	}
	made, err := unix.OpenTree(source, "", flags)
	if err != nil {
		return -1, fmt.Errorf("open_tree %s: %w", m.Source, err)
	}
	if err := verify(made, m); err != nil {
		unix.Close(made)
		return -1, err
	}
	if err := unix.MountSetattr(made, "", set, &unix.MountAttr{Attr_set: attributes, Propagation: unix.MS_PRIVATE}); err != nil {
		unix.Close(made)
		return -1, fmt.Errorf("mount_setattr: %w", err)
	}
	return made, nil
}

// verify compares the kind of a clone with the plan, and a device's number with the kernel's own.
func verify(fd int, m Mount) error {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return err
	}
	if isDir := stat.Mode&unix.S_IFMT == unix.S_IFDIR; isDir != m.Dir {
		return fmt.Errorf("%s: mode %o, want directory: %t", m.Source, stat.Mode, m.Dir)
	}
	if m.Type == TypeMask {
		null := devices[0]
		return checkDevice(m.Source, stat, null.major, null.minor)
	}
	if !m.Device {
		return nil
	}
	for _, device := range devices {
		if device.path == m.Source {
			return checkDevice(m.Source, stat, device.major, device.minor)
		}
	}
	return fmt.Errorf("%s: not one of the devices of a sandbox", m.Source)
}

// attributes are the MOUNT_ATTR_* of options. Options that aren't named are left as the source has them.
func attributes(options []string) (uint64, error) {
	var all uint64
	for _, option := range options {
		bit, ok := attributeOf[option]
		if !ok {
			return 0, fmt.Errorf("unknown option %q", option)
		}
		all |= bit
	}
	return all, nil
}

var attributeOf = map[string]uint64{
	"ro": unix.MOUNT_ATTR_RDONLY, "nosuid": unix.MOUNT_ATTR_NOSUID, "nodev": unix.MOUNT_ATTR_NODEV, "noexec": unix.MOUNT_ATTR_NOEXEC,
	"nosymfollow": unix.MOUNT_ATTR_NOSYMFOLLOW,
}

// move attaches a detached mount.
func move(made, dir int, path string) error {
	flags := unix.MOVE_MOUNT_F_EMPTY_PATH
	if path == "" {
		flags |= unix.MOVE_MOUNT_T_EMPTY_PATH
	}
	if err := unix.MoveMount(made, "", dir, path, flags); err != nil {
		return fmt.Errorf("move_mount: %w", err)
	}
	return nil
}

// freeze makes a tmpfs or an overlay read-only: its mount, not its superblock, which has no other mount.
func (b *builder) freeze(m Mount) error {
	fd, err := b.open(m.Target, unix.O_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}

// pivot makes the new root the root and forgets the old one. pivot_root(2): "new_root and put_old may be the same directory"; the old root
// is then mounted over the new one, and comes off as the topmost mount of ".".
func (b *builder) pivot() error {
	if err := unix.Fchdir(b.root); err != nil {
		return fmt.Errorf("fchdir to the new root: %w", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("detach the old root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	return nil
}

// open opens a path of the new root. No link is followed, not even one of ours: a target that lies behind one is a mistake in the plan.
func (b *builder) open(path string, flags uint64) (int, error) {
	relative := strings.TrimPrefix(path, "/")
	if relative == "" {
		relative = "."
	}
	fd, err := unix.Openat2(b.root, relative, &unix.OpenHow{Flags: flags | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		return -1, &os.PathError{Op: "openat2", Path: path, Err: err}
	}
	return fd, nil
}
