// Package mount describes and makes the file system that a sandbox sees: a root of read-only binds of system directories, an own /proc, a
// minimal /dev, and tmpfs where writing is allowed. It uses the descriptor-based mount calls (open_tree, fsopen, mount_setattr, move_mount),
// so that what was checked is what is mounted: a path is walked once, to a descriptor, and never again.
//
// [Sources] finds on the host what a root may show; [Apply] makes a [Root] in a new mount namespace and leaves the caller in it.
package mount

// The uses of a Source.
const (
	// Show: a file, directory or symlink that the sandbox sees, read-only. Sub: what is mounted beneath such a directory.
	Show = "show"
	Sub  = "sub"
	// Device: a character device whose number was compared with the kernel's own for that name.
	Device = "device"
	// Hide and Freeze are paths of /proc that this kernel has, to be masked and to be made read-only.
	Hide   = "hide"
	Freeze = "freeze"
)

// Source is a file or directory of the host that roots are made from, with what mountinfo will say of a bind of it.
type Source struct {
	Path string `json:"path"`
	// Use is one of the constants above.
	Use string `json:"use"`
	// For is the configured path that brought it in; empty: every sandbox shows it.
	For string `json:"for,omitempty"`
	// Dev is "major:minor" and Root the path within that file system, of the mount that holds Path: fields 3 and 4 of mountinfo.
	Dev  string `json:"dev"`
	Root string `json:"root"`
	Dir  bool   `json:"dir"`
	// Options are those of that mount which a bind inherits, among "ro", "nosuid", "nodev", "noexec", "nosymfollow".
	Options []string `json:"options,omitempty"`
	// Link is the target when Path is a symlink (then nothing is mounted: the root gets the same link).
	Link string `json:"link,omitempty"`
}

// Root is a file system, in the order of making. The first mount is "/", a tmpfs or an overlay.
type Root struct {
	Mounts   []Mount   `json:"mounts"`
	Files    []File    `json:"files"`
	Symlinks []Symlink `json:"symlinks"`
	// FIFOs are mode 0222 pipes that nothing in a child's Landlock ruleset grants: probes open them.
	FIFOs []string `json:"fifos"`
}

// The types of a Mount.
const (
	TypeBind  = "bind"  // a file or directory of the host
	TypeTmpfs = "tmpfs" // a new, empty tmpfs
	TypeProc  = "proc"  // a new procfs of the caller's PID namespace
	// TypeMask hides: a read-only empty tmpfs over a directory, the null device (Source, Dev, Root) over a file.
	TypeMask = "mask"
	// TypeSelf is a part of the new root mounted on itself, so that it can have options of its own. Root is its path in the mount that holds it.
	TypeSelf = "self"
	// TypeSub came with the bind above it: what the host has mounted beneath that directory. It can't be left out: in a user namespace the
	// kernel refuses to show what another mount covers.
	TypeSub = "sub"
	// TypeOverlay is the root of a sandbox that is made from an image: the image's files, which nobody can change, beneath a new tmpfs that takes what is
	// written. Source is the image's directory, with [OverlayLower] and the empty [OverlayUpper] in it; Size, Inodes, Mode, UID and GID are the tmpfs's.
	TypeOverlay = "overlay"
	// TypeLayer is an overlay over a mount of another sandbox, which [Apply] is given: that one's files as they are, beneath a new tmpfs that takes what is
	// written. Size, Inodes, Mode, UID and GID are the tmpfs's.
	TypeLayer = "layer"
)

// LayerOptions are the options of a layer that say where its files are from, as the kernel repeats them in mountinfo. They are names in a mount namespace that
// is gone by then: both mounts lie on a directory of the host that no root is made from, for the launcher alone, until the old root is detached.
var LayerOptions = map[string]string{"lowerdir": layerPlace + "/lower", "upperdir": layerPlace + overlayTop, "workdir": layerPlace + overlayWork}

const layerPlace = "/sys"

// What is in the directory of an image: its files, and where the launcher mounts the tmpfs, for itself alone, that takes what a sandbox writes.
const (
	OverlayLower = "/root"
	OverlayUpper = "/upper"
	// Below that: the upper layer, and the directory that overlayfs works in.
	overlayTop  = "/top"
	overlayWork = "/work"
)

// OverlayOptions are the options of an overlay that say where its files are from, as the kernel repeats them in mountinfo.
func OverlayOptions(image string) map[string]string {
	upper := image + OverlayUpper
	return map[string]string{"lowerdir": image + OverlayLower, "upperdir": upper + overlayTop, "workdir": upper + overlayWork}
}

// Mount is one row of the sandbox's mountinfo.
type Mount struct {
	Target string `json:"target"`
	Type   string `json:"type"`
	Source string `json:"source,omitempty"`
	// Dir says that the target is a directory.
	Dir bool `json:"dir"`
	// Device says that the source must be a character device, numbered as the null, zero, full, random and urandom devices are.
	Device bool `json:"device,omitempty"`
	// Dev and Root are what mountinfo must say of a bind.
	Dev  string `json:"dev,omitempty"`
	Root string `json:"root,omitempty"`
	// Options are among "ro", "nosuid", "nodev", "noexec", "nosymfollow", sorted: all that the row must have, and no other.
	Options []string `json:"options"`
	// UserXattr says that an overlay keeps its own marks where an ordinary user can: in a user namespace.
	UserXattr bool `json:"userXattr,omitempty"`
	// RootUID and RootGID are whose root's own files of an overlay's image are to be, which [Apply] is then given a user namespace for; 0: root's.
	RootUID int `json:"rootUid,omitempty"`
	RootGID int `json:"rootGid,omitempty"`
	// Size is the limit of a tmpfs in bytes, Inodes of its files; Mode its permission bits; UID and GID its owner, as the launcher's user
	// namespace numbers them.
	Size   int64  `json:"size,omitempty"`
	Inodes int64  `json:"inodes,omitempty"`
	Mode   uint32 `json:"mode,omitempty"`
	UID    int    `json:"uid,omitempty"`
	GID    int    `json:"gid,omitempty"`
}

// File is a generated file of the root, owned by who makes it; its mount is read-only.
type File struct {
	Path    string `json:"path"`
	Content string `json:"content"`
	Mode    uint32 `json:"mode"`
}

// Symlink is a link of the root.
type Symlink struct {
	Path   string `json:"path"`
	Target string `json:"target"`
}
