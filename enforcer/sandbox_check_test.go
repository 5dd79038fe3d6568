package enforcer

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/enforcer/mount"
	"github.com/sandboxd/sandboxd/enforcer/network/fence"
	"github.com/sandboxd/sandboxd/enforcer/procfs"
	"github.com/sandboxd/sandboxd/policy"
)

// asPlanned is the state of a launcher that is exactly as its plan says.
func asPlanned(p SandboxPlan, h Host) SandboxState {
	set := p.WorkerCapabilities()
	ids, gids := [4]int{p.Outside.UID, p.Outside.UID, p.Outside.UID, p.Outside.UID}, [4]int{p.Outside.GID, p.Outside.GID, p.Outside.GID, p.Outside.GID}
	thread := procfs.Status{TGID: 77, PID: 77, NSPID: []int{77, 1}, UIDs: ids, GIDs: gids, Groups: []int{}, NoNewPrivs: 1, SigIgnored: LauncherIgnores | 1<<19,
		Inheritable: set, Permitted: set, Effective: set, Bounding: set, Ambient: set}
	second := thread
	second.PID = 78
	s := SandboxState{Threads: []procfs.Status{thread, second}, Exe: LauncherExe, Root: "/", Hostname: p.Hostname, HostnameRead: true,
		FDs:        map[int]string{0: "/dev/null", 1: "/dev/null", 2: "/dev/null", 3: "socket:[1]", 4: "socket:[2]"},
		Namespaces: maps.Clone(h.Namespaces), Owners: map[string]Owner{}, HostDevices: map[string]bool{"8:1": true, "8:2": true, "0:6": true, "0:5": true},
		UIDMap: [][3]uint32{{uint32(p.Worker.UID), uint32(p.Outside.UID), 1}}, GIDMap: [][3]uint32{{uint32(p.Worker.GID), uint32(p.Outside.GID), 1}},
		SetGroups: "deny", Links: []string{"lo"}, Routes6: []string{"lo"}, Addresses6: []string{"lo"}}
	for _, name := range p.Namespaces {
		s.Namespaces[name] += 100
	}
	for i, m := range p.Root.Mounts {
		row := procfs.Mount{ID: i, Target: m.Target, Options: append([]string{"relatime"}, m.Options...), Dev: m.Dev, Root: m.Root, Type: "ext4"}
		switch {
		case m.Type == mount.TypeTmpfs, m.Type == mount.TypeMask && m.Dir:
			row.Type, row.Root, row.Dev = "tmpfs", "/", fmt.Sprint("0:", 100+i)
			row.SuperOptions = []string{"rw", fmt.Sprintf("size=%dk", m.Size>>10), fmt.Sprintf("nr_inodes=%d", m.Inodes)}
			if m.Mode != 0o1777 {
				row.SuperOptions = append(row.SuperOptions, fmt.Sprintf("mode=%o", m.Mode))
			}
			owner := Owner{UID: m.UID, GID: m.GID, Mode: m.Mode}
			if p.UserNamespace() {
				owner.UID, owner.GID = p.Outside.UID, p.Outside.GID
			}
			s.Owners[m.Target] = owner
		case m.Type == mount.TypeProc:
			row.Type, row.Root, row.Dev, row.SuperOptions = "proc", "/", "0:99", []string{"rw", "hidepid=invisible"}
		case m.Type == mount.TypeSelf:
			row.Type, row.Dev = "proc", "0:99"
		}
		s.Mounts = append(s.Mounts, row)
	}
	return s
}

func TestCheckSandboxHolds(t *testing.T) {
	for _, uid := range []int{0, 4711} {
		plan, host := buildSandbox(t, uid)
		for _, row := range CheckSandbox(plan, host, asPlanned(plan, host)).Failed() {
			t.Errorf("uid %d: %+v", uid, row)
		}
	}
}

// TestCheckSandboxNothingRead: a state that nobody filled in holds nowhere that matters.
func TestCheckSandboxNothingRead(t *testing.T) {
	plan, host := buildSandbox(t, 0)
	held := 0
	for _, row := range CheckSandbox(plan, host, SandboxState{}).Rows {
		if row.Held {
			held++
			if !slices.Contains([]string{"network.routes", "network.routes6", "network.addresses6", "launcher.dumpable"}, row.Control) {
				t.Errorf("held although nothing was read: %+v", row)
			}
		}
	}
	if held > 4 {
		t.Errorf("%d rows hold", held)
	}
}

