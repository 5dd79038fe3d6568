package enforcer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/enforcer/landlock"
	"github.com/sandboxd/sandboxd/enforcer/mount"
	"github.com/sandboxd/sandboxd/policy"
)

// allSecurebits are the secure bits, all set and all locked: NOROOT, NO_SETUID_FIXUP, NO_CAP_AMBIENT_RAISE and their locks, KEEP_CAPS locked
// off (capabilities(7)). With them uid 0 means nothing and no capability comes back.
const allSecurebits = 0xef

// umask is 022: an exec's files are its sandbox's, which has a uid and file systems of its own, so that nobody else is kept out by less; and
// programs that install or unpack files expect others to be able to read them, a later exec under another runAsUser of that sandbox included.
const umask = 0o022

// builder makes one plan.
type builder struct {
	decision policy.Decision
	host     Host
	sandbox  SandboxPlan
	plan     Plan
}

// Build makes a decision concrete for this host and sandbox, or refuses with a [*RefusedError]. It is pure but for the file of a Localhost
// profile. What the host lacks is refused by name, unless the decision accepts that name: then the plan goes without and says so in Degraded.
func Build(d policy.Decision, h Host, s SandboxPlan, p Profiles) (Plan, error) {
	if !d.Allow {
		return Plan{}, &RefusedError{Field: "decision", Message: "policy denies it", HowTo: "read the decision's reasons"}
	}
	b := &builder{decision: d, host: h, sandbox: s}
	b.plan = Plan{
		Tier: h.Tier(), Securebits: allSecurebits, DropBounding: true, LastCapability: h.LastCapability, Umask: umask,
		WritableRoot: s.WritableRoot(),
		Landlock:     landlock.For(h.LandlockABI, b.landlockRules(), nil),
	}
	for _, step := range []func() error{b.refuse, b.attached, b.network, b.identity, b.tree, b.limits} {
		if err := step(); err != nil {
			return Plan{}, err
		}
	}
	var err error
	if b.plan.Seccomp, err = b.filter(p); err != nil {
		return Plan{}, err
	}
	if err := b.explain(); err != nil {
		return Plan{}, err
	}
	// With filters of a container's runtime before it, ours isn't the one that is read.
	b.plan.Readback = h.SeccompReadback && len(b.plan.Seccomp.Program) > 0 && b.plan.Filters == 0
	return b.plan, nil
}

// lack refuses for something that the host doesn't have, unless the decision accepts it: then it is noted, and the caller goes on without.
func (b *builder) lack(name, field, message, howTo string) error {
	if slices.Contains(b.decision.Accept, name) {
		b.plan.Degraded = append(b.plan.Degraded, name+": "+message)
		return nil
	}
	return &RefusedError{Field: field, Lack: name, Message: message, HowTo: howTo}
}

// refuse is for what nothing here can hold, whatever policy allows.
func (b *builder) refuse() error {
	c := b.decision.Effective.SecurityContext
	const context = "securityContext."
	set := func(value *bool) bool { return value != nil && *value }
	switch {
	case set(c.Privileged):
		return &RefusedError{Field: context + "privileged", Message: "a privileged process can't be confined", HowTo: "set it to false"}
	case set(c.AllowPrivilegeEscalation):
		return &RefusedError{Field: context + "allowPrivilegeEscalation", Message: "every child has no_new_privs, which seccomp and Landlock stand on", HowTo: "set it to false"}
	case (c.ReadOnlyRootFilesystem == nil || *c.ReadOnlyRootFilesystem) && b.sandbox.WritableRoot() && b.host.LandlockABI == 0:
		return &RefusedError{Field: context + "readOnlyRootFilesystem", Message: "this sandbox was made with a root that can be written, and without Landlock one exec of it can't be kept from that",
			HowTo: "set it to false, make the sandbox with a read-only root, or take a kernel with Landlock"}
	case c.ReadOnlyRootFilesystem != nil && !*c.ReadOnlyRootFilesystem && b.sandbox.Image != "" && !b.sandbox.WritableRoot():
		return &RefusedError{Field: context + "readOnlyRootFilesystem", Message: "this sandbox was made with a read-only root",
			HowTo: "make the sandbox with readOnlyRootFilesystem false, or leave it out here"}
	case c.ReadOnlyRootFilesystem != nil && !*c.ReadOnlyRootFilesystem && !b.sandbox.WritableRoot():
		return &RefusedError{Field: context + "readOnlyRootFilesystem", Message: "the root shows the host's own system directories, which are never writable",
			HowTo: "set it to true; /tmp and /work can be written"}
	case c.ProcMount != nil && *c.ProcMount != "Default":
		return &RefusedError{Field: context + "procMount", Message: "the sandbox's /proc is always masked", HowTo: `set it to "Default"`}
	case c.Capabilities != nil && len(c.Capabilities.Add) > 0:
		return &RefusedError{Field: context + "capabilities.add", Message: "a child has no capability; " + strings.Join(c.Capabilities.Add, ", ") + " can't be given",
			HowTo: "leave it out"}
	}
	return nil
}

