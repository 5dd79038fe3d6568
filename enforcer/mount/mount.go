// Package mount describes, makes and reads back the file system that a sandbox sees: a root of read-only binds of system directories, an own
// /proc, a minimal /dev, and tmpfs where writing is allowed. It uses the descriptor-based mount calls (open_tree, fsopen, mount_setattr,
// move_mount), so that no path is walked twice.
package mount

// Source is a file or directory of the host that sandboxes may show, with what mountinfo will say of a bind of it.
type Source struct {
	Path string `json:"path"`
	// Dev is "major:minor" and Root the path within that file system, of the mount that holds Path: fields 3 and 4 of mountinfo.
	Dev  string `json:"dev"`
	Root string `json:"root"`
	Dir  bool   `json:"dir"`
	// Link is the target when Path is a symlink (then nothing is mounted: the root gets the same link).
	Link string `json:"link,omitempty"`
}

// Root is a file system, in the order of making. The first mount is "/".
type Root struct {
	Mounts   []Mount   `json:"mounts"`
	Files    []File    `json:"files"`
	Symlinks []Symlink `json:"symlinks"`
	// FIFOs are mode 0222 pipes that nothing in a child's Landlock ruleset grants: probes open them.
	FIFOs []string `json:"fifos"`
}

// Mount is one row of the sandbox's mountinfo.
type Mount struct {
	Target string `json:"target"`
	// Type is "bind", "tmpfs", "proc" or "mask" (a read-only empty tmpfs over a directory, the null device over a file).
	Type   string `json:"type"`
	Source string `json:"source,omitempty"`
	// Dev and Root are what mountinfo must say of a bind.
	Dev  string `json:"dev,omitempty"`
	Root string `json:"root,omitempty"`
	// Options are among "ro", "nosuid", "nodev", "noexec".
	Options []string `json:"options"`
	// Size is the limit of a tmpfs in bytes; Mode its permission bits; UID and GID its owner.
	Size int64  `json:"size,omitempty"`
	Mode uint32 `json:"mode,omitempty"`
	UID  int    `json:"uid,omitempty"`
	GID  int    `json:"gid,omitempty"`
}

// File is a generated file of the root, owned by root, read-only.
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
