package enforcer

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/enforcer/landlock"
	"github.com/sandboxd/sandboxd/enforcer/mount"
)

// ours is how much room the upper layer has for what every root has of ours, where nobody else can write: a few files and directories.
const ours = 1 << 20

// overlay is the root of an image. Its files are read-only whatever happens: overlayfs never writes below its upper layer.
func overlay(h Host, i ImageRoot, owner, child Identity) (mount.Mount, error) {
	if h.UID != 0 && !h.UserNamespaces {
		return mount.Mount{}, &RefusedError{Field: "image", Message: "an ordinary user mounts nothing outside of a user namespace", HowTo: "run sandboxd as root"}
	}
	if !plainPath(i.Directory) {
		return mount.Mount{}, &RefusedError{Field: "image", Message: fmt.Sprintf("%q can't be told to overlayfs as it stands", i.Directory),
			HowTo: "use a state directory whose path has letters, digits, '-', '_' and '.' only"}
	}
	size := int64(ours)
	if i.Writable {
		if i.Bytes < minTmpfs {
			return mount.Mount{}, &RefusedError{Field: "sandbox.rootBytes", Message: fmt.Sprintf("%d bytes are too few", i.Bytes),
				HowTo: fmt.Sprintf("ask for %d or more", minTmpfs)}
		}
		size += i.Bytes
	}
	base := tmpfs("/", size, 0o755, owner, "nodev", "nosuid")
	if !i.Writable {
		base.Options = append(base.Options, "ro")
	}
	if i.Writable && i.GiveAway && h.UID == 0 {
		base.RootUID, base.RootGID = child.UID, child.GID
	}
	base.Type, base.Source, base.UserXattr = mount.TypeOverlay, i.Directory, h.UID != 0
	return base, nil
}

// plainPath says that a path is clean, absolute, and means the same in an option of a mount and in mountinfo.
func plainPath(name string) bool {
	return path.IsAbs(name) && path.Clean(name) == name && !strings.ContainsFunc(name, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("/-_.", c)
	})
}

// WritableRoot says that the root of a sandbox takes what is written to it, within a size.
func (p SandboxPlan) WritableRoot() bool {
	root, there := p.Mounted("/")
	return there && root.Type == mount.TypeOverlay && !slices.Contains(root.Options, "ro")
}

// topRules grant writing in an image's own directories, by name: a rule for "/" would open all that is mounted on it as well. New names right below the
// root can't be made.
func (p SandboxPlan) topRules() (rules []landlock.PathRule) {
	for _, name := range p.ImageTop {
		target := "/" + name
		if _, mounted := p.Mounted(target); mounted || target == "/proc" || target == "/dev" || target == "/sys" {
			continue
		}
		rules = append(rules, landlock.PathRule{Path: target, Access: landlock.Write})
	}
	return rules
}

// overlayText is what mountinfo must say of an overlay: which directories it is made of, and no option that changes how they are read.
func overlayText(m mount.Mount) string {
	options := mount.OverlayOptions(m.Source)
	text := fmt.Sprintf("new overlay %s private lowerdir=%s upperdir=%s workdir=%s", strings.Join(m.Options, ","), options["lowerdir"], options["upperdir"], options["workdir"])
	if m.UserXattr {
		text += " userxattr"
	}
	return text
}

// layerText is the same of a layer.
func layerText(m mount.Mount) string {
	options := mount.LayerOptions
	return fmt.Sprintf("new overlay %s private lowerdir=%s upperdir=%s workdir=%s", strings.Join(m.Options, ","), options["lowerdir"], options["upperdir"], options["workdir"])
}

// owners compares whose the image's own directories are in the sandbox with whose they are on the disk: the same, but for root's own where they are given away.
func (r *sandboxRows) owners(p SandboxPlan, s SandboxState) {
	root, there := p.Mounted("/")
	if !there || root.Type != mount.TypeOverlay {
		return
	}
	want, wrong := "as on the disk", []string{}
	if root.RootUID != 0 {
		want = fmt.Sprintf("root's own are %d's", root.RootUID)
	}
	for _, name := range slices.Sorted(maps.Keys(s.ImageOwners)) {
		if _, mounted := p.Mounted("/" + name); mounted || name == "etc" || !slices.Contains(p.ImageTop, name) { // ours
			continue
		}
		disk, seen := s.ImageOwners[name][0], s.ImageOwners[name][1]
		if disk == 0 && root.RootUID != 0 {
			disk = root.RootUID
		}
		if seen != disk {
			wrong = append(wrong, fmt.Sprintf("/%s is %d's, not %d's", name, seen, disk))
		}
	}
	got := want
	if len(wrong) > 0 {
		got = strings.Join(wrong, "; ")
	}
	r.add("owners /", want, got)
}

// harmless are options of an overlay that the kernel shows beside those that name directories: they change numbers of inodes and file systems, or say
// that something is off.
var harmless = []string{"rw", "ro", "index=off", "metacopy=off", "redirect_dir=off", "redirect_dir=nofollow", "uuid=on", "uuid=off", "uuid=null", "uuid=auto",
	"xino=on", "xino=off", "xino=auto", "nfs_export=off"}

// overlayOptions are all others, those that name directories first.
func overlayOptions(super []string) string {
	var named, rest []string
	for _, name := range []string{"lowerdir=", "upperdir=", "workdir="} {
		for _, option := range super {
			if strings.HasPrefix(option, name) {
				named = append(named, option)
			}
		}
	}
	for _, option := range super {
		if !slices.Contains(named, option) && !slices.Contains(harmless, option) {
			rest = append(rest, option)
		}
	}
	return strings.Join(append(named, rest...), " ")
}