// identity is whose ids the child has. As root: the sandbox's own or those asked for. In a user namespace: the one that there is.
func (b *builder) identity() error {
	c := b.decision.Effective.SecurityContext
	if b.sandbox.Attached != nil {
		return b.oneIdentity()
	}
	if slices.Contains(b.sandbox.Namespaces, "user") {
		b.plan.Identity = Identity{UID: b.sandbox.Outside.UID, GID: b.sandbox.Outside.GID, Groups: slices.Clone(b.host.Groups)}
		for field, id := range map[string]*int64{"runAsUser": c.RunAsUser, "runAsGroup": c.RunAsGroup} {
			if id != nil && *id != InsideID {
				return &RefusedError{Field: "securityContext." + field, Message: fmt.Sprintf("an ordinary user's sandbox has one id, %d", InsideID),
					HowTo: fmt.Sprintf("leave it out, ask for %d, or run sandboxd as root", InsideID)}
			}
		}
		if len(c.SupplementalGroups) > 0 {
			return &RefusedError{Field: "securityContext.supplementalGroups", Message: "an ordinary user can't give groups", HowTo: "leave it out, or run sandboxd as root"}
		}
		return nil
	}
	b.plan.SetIDs, b.plan.SetGroups = true, true
	id := Identity{UID: b.sandbox.Child.UID, GID: b.sandbox.Child.GID, Groups: slices.Clone(b.sandbox.Child.Groups)}
	if c.RunAsUser != nil {
		id.UID = int(*c.RunAsUser)
	}
	if c.RunAsGroup != nil {
		id.GID = int(*c.RunAsGroup)
	}
	for _, group := range c.SupplementalGroups {
		id.Groups = append(id.Groups, int(group))
	}
	slices.Sort(id.Groups)
	id.Groups = slices.Compact(id.Groups)
	if id.Groups == nil {
		id.Groups = []int{}
	}
	b.plan.Identity = id
	return b.checkIdentity(id)
}

// checkIdentity keeps the child away from root, from its worker and from the daemon: it could signal and trace a process of its own uid. -1 is what
// setresuid(2) takes for "leave it".
func (b *builder) checkIdentity(id Identity) error {
	refuse := func(field string, value int, why string) error {
		return &RefusedError{Field: "securityContext." + field, Message: fmt.Sprintf("%d %s", value, why), HowTo: "leave it out, or ask for another id in 1..2147483647"}
	}
	valid := func(value int) bool { return value > 0 && value < 1<<31 }
	switch {
	case !valid(id.UID):
		return refuse("runAsUser", id.UID, "is not the id of an ordinary user")
	case id.UID == b.sandbox.Worker.UID || id.UID == b.host.UID:
		return refuse("runAsUser", id.UID, "is sandboxd's own")
	case !valid(id.GID):
		return refuse("runAsGroup", id.GID, "is not the id of an ordinary group")
	case id.GID == b.sandbox.Worker.GID || id.GID == b.host.GID:
		return refuse("runAsGroup", id.GID, "is sandboxd's own")
	}
	for _, group := range id.Groups {
		if !valid(group) || group == b.sandbox.Worker.GID || group == b.host.GID {
			return refuse("supplementalGroups", group, "is root's or sandboxd's own")
		}
	}
	return nil
}

// landlockRules grant reading and executing everywhere in the root, writing where it has a writable tmpfs, and reading and writing its devices.
// All else that the ABI knows is refused, making device files above all. There is no rule for TCP, so that binding and connecting are refused,
// a server on the sandbox's own loopback included: with deny-all there is nobody to connect to but oneself, and a refusal is what can be tried.
// Mounts and namespaces hold the same on kernels without Landlock; this is the second wall.
func (b *builder) landlockRules() []landlock.PathRule {
	rules := []landlock.PathRule{{Path: "/", Access: landlock.Read}}
	if readOnly := b.decision.Effective.SecurityContext.ReadOnlyRootFilesystem; readOnly != nil && !*readOnly && b.sandbox.WritableRoot() {
		rules = append(rules, b.sandbox.topRules()...)
	}
	for _, m := range b.sandbox.Root.Mounts {
		switch {
		case m.Device && m.Type == mount.TypeBind:
			rules = append(rules, landlock.PathRule{Path: m.Target, Access: landlock.Device})
		case (m.Type == mount.TypeTmpfs || m.Type == mount.TypeLayer) && !slices.Contains(m.Options, "ro") && m.Target != landlock.ProbeDir:
			rules = append(rules, landlock.PathRule{Path: m.Target, Access: landlock.Write})
		}
	}
	return rules
}
