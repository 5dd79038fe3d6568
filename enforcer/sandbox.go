package enforcer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/enforcer/mount"
	"github.com/sandboxd/sandboxd/enforcer/network/fence"
)

// SandboxSpec is what one sandbox is asked to be.
type SandboxSpec struct {
	// Show are paths to show besides the default ones; each must be among the Host's sources.
	Show []string
	// Layered has /work be a layer over that of another sandbox, whose mount the launcher is given: what is there can be read, and what is written goes to a
	// tmpfs of WorkBytes. Child is that other sandbox's, whose files these are.
	Layered bool
	// Image is what the root is made from; nil: the host's own system directories.
	Image *ImageRoot
	// TmpBytes and WorkBytes are the size limits of /tmp (and of /dev/shm) and of /work, at least 64 KiB.
	TmpBytes, WorkBytes int64
	// Worker and Child are the ids of launcher and workers, and of children, when the daemon is root; ignored otherwise.
	Worker, Child Identity
	// Hostname is a DNS label: lower-case letters, digits and dashes, at most 63.
	Hostname string
}

// ImageRoot is the file system of an image, as a root.
type ImageRoot struct {
	// Directory has the image's files in [mount.OverlayLower] and an empty [mount.OverlayUpper]. A clean absolute path of letters, digits, '/', '-', '_'
	// and '.' only, since the kernel gives others a meaning or another spelling.
	Directory string
	// Digest is the image's, "sha256:" and hex.
	Digest string
	// Top are the names of the directories right below its root: what an exec with a writable root may write to.
	Top []string
	// Writable says that what is written anywhere is kept until the sandbox ends, in Bytes of memory, at least 64 KiB. Else the root is read-only.
	Writable bool
	Bytes    int64
	// GiveAway has root's own files of the image be the sandbox's user's, where the root is writable and this daemon is root. Else a user who isn't root finds
	// hardly anything there that he may change.
	GiveAway bool
	// Passwd and Group are the image's own files; the sandbox's user is put in front of them.
	Passwd, Group string
}

// InsideID is the only uid and gid of a sandbox in a user namespace.
const InsideID = 1000

// minTmpfs is the smallest size of a tmpfs that a sandbox can do something with.
const minTmpfs = 64 << 10

// BuildSandbox makes a spec concrete for this host, or refuses with a [*RefusedError].
func BuildSandbox(h Host, s SandboxSpec) (SandboxPlan, error) {
	plan := SandboxPlan{Namespaces: []string{"ipc", "mnt", "net", "pid", "uts"}, Hostname: s.Hostname, Worker: s.Worker, Child: s.Child, Outside: s.Worker}
	if _, there := h.Namespaces["cgroup"]; there { // CONFIG_CGROUPS; else there is no path to hide either
		plan.Namespaces = append([]string{"cgroup"}, plan.Namespaces...)
	}
	if h.UID != 0 {
		if !h.UserNamespaces {
			return SandboxPlan{}, &RefusedError{Field: "sandbox", Message: "an ordinary user needs a user namespace for a sandbox, and this kernel refuses one",
				HowTo: "run sandboxd as root, or allow user namespaces (user.max_user_namespaces, kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns)"}
		}
		plan.Namespaces = append(plan.Namespaces, "user")
		plan.Worker = Identity{UID: InsideID, GID: InsideID}
		plan.Child = plan.Worker
		plan.Outside = Identity{UID: h.UID, GID: h.GID}
		plan.Degraded = append(plan.Degraded,
			"ids.separate: one uid is all that an ordinary user has, so launcher, workers and children share it",
			"ids.groups: the user's supplementary groups stay, since a user namespace of one id can't drop them")
	}
	if s.Layered && h.UID != 0 {
		return SandboxPlan{}, &RefusedError{Field: "sandbox.layer", Lack: "sandbox.layer", Message: "an ordinary user's sandboxes are in user namespaces of their own, and none may mount another's files",
			HowTo: "run sandboxd as root"}
	}
	if err := checkIdentities(h, plan); err != nil {
		return SandboxPlan{}, err
	}
	if !hostname(s.Hostname) {
		return SandboxPlan{}, &RefusedError{Field: "sandbox.hostname", Message: fmt.Sprintf("%q is not a DNS label", s.Hostname),
			HowTo: "use at most 63 lower-case letters, digits and dashes, with no dash at either end"}
	}
	for field, size := range map[string]int64{"sandbox.tmpBytes": s.TmpBytes, "sandbox.workBytes": s.WorkBytes} {
		if size < minTmpfs {
			return SandboxPlan{}, &RefusedError{Field: field, Message: fmt.Sprintf("%d bytes are too few", size), HowTo: fmt.Sprintf("ask for %d or more", minTmpfs)}
		}
	}
	owner := Identity{} // root, where the user namespace has one
	if plan.UserNamespace() {
		owner = plan.Worker
	}
	root, err := buildRoot(h, s, owner, plan.Child)
	if err != nil {
		return SandboxPlan{}, err
	}
	plan.Root = root
	if s.Image != nil {
		plan.Image, plan.ImageTop = s.Image.Digest, slices.Clone(s.Image.Top)
	}
	if h.Fence {
		plan.Network = fence.AnyIP(h.IPv6, h.FenceLog)
		if !h.FenceDatagrams {
			plan.Network = plan.Network.WithoutDatagrams()
		}
		if !h.FenceLog {
			plan.Degraded = append(plan.Degraded, "fence.log: this kernel doesn't tell of connections that it refuses by itself, so those to addresses that no rule opens aren't on record")
		}
	}
	return plan, nil
}

