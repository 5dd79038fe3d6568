package enforcer

import (
	"fmt"
	"path"
	"strings"

	"github.com/sandboxd/sandboxd/enforcer/procfs"
	"github.com/sandboxd/sandboxd/policy"
)

// CheckAttached says whether a launcher that somebody else started is fit to be one, and still what it was when it came. private are directories of the
// daemon's that must not be seen there.
func CheckAttached(p SandboxPlan, h Host, s SandboxState, private []string) policy.Verdict {
	var r sandboxRows
	at := p.Attached
	threads := func(control, want string, text func(procfs.Status) string) {
		var got []string
		for _, t := range s.Threads {
			got = append(got, text(t))
		}
		r.add(control, want, each(got))
	}
	threads("launcher.uid", four(p.Worker.UID), func(t procfs.Status) string { return fmt.Sprint(t.UIDs) })
	threads("launcher.gid", four(p.Worker.GID), func(t procfs.Status) string { return fmt.Sprint(t.GIDs) })
	threads("launcher.groups", fmt.Sprint(p.Worker.Groups), func(t procfs.Status) string { return fmt.Sprint(t.Groups) })
	if p.Worker.UID <= 0 || p.Worker.GID <= 0 {
		r.add("launcher.identity", "an ordinary user's and group's", fmt.Sprintf("uid %d, gid %d", p.Worker.UID, p.Worker.GID))
	}
	threads("launcher.capabilities", capabilitySets(0, 0, 0, at.Bounding, 0), func(t procfs.Status) string {
		return capabilitySets(t.Inheritable, t.Permitted, t.Effective, t.Bounding, t.Ambient)
	})
	threads("launcher.no_new_privs", "1", func(t procfs.Status) string { return fmt.Sprint(t.NoNewPrivs) })
	threads("launcher.seccomp.filters", fmt.Sprint(at.Filters), func(t procfs.Status) string { return fmt.Sprint(t.SeccompFilters) })
	threads("launcher.tracer", "0", func(t procfs.Status) string { return fmt.Sprint(t.Tracer) })
	dumpable := "no"
	if s.EnvironOwner == p.Worker.UID {
		dumpable = "yes"
	}
	r.add("launcher.dumpable", "no", dumpable)
	r.add("launcher.root", fmt.Sprint("mount ", at.Outline.Root), fmt.Sprint("mount ", s.Outline.Root))
	if s.Outline.Root != s.Own.Root { // else it is the machine's table, in which others mount what they like
		r.add("launcher.mounts", at.Mounts, s.MountsDigest())
	}
	r.add("launcher.cgroup", at.Outline.Cgroup, s.Outline.Cgroup)
	r.add("namespace.user", at.Outline.UserMap, s.Outline.UserMap)
	// The relay and the fence are the daemon's, in its own namespace: they hold who shares it.
	r.add("namespace.net", "the daemon's", which(s.Outline.Network == s.Own.Network))
	r.private(s, private)
	r.rows = append(r.rows, CheckFence(p, h.Namespaces["net"], s.Fence)...)
	r.add("sandbox.hostname", p.Hostname, s.Hostname)
	r.rows[len(r.rows)-1].Evidence = policy.EvidenceReport
	return policy.Verdict{Tier: h.Tier(), Rows: r.rows, Degraded: append([]string{}, p.Degraded...)}
}

func which(same bool) string {
	if same {
		return "the daemon's"
	}
	return "another"
}

// private: no mount of the launcher shows a directory of the daemon's. Where both see one file system, only permissions keep it closed, and the plan says so.
func (r *sandboxRows) private(s SandboxState, directories []string) {
	if s.Outline.Root == s.Own.Root {
		return
	}
	for _, directory := range directories {
		device, inside := placeOf(s.OwnMounts, directory)
		got := "not shown"
		for _, m := range s.Mounts {
			at := m.Target
			switch {
			case m.Dev != device:
				continue
			case beneath(inside, m.Root):
				at = path.Join(m.Target, strings.TrimPrefix(inside, strings.TrimSuffix(m.Root, "/")))
			case !beneath(m.Root, inside):
				continue
			}
			if holder(s.Mounts, at).ID == m.ID { // else another mount lies over it
				got = "shown at " + at
			}
		}
		r.add("private "+directory, "not shown", got)
	}
}

// placeOf is the file system of a path, and the path in it.
func placeOf(mounts []procfs.Mount, file string) (device, inside string) {
	found := holder(mounts, file)
	return found.Dev, path.Join(found.Root, strings.TrimPrefix(file, strings.TrimSuffix(found.Target, "/")))
}

// holder is the mount that a path lies on.
func holder(mounts []procfs.Mount, file string) (found procfs.Mount) {
	for _, m := range mounts {
		if beneath(file, m.Target) && len(m.Target) >= len(found.Target) {
			found = m
		}
	}
	return found
}

func beneath(file, directory string) bool {
	return directory == "/" || file == directory || strings.HasPrefix(file, directory+"/")
}