// mustFail says that a state is refused, by the row of that name.
func mustFail(t *testing.T, p SandboxPlan, h Host, s SandboxState, control, what string) {
	t.Helper()
	failed := CheckSandbox(p, h, s).Failed()
	if !slices.ContainsFunc(failed, func(r policy.Row) bool { return r.Control == control }) {
		t.Errorf("%s: no row %q among the failed %v", what, control, failed)
	}
}

// TestCheckSandboxMountDrift changes one thing of one mount at a time.
func TestCheckSandboxMountDrift(t *testing.T) {
	for _, uid := range []int{0, 4711} {
		plan, host := buildSandbox(t, uid)
		for i, m := range plan.Root.Mounts {
			control := "mount " + m.Target
			drift := func(what string, change func(*procfs.Mount)) {
				s := asPlanned(plan, host)
				change(&s.Mounts[i])
				mustFail(t, plan, host, s, control, control+" "+what)
			}
			for _, option := range m.Options {
				drift("without "+option, func(row *procfs.Mount) {
					row.Options = slices.DeleteFunc(slices.Clone(row.Options), func(o string) bool { return o == option })
				})
			}
			for _, option := range []string{"idmapped", "nosymfollow", "something new"} {
				drift("with "+option, func(row *procfs.Mount) { row.Options = append(row.Options, option) })
			}
			for _, field := range []string{"shared:7", "master:3", "propagate_from:2", "unbindable"} {
				drift(field, func(row *procfs.Mount) { row.Propagation = []string{field} })
			}
			drift("other root", func(row *procfs.Mount) { row.Root += "/elsewhere" })
			drift("the host's device", func(row *procfs.Mount) { row.Dev = "0:5" })
			if m.Type == mount.TypeTmpfs || m.Type == mount.TypeProc {
				drift("other type", func(row *procfs.Mount) { row.Type = "overlay" })
				for _, option := range asPlanned(plan, host).Mounts[i].SuperOptions[1:] {
					drift("without "+option, func(row *procfs.Mount) {
						row.SuperOptions = slices.DeleteFunc(slices.Clone(row.SuperOptions), func(o string) bool { return o == option })
					})
				}
			}
			s := asPlanned(plan, host)
			s.Mounts = slices.Delete(s.Mounts, i, i+1)
			mustFail(t, plan, host, s, control, control+" not there")
			s = asPlanned(plan, host)
			s.Mounts = append(s.Mounts, procfs.Mount{Target: m.Target, Type: "tmpfs", Root: "/", Dev: "0:777"})
			mustFail(t, plan, host, s, control, control+" covered")
			s = asPlanned(plan, host)
			s.Mounts = append(s.Mounts, s.Mounts[i])
			mustFail(t, plan, host, s, control, control+" twice")
		}
		s := asPlanned(plan, host)
		s.Mounts = append(s.Mounts, procfs.Mount{Target: "/home", Type: "ext4", Root: "/home", Dev: "8:1", Options: []string{"ro"}})
		mustFail(t, plan, host, s, "mount /home", "one mount more")
	}
}

