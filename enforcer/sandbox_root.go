package enforcer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/enforcer/landlock"
	"github.com/sandboxd/sandboxd/enforcer/mount"
	"github.com/sandboxd/sandboxd/enforcer/network/fence"
)

// buildRoot is the file system of a sandbox: what [mount.Sources] found of the system's and what is asked for, all read-only, and its own rest.
// owner is who owns the parts that nobody may change.
func buildRoot(h Host, s SandboxSpec, owner, child Identity) (mount.Root, error) {
	root := mount.Root{FIFOs: []string{landlock.ProbeFIFO}, Files: etc(s, child, h.Fence)}
	if s.Image != nil {
		base, err := overlay(h, *s.Image, owner, child)
		if err != nil {
			return mount.Root{}, err
		}
		root.Mounts = []mount.Mount{base}
	} else {
		root.Mounts = []mount.Mount{tmpfs("/", 4<<20, 0o755, owner, "nodev", "nosuid", "ro")}
	}
	null, err := showSources(&root, h, s)
	if err != nil {
		return mount.Root{}, err
	}
	root.Mounts = append(root.Mounts, mount.Mount{Target: "/proc", Type: mount.TypeProc, Dir: true, Options: []string{"nodev", "noexec", "nosuid"}})
	for _, source := range h.Sources {
		switch source.Use {
		case mount.Hide:
			root.Mounts = append(root.Mounts, mask(source, null, owner))
		case mount.Freeze:
			root.Mounts = append(root.Mounts, mount.Mount{Target: source.Path, Type: mount.TypeSelf, Root: source.Root, Dir: source.Dir,
				Options: []string{"nodev", "noexec", "nosuid", "ro"}})
		}
	}
	root.Mounts = append(root.Mounts, tmpfs("/dev", minTmpfs, 0o755, owner, "nodev", "noexec", "nosuid", "ro"))
	for _, source := range h.Sources {
		if source.Use == mount.Device {
			root.Mounts = append(root.Mounts, bind(source, "noexec", "nosuid", "ro"))
		}
	}
	root.Mounts = append(root.Mounts,
		tmpfs("/dev/shm", s.TmpBytes, 0o1777, owner, "nodev", "noexec", "nosuid"),
		tmpfs("/tmp", s.TmpBytes, 0o1777, owner, "nodev", "nosuid"),
		// Every exec of a sandbox works here, under whichever uid policy gave it. Who has another can't take away the files of others, for the sticky
		// bit; the sandbox's own uid, with which its client's file operations come too, owns the directory and can. It isn't root's, since git and
		// others refuse a directory that is somebody else's.
		tmpfs("/work", s.WorkBytes, 0o1777, child, "nodev", "nosuid"))
	if s.Layered {
		root.Mounts[len(root.Mounts)-1].Type = mount.TypeLayer
	}
	if h.LandlockABI > 0 { // else it would be one more place to write to, and nothing to prove
		root.Mounts = append(root.Mounts, tmpfs(landlock.ProbeDir, minTmpfs, 0o777, child, "nodev", "noexec", "nosuid"))
		for _, name := range []string{"/file", "/dir/file"} {
			root.Files = append(root.Files, mount.File{Path: landlock.ProbeDir + name, Mode: 0o666})
		}
	}
	root.Symlinks = append(root.Symlinks,
		mount.Symlink{Path: "/dev/fd", Target: "/proc/self/fd"},
		mount.Symlink{Path: "/dev/stdin", Target: "/proc/self/fd/0"},
		mount.Symlink{Path: "/dev/stdout", Target: "/proc/self/fd/1"},
		mount.Symlink{Path: "/dev/stderr", Target: "/proc/self/fd/2"},
		mount.Symlink{Path: "/etc/mtab", Target: "/proc/self/mounts"})
	return root, unique(root)
}

// showSources puts the host's directories in, and returns the null device, which masks are made of. A root of an image shows none of them.
func showSources(root *mount.Root, h Host, spec SandboxSpec) (null mount.Source, err error) {
	show := spec.Show
	asked := func(s mount.Source) bool {
		return s.For == "" || slices.ContainsFunc(show, func(path string) bool { return path == s.For || strings.HasPrefix(path, s.For+"/") })
	}
	for _, path := range show {
		if !slices.ContainsFunc(h.Sources, func(s mount.Source) bool { return asked(s) && (s.Path == path || within(path, s)) }) {
			return null, &RefusedError{Field: "sandbox.show", Message: fmt.Sprintf("%q is not among what this daemon may show", path),
				HowTo: "start sandboxd with --show " + path}
		}
	}
	for _, source := range h.Sources {
		if !asked(source) {
			continue
		}
		switch {
		case spec.Image != nil && source.Use != mount.Device:
		case source.Use == mount.Show && source.Link != "":
			root.Symlinks = append(root.Symlinks, mount.Symlink{Path: source.Path, Target: source.Link})
		case source.Use == mount.Show:
			root.Mounts = append(root.Mounts, bind(source, "nodev", "nosuid", "ro"))
		case source.Use == mount.Sub:
			sub := bind(source, "nodev", "nosuid", "ro")
			sub.Type, sub.Source = mount.TypeSub, ""
			root.Mounts = append(root.Mounts, sub)
		case source.Use == mount.Device:
			if slices.Contains(source.Options, "nodev") {
				return null, &RefusedError{Field: "sandbox.devices", Message: source.Path + " lies on a mount with nodev, so it can't be opened",
					HowTo: "mount /dev without nodev"}
			}
			if source.Path == "/dev/null" {
				null = source
			}
		}
	}
	if null.Path == "" {
		return null, &RefusedError{Field: "sandbox.devices", Message: "this host's sources have no null device", HowTo: "make /dev/null"}
	}
	return null, nil
}

