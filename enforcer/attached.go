package enforcer

import (
	"fmt"
	"slices"

	"github.com/sandboxd/sandboxd/enforcer/landlock"
	"github.com/sandboxd/sandboxd/enforcer/mount"
	"github.com/sandboxd/sandboxd/enforcer/network/fence"
)

// Attachment is a sandbox that somebody else made, and whose launcher somebody else started: a container in a pod. Nothing of it is ours to make. What was
// found when the launcher came is the plan, once it is fit to be one; from then on it must stay as it is.
type Attachment struct {
	// Bounding is the launcher's bounding set. Nobody there has CAP_SETPCAP to empty it.
	Bounding uint64 `json:"bounding"`
	// Filters is how many seccomp filters the container's runtime gave the launcher.
	Filters int `json:"filters"`
	// Outline is the launcher's.
	Outline Outline `json:"outline"`
	// Mounts is the digest of the launcher's mount table.
	Mounts string `json:"mounts"`
}

// AttachedSpec is what a launcher that connects is to be.
type AttachedSpec struct {
	// UID is whose process it must be.
	UID int
	// Writable are directories in the launcher's file system that execs may write to, besides what permissions refuse.
	Writable []string
	// ProxyPort is where the relay listens as a proxy; 0: it doesn't.
	ProxyPort uint16
	// Fence is the plan of the fence by uid; none where Variant is empty.
	Fence fence.Plan
}

// DefaultWritable are the directories that execs may write to where they are mounts of the container's own.
var DefaultWritable = []string{"/dev/shm", "/tmp", "/work"}

// attachedDevices are device files that every container has. /dev/full isn't among them: it is what each exec tries Landlock with.
var attachedDevices = []string{"/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"}

// BuildAttached makes a plan of what was found. Whether that is fit to be one, [CheckAttached] says.
func BuildAttached(h Host, s AttachedSpec, found SandboxState) SandboxPlan {
	id := Identity{UID: s.UID}
	plan := SandboxPlan{Hostname: found.Hostname, ProxyPort: s.ProxyPort, Network: s.Fence, Attached: &Attachment{
		Outline: found.Outline, Mounts: found.MountsDigest(),
	}}
	if len(found.Threads) > 0 {
		first := found.Threads[0]
		id.GID, id.Groups = first.GIDs[0], slices.Clone(first.Groups)
		plan.Attached.Bounding, plan.Attached.Filters = first.Bounding, first.SeccompFilters
	}
	plan.Worker, plan.Child, plan.Outside = id, id, id
	plan.Root = attachedRoot(s, found)
	plan.Degraded = []string{
		"namespaces.own: the container's runtime made the sandbox, and all execs share it: its file system, its processes and its network",
		fmt.Sprintf("ids.separate: without capabilities launcher, workers and execs share uid %d", s.UID),
	}
	if s.UID == h.UID {
		plan.Degraded = append(plan.Degraded, fmt.Sprintf("ids.daemon: the daemon has uid %d too, so only Landlock keeps execs from signalling it", s.UID))
	}
	if found.Outline.Root != 0 && found.Outline.Root == found.Own.Root {
		plan.Degraded = append(plan.Degraded, "namespaces.mnt: the launcher sees the daemon's own file system, so only permissions keep execs from reading the daemon's files")
	}
	if h.Opaque {
		plan.Degraded = append(plan.Degraded,
			"readback.links: a daemon without CAP_SYS_PTRACE can't read which descriptors, program and directory a process has; the child's own steps say so")
	}
	plan.Degraded = append(plan.Degraded, s.Fence.Unseen()...)
	if s.Fence.Variant == fence.VariantPod && h.UID != 0 {
		plan.Degraded = append(plan.Degraded, "fence.legacy: the names of tables of iptables before nf_tables are for root to read")
	}
	return plan
}

// attachedRoot describes a file system that is somebody else's in the words of one that is ours, as far as rules are made of it.
func attachedRoot(s AttachedSpec, found SandboxState) mount.Root {
	root := mount.Root{Mounts: []mount.Mount{{Target: "/", Type: mount.TypeBind, Dir: true}, {Target: "/proc", Type: mount.TypeProc, Dir: true},
		{Target: "/sys", Type: mount.TypeProc, Dir: true}}}
	for _, device := range attachedDevices {
		root.Mounts = append(root.Mounts, mount.Mount{Target: device, Type: mount.TypeBind, Device: true})
	}
	writable := s.Writable
	if len(writable) == 0 {
		for _, m := range found.Mounts {
			if slices.Contains(DefaultWritable, m.Target) && !slices.Contains(m.Options, "ro") && !slices.Contains(writable, m.Target) {
				writable = append(writable, m.Target)
			}
		}
	}
	for _, path := range slices.Sorted(slices.Values(writable)) {
		root.Mounts = append(root.Mounts, mount.Mount{Target: path, Type: mount.TypeTmpfs, Dir: true})
	}
	return root
}

// Home is where an exec starts unless it says otherwise: /work, where the sandbox has that, or else the first directory that it may write to.
func (p SandboxPlan) Home() string {
	home := "/"
	for _, m := range p.Root.Mounts {
		if m.Type != mount.TypeTmpfs || slices.Contains(m.Options, "ro") || m.Target == landlock.ProbeDir {
			continue
		}
		switch {
		case m.Target == "/work":
			return m.Target
		case home == "/" || m.Target == "/tmp":
			home = m.Target
		}
	}
	return home
}

// attached is what changes in an exec's plan for a sandbox that somebody else made: nobody there may change ids or securebits, or empty the bounding
// set, and there is no file of ours to try Landlock with.
func (b *builder) attached() error {
	at := b.sandbox.Attached
	if at == nil {
		return nil
	}
	b.plan.Attached, b.plan.Securebits, b.plan.DropBounding, b.plan.Bounding = true, 0, false, at.Bounding
	b.plan.Filters = at.Filters
	if at.Bounding == 0 {
		return nil
	}
	return b.lack("capabilities.bounding", "securityContext.capabilities.drop",
		"the launcher's bounding set isn't empty, and nobody there may empty it; no_new_privs keeps what is in it from being gained",
		"start the launcher with all capabilities dropped (capabilities: {drop: [ALL]}, or setpriv --bounding-set=-all)")
}

// oneIdentity is the launcher's: without capabilities nobody there can be another.
func (b *builder) oneIdentity() error {
	c, id := b.decision.Effective.SecurityContext, b.sandbox.Worker
	b.plan.Identity = Identity{UID: id.UID, GID: id.GID, Groups: slices.Clone(id.Groups)}
	for _, asked := range []struct {
		field string
		value *int64
		have  int
	}{{"runAsUser", c.RunAsUser, id.UID}, {"runAsGroup", c.RunAsGroup, id.GID}} {
		if asked.value != nil && *asked.value != int64(asked.have) {
			return &RefusedError{Field: "securityContext." + asked.field, Message: fmt.Sprintf("the launcher here has the id %d and no capability to change it", asked.have),
				HowTo: fmt.Sprintf("leave it out, ask for %d, or start the launcher with that id", asked.have)}
		}
	}
	for _, group := range c.SupplementalGroups {
		if !slices.Contains(id.Groups, int(group)) {
			return &RefusedError{Field: "securityContext.supplementalGroups", Message: fmt.Sprintf("the launcher here isn't in group %d and has no capability to change that", group),
				HowTo: "leave it out, or start the launcher with that group"}
		}
	}
	return nil
}