// TestCheckSandboxDrift changes one thing of the rest at a time.
func TestCheckSandboxDrift(t *testing.T) {
	type drift struct {
		control string
		change  func(*SandboxState)
	}
	drifts := []drift{
		{"network.links", func(s *SandboxState) { s.Links = append(s.Links, "eth0") }},
		{"network.links", func(s *SandboxState) { s.Links = nil }},
		{"network.routes", func(s *SandboxState) { s.Routes = []string{"eth0"} }},
		{"network.routes", func(s *SandboxState) { s.Routes = []string{"lo"} }},
		{"network.routes6", func(s *SandboxState) { s.Routes6 = []string{"lo", "sit0"} }},
		{"network.addresses6", func(s *SandboxState) { s.Addresses6 = []string{"tunl0"} }},
		{"sandbox.hostname", func(s *SandboxState) { s.Hostname = "host" }},
		{"launcher.dumpable", func(s *SandboxState) { s.EnvironOwner = s.Threads[0].UIDs[0] }},
		{"launcher.executable", func(s *SandboxState) { s.Exe = "/usr/bin/sandboxd-runner" }},
		{"launcher.root", func(s *SandboxState) { s.Root = "/mnt" }},
		{"launcher.pid", func(s *SandboxState) { s.Threads[0].NSPID = []int{77, 2} }},
		{"launcher.descriptors", func(s *SandboxState) { s.FDs[5] = "/" }},
		{"launcher.descriptors", func(s *SandboxState) { s.FDs[0] = "/etc/shadow" }},
		{"launcher.descriptors", func(s *SandboxState) { delete(s.FDs, 4) }},
		{"owner /work", func(s *SandboxState) { s.Owners["/work"] = Owner{} }},
		{"owner /dev", func(s *SandboxState) { o := s.Owners["/dev"]; o.Mode = 0o777; s.Owners["/dev"] = o }},
	}
	for _, name := range NamespaceNames {
		drifts = append(drifts, drift{"namespace." + name, func(s *SandboxState) { s.Namespaces[name] = 0 }},
			drift{"namespace." + name, func(s *SandboxState) { delete(s.Namespaces, name) }})
	}
	for i := range 2 { // each thread counts, not the first only
		for j := range 4 {
			drifts = append(drifts, drift{"launcher.uid", func(s *SandboxState) { s.Threads[i].UIDs[j] = 0 }},
				drift{"launcher.gid", func(s *SandboxState) { s.Threads[i].GIDs[j] = 0 }})
		}
		drifts = append(drifts,
			drift{"launcher.signals.ignored", func(s *SandboxState) { s.Threads[i].SigIgnored &^= 1 << 14 }},
			drift{"launcher.no_new_privs", func(s *SandboxState) { s.Threads[i].NoNewPrivs = 0 }},
			drift{"launcher.capabilities", func(s *SandboxState) { s.Threads[i].Effective |= 1 << 21 }},
			drift{"launcher.capabilities", func(s *SandboxState) { s.Threads[i].Permitted |= 1 << 21 }},
			drift{"launcher.capabilities", func(s *SandboxState) { s.Threads[i].Inheritable |= 1 << 21 }},
			drift{"launcher.capabilities", func(s *SandboxState) { s.Threads[i].Bounding |= 1 << 21 }},
			drift{"launcher.capabilities", func(s *SandboxState) { s.Threads[i].Ambient = 0 }})
	}
	for _, uid := range []int{0, 4711} {
		plan, host := buildSandbox(t, uid)
		of := slices.Clone(drifts)
		for _, name := range NamespaceNames {
			own := slices.Contains(plan.Namespaces, name)
			of = append(of, drift{"namespace." + name, func(s *SandboxState) {
				if s.Namespaces[name] = host.Namespaces[name]; !own {
					s.Namespaces[name]++
				}
			}})
		}
		if uid == 0 {
			of = append(of, drift{"launcher.groups", func(s *SandboxState) { s.Threads[1].Groups = []int{27} }})
		} else {
			of = append(of, drift{"user.uid_map", func(s *SandboxState) { s.UIDMap = [][3]uint32{{0, 0, 1<<32 - 1}} }},
				drift{"user.gid_map", func(s *SandboxState) { s.GIDMap = nil }},
				drift{"user.setgroups", func(s *SandboxState) { s.SetGroups = "allow" }})
		}
		for i, d := range of {
			s := asPlanned(plan, host)
			d.change(&s)
			mustFail(t, plan, host, s, d.control, fmt.Sprintf("uid %d, drift %d of %s", uid, i, d.control))
		}
	}
}

// TestCheckSandboxGrades: what only the launcher says isn't the kernel's word.
func TestCheckSandboxGrades(t *testing.T) {
	plan, host := buildSandbox(t, 4711)
	s := asPlanned(plan, host)
	s.HostnameRead = false
	for _, row := range CheckSandbox(plan, host, s).Rows {
		want := "kernel"
		if row.Control == "sandbox.hostname" {
			want = "report"
		}
		if string(row.Evidence) != want {
			t.Errorf("%s: %s", row.Control, row.Evidence)
		}
	}
}

// TestCheckSandboxFallbackLinks: devices that the kernel makes by itself, which nobody there can use, are no drift.
func TestCheckSandboxFallbackLinks(t *testing.T) {
	plan, host := buildSandbox(t, 0)
	s := asPlanned(plan, host)
	s.Links = append(slices.Clone(fence.FallbackLinks), "lo")
	if failed := CheckSandbox(plan, host, s).Failed(); len(failed) != 0 {
		t.Error(failed)
	}
	s.Routes = []string{"tunl0"}
	mustFail(t, plan, host, s, "network.routes", strings.Join(s.Links, " "))
}