func within(path string, s mount.Source) bool {
	return s.Use == mount.Show && s.Link == "" && strings.HasPrefix(path, s.Path+"/")
}

// bind shows a source with its own options and these.
func bind(source mount.Source, options ...string) mount.Mount {
	options = append(options, source.Options...)
	slices.Sort(options)
	return mount.Mount{Target: source.Path, Type: mount.TypeBind, Source: source.Path, Dir: source.Dir, Device: source.Use == mount.Device,
		Dev: source.Dev, Root: source.Root, Options: slices.Compact(options)}
}

func tmpfs(target string, size int64, mode uint32, owner Identity, options ...string) mount.Mount {
	// An empty file costs the kernel about a kilobyte that size doesn't count.
	inodes := max(size/4096, 1024)
	return mount.Mount{Target: target, Type: mount.TypeTmpfs, Dir: true, Options: options, Size: roundUp(size), Inodes: inodes, Mode: mode,
		UID: owner.UID, GID: owner.GID}
}

// roundUp is a size as the kernel keeps it, in whole pages; 64 KiB is the largest page of any architecture here.
func roundUp(size int64) int64 { return (size + minTmpfs - 1) / minTmpfs * minTmpfs }

// mask hides a path of /proc.
func mask(source, null mount.Source, owner Identity) mount.Mount {
	if source.Dir {
		m := tmpfs(source.Path, minTmpfs, 0o555, owner, "nodev", "noexec", "nosuid", "ro")
		m.Type = mount.TypeMask
		return m
	}
	m := bind(null, "noexec", "nosuid", "ro")
	m.Type, m.Target = mount.TypeMask, source.Path
	return m
}

// unique refuses a root in which two things have one place.
func unique(root mount.Root) error {
	seen := map[string]bool{}
	add := func(path string) error {
		if seen[path] {
			return &RefusedError{Field: "sandbox.show", Message: path + " is made by sandboxd in every sandbox", HowTo: "show a directory of another name"}
		}
		seen[path] = true
		return nil
	}
	for _, m := range root.Mounts {
		if m.Type == mount.TypeSub {
			continue // several may lie on top of each other
		}
		if err := add(m.Target); err != nil {
			return err
		}
	}
	for _, f := range root.Files {
		if err := add(f.Path); err != nil {
			return err
		}
	}
	for _, link := range root.Symlinks {
		if err := add(link.Path); err != nil {
			return err
		}
	}
	return nil
}

// etc are the files that libraries look for. They name nobody and nothing of the host. Behind a fence any address is the name server that answers for
// the sandbox; without one names fail at once where asking would wait. An image has its own users and services, to which the sandbox's user is added.
func etc(s SandboxSpec, child Identity, fenced bool) []mount.File {
	file := func(path string, lines ...string) mount.File {
		return mount.File{Path: path, Content: strings.Join(lines, "\n") + "\n", Mode: 0o444}
	}
	resolvConf, hosts := "# no name server can be reached from here", "hosts: files"
	if fenced {
		resolvConf, hosts = "nameserver "+fence.Own4.String(), "hosts: files dns"
	}
	user := fmt.Sprintf("sandbox:x:%d:%d:sandbox:/work:/bin/sh", child.UID, child.GID)
	group := fmt.Sprintf("sandbox:x:%d:", child.GID)
	files := []mount.File{
		file("/etc/hostname", s.Hostname),
		file("/etc/hosts", "127.0.0.1 localhost "+s.Hostname, "::1 localhost "+s.Hostname),
		file("/etc/resolv.conf", resolvConf),
		file("/etc/nsswitch.conf", "passwd: files", "group: files", "shadow: files", hosts, "services: files", "protocols: files"),
	}
	if s.Image != nil {
		return append(files, file("/etc/passwd", user, strings.TrimSuffix(s.Image.Passwd, "\n")), file("/etc/group", group, strings.TrimSuffix(s.Image.Group, "\n")))
	}
	return append(files,
		file("/etc/passwd", "root:x:0:0:root:/:/bin/false", user, "nobody:x:65534:65534:nobody:/:/bin/false"),
		file("/etc/group", "root:x:0:", group, "nogroup:x:65534:"))
}