// checkIdentities refuses ids that are somebody else's. setresuid(2) takes -1 for "leave it": such a child would stay who the worker is.
func checkIdentities(h Host, p SandboxPlan) error {
	refuse := func(message string) error {
		return &RefusedError{Field: "sandbox.identity", Message: message, HowTo: "give each sandbox two uids of its own from a range that nobody else uses"}
	}
	for name, id := range map[string]Identity{"worker": p.Worker, "child": p.Child} {
		// 1<<32-1 is -1, and 1<<16-1 was, for 16 bit calls.
		if id.UID <= 0 || id.GID <= 0 || id.UID >= 1<<32-1 || id.GID >= 1<<32-1 || id.UID == 1<<16-1 || id.GID == 1<<16-1 {
			return refuse(fmt.Sprintf("%s: uid %d, gid %d: neither may be 0 or -1", name, id.UID, id.GID))
		}
	}
	if h.UID == 0 && (p.Worker.UID == p.Child.UID || p.Worker.GID == p.Child.GID) {
		return refuse(fmt.Sprintf("worker and child share uid %d or gid %d, so a child could signal and trace its worker", p.Worker.UID, p.Worker.GID))
	}
	if len(p.Worker.Groups) != 0 {
		return refuse(fmt.Sprintf("the worker has supplementary groups %v", p.Worker.Groups))
	}
	// A worker changes its uid; what setresuid(2) leaves dumpable for a moment, another process of that uid can write to.
	if h.SuidDumpable == 1 {
		return &RefusedError{Field: "sandbox.identity", Message: "fs.suid_dumpable is 1: processes that change their uid can be traced",
			HowTo: "sysctl fs.suid_dumpable=0"}
	}
	return nil
}

func hostname(name string) bool {
	if name == "" || len(name) > 63 || name[0] == '-' || name[len(name)-1] == '-' {
		return false
	}
	return !strings.ContainsFunc(name, func(c rune) bool { return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' })
}

// UserNamespace says that the sandbox has a user namespace of its own.
func (p SandboxPlan) UserNamespace() bool { return slices.Contains(p.Namespaces, "user") }

// Layered says that /work is a layer over another sandbox's.
func (p SandboxPlan) Layered() bool {
	work, there := p.Mounted("/work")
	return there && work.Type == mount.TypeLayer
}

// Mounted finds the mount of a target in the plan.
func (p SandboxPlan) Mounted(target string) (mount.Mount, bool) {
	for _, m := range p.Root.Mounts {
		if m.Target == target {
			return m, true
		}
	}
	return mount.Mount{}, false
}
