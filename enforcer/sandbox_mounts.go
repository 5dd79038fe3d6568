package enforcer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/enforcer/mount"
	"github.com/sandboxd/sandboxd/enforcer/procfs"
	"github.com/sandboxd/sandboxd/policy"
)

// mounts compares the launcher's mount table with the plan's: every row of the plan once, and no other. What lies on top of a planned mount
// is a row too many at the same target.
func (r *sandboxRows) mounts(p SandboxPlan, s SandboxState) {
	found := slices.Clone(s.Mounts)
	proc := slices.IndexFunc(found, func(m procfs.Mount) bool { return m.Target == "/proc" && m.Type == "proc" })
	procDevice := ""
	if proc >= 0 {
		procDevice = found[proc].Dev
	}
	for _, want := range p.Root.Mounts {
		text := wantMount(want)
		got := "not mounted"
		if at := pick(found, want, text, procDevice, s.HostDevices); at >= 0 {
			got = gotMount(want, found[at], procDevice, s.HostDevices)
			found = slices.Delete(found, at, at+1)
		}
		r.add("mount "+want.Target, text, got)
		if want.Type == mount.TypeOverlay {
			// The size of an overlay is that of what it writes to: the kernel's word that this is a tmpfs of that size, which no mount shows.
			r.add("size "+want.Target, fmt.Sprintf("size=%dk nr_inodes=%d", want.Size>>10, want.Inodes), s.RootSize)
		}
		if want.Type == mount.TypeLayer {
			r.add("size "+want.Target, fmt.Sprintf("size=%dk nr_inodes=%d", want.Size>>10, want.Inodes), s.LayerSize)
		}
		if want.Type == mount.TypeTmpfs || want.Type == mount.TypeOverlay || want.Type == mount.TypeLayer {
			r.add("owner "+want.Target, r.wantOwner(p, want), s.Owners[want.Target].String())
		}
	}
	for _, extra := range found {
		r.rows = append(r.rows, policy.Row{Control: "mount " + extra.Target, Want: "not mounted", Evidence: policy.EvidenceKernel,
			Got: fmt.Sprintf("%s %s %s %s", extra.Type, extra.Dev, extra.Root, strings.Join(extra.Options, ","))})
	}
}

// pick is the row of a target that is as planned, or else the first of that target: two may lie on top of each other on the host.
func pick(found []procfs.Mount, want mount.Mount, text, procDevice string, host map[string]bool) int {
	first := -1
	for i, m := range found {
		if m.Target != want.Target {
			continue
		}
		if gotMount(want, m, procDevice, host) == text {
			return i
		}
		if first < 0 {
			first = i
		}
	}
	return first
}

// wantMount says what a row must be: kind, where it comes from, options, propagation, and of a tmpfs its limits.
func wantMount(m mount.Mount) string {
	options := strings.Join(m.Options, ",") + " private"
	switch {
	case m.Type == mount.TypeOverlay:
		return overlayText(m)
	case m.Type == mount.TypeLayer:
		return layerText(m)
	case m.Type == mount.TypeTmpfs, m.Type == mount.TypeMask && m.Dir:
		text := fmt.Sprintf("new tmpfs %s size=%dk nr_inodes=%d", options, m.Size>>10, m.Inodes)
		if m.Mode != 0o1777 { // the default isn't shown
			text += fmt.Sprintf(" mode=%o", m.Mode)
		}
		return text
	case m.Type == mount.TypeProc:
		return "new proc " + options + " hidepid=invisible"
	case m.Type == mount.TypeSelf:
		return fmt.Sprintf("/proc %s %s", m.Root, options)
	}
	return fmt.Sprintf("bind %s %s %s", m.Dev, m.Root, options)
}

// gotMount says the same of a row that was found, in the words for the planned kind.
func gotMount(want mount.Mount, m procfs.Mount, procDevice string, host map[string]bool) string {
	options := mountOptions(m.Options) + " " + propagation(m.Propagation)
	age := "new"
	if host[m.Dev] {
		age = "the host's"
	}
	switch {
	case want.Type == mount.TypeOverlay, want.Type == mount.TypeLayer:
		text := age + " " + m.Type + " " + options
		if m.Root != "/" {
			text += " " + m.Root
		}
		return text + " " + overlayOptions(m.SuperOptions)
	case want.Type == mount.TypeTmpfs, want.Type == mount.TypeProc, want.Type == mount.TypeMask && want.Dir:
		text := age + " " + m.Type + " " + options
		if m.Root != "/" {
			text += " " + m.Root
		}
		for _, name := range []string{"size=", "nr_inodes=", "mode=", "hidepid="} {
			if value := superOption(m, name); value != "" {
				text += " " + name + value
			}
		}
		return text
	case want.Type == mount.TypeSelf && m.Dev == procDevice && m.Type == "proc":
		return fmt.Sprintf("/proc %s %s", m.Root, options)
	}
	return fmt.Sprintf("bind %s %s %s", m.Dev, m.Root, options)
}

// superOption is a value that the file system shows. The permission bits of mode are shown in octal with or without a leading zero.
func superOption(m procfs.Mount, name string) string {
	for _, option := range m.SuperOptions {
		if value, ok := strings.CutPrefix(option, name); ok {
			if name == "mode=" {
				value = strings.TrimLeft(value, "0")
			}
			if name == "hidepid=" && value == "2" { // before 5.8
				value = "invisible"
			}
			return value
		}
	}
	return ""
}

// mountOptions leaves out what is no restriction: "rw", and when access times are written. Any other word stays, known or not.
func mountOptions(options []string) string {
	kept := slices.DeleteFunc(slices.Clone(options), func(o string) bool {
		return o == "rw" || o == "relatime" || o == "noatime" || o == "nodiratime"
	})
	slices.Sort(kept)
	return strings.Join(kept, ",")
}

func propagation(fields []string) string {
	if len(fields) == 0 {
		return "private"
	}
	return strings.Join(fields, ",")
}

// wantOwner is the owner of a tmpfs in the daemon's numbers.
func (r *sandboxRows) wantOwner(p SandboxPlan, m mount.Mount) string {
	owner := Owner{UID: m.UID, GID: m.GID, Mode: m.Mode}
	if p.UserNamespace() && m.UID == p.Worker.UID && m.GID == p.Worker.GID {
		owner.UID, owner.GID = p.Outside.UID, p.Outside.GID
	}
	return owner.String()
}
