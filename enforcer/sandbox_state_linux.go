package enforcer

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer/network/fence"
	"github.com/sandboxd/sandboxd/enforcer/procfs"
)

// ObserveSandbox reads the state of the launcher pid, which must be a child that nobody has waited for yet, so that the number stays its own.
// held is the fence that it has passed out, nil for a sandbox without one. A process that has ended is an error that wraps [os.ErrProcessDone].
func ObserveSandbox(pid int, held *fence.Fence) (SandboxState, error) {
	process, err := procfs.Open(pid)
	if err != nil {
		return SandboxState{}, err
	}
	defer process.Close()
	var state SandboxState
	for _, read := range []func(*procfs.Process, *SandboxState) error{
		observeProcess, observeMounts, observeNamespaces, observeNetwork, observeHostname,
	} {
		if err := read(process, &state); err != nil {
			if process.Ended() {
				return SandboxState{}, fmt.Errorf("launcher %d: %w", pid, os.ErrProcessDone)
			}
			return SandboxState{}, fmt.Errorf("launcher %d: %w", pid, err)
		}
	}
	if held == nil {
		return state, nil
	}
	if state.Fence, err = held.Observe(); err != nil {
		return SandboxState{}, fmt.Errorf("launcher %d: %w", pid, err)
	}
	return state, nil
}

func observeProcess(p *procfs.Process, s *SandboxState) (err error) {
	if s.Threads, err = p.Threads(); err != nil {
		return err
	}
	if s.FDs, err = p.FDs(); err != nil {
		return err
	}
	if s.Exe, err = p.Link("exe"); err != nil {
		return err
	}
	if s.ExeID, err = p.Identity("exe"); err != nil {
		return err
	}
	if s.Root, err = p.Link("root"); err != nil {
		return err
	}
	if s.RootID, err = p.Identity("root"); err != nil {
		return err
	}
	s.EnvironOwner, err = p.Owner("environ")
	return err
}

// observeMounts reads the mounts of the launcher, and the device numbers of the daemon's own: a file system that both see isn't new.
func observeMounts(p *procfs.Process, s *SandboxState) (err error) {
	if s.Mounts, err = p.Mounts(); err != nil {
		return err
	}
	self, err := procfs.Open(os.Getpid())
	if err != nil {
		return err
	}
	defer self.Close()
	outside, err := self.Mounts()
	if err != nil {
		return err
	}
	s.HostDevices = map[string]bool{}
	for _, m := range outside {
		s.HostDevices[m.Dev] = true
	}
	if s.RootSize, err = sizeOf(s, "/"); err != nil {
		return err
	}
	s.Owners = map[string]Owner{}
	for _, m := range s.Mounts {
		if m.Type != "tmpfs" && m.Type != "overlay" {
			continue
		}
		var stat unix.Stat_t
		if err := unix.Lstat(rootOf(s)+m.Target, &stat); err != nil {
			return fmt.Errorf("stat %s: %w", m.Target, err)
		}
		s.Owners[m.Target] = Owner{UID: int(stat.Uid), GID: int(stat.Gid), Mode: stat.Mode & 0o7777}
		if m.Target == "/" && m.Type == "overlay" {
			if err := observeImage(m, s); err != nil {
				return err
			}
		}
		if m.Target != "/" && m.Type == "overlay" {
			if s.LayerSize, err = sizeOf(s, m.Target); err != nil {
				return err
			}
		}
	}
	return nil
}

// sizeOf is what statfs(2) says of a mount, in the words of a tmpfs.
func sizeOf(s *SandboxState, target string) (string, error) {
	var found unix.Statfs_t
	if err := unix.Statfs(rootOf(s)+target, &found); err != nil {
		return "", fmt.Errorf("statfs %s: %w", target, err)
	}
	return fmt.Sprintf("size=%dk nr_inodes=%d", found.Blocks*uint64(found.Bsize)>>10, found.Files), nil
}

// observeImage looks at the directories right below the lower layer that the kernel names, and at the same in the sandbox.
func observeImage(m procfs.Mount, s *SandboxState) error {
	lower := superOption(m, "lowerdir=")
	entries, err := os.ReadDir(lower)
	if err != nil {
		return err
	}
	s.ImageOwners = map[string][2]int{}
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		var disk, seen unix.Stat_t
		if err := unix.Lstat(lower+"/"+entry.Name(), &disk); err != nil {
			return fmt.Errorf("stat %s: %w", entry.Name(), err)
		}
		err := unix.Lstat(rootOf(s)+"/"+entry.Name(), &seen)
		if errors.Is(err, unix.ENOENT) {
			continue // a root that can be written: a program has taken it away
		}
		if err != nil {
			return fmt.Errorf("stat /%s: %w", entry.Name(), err)
		}
		s.ImageOwners[entry.Name()] = [2]int{int(disk.Uid), int(seen.Uid)}
	}
	return nil
}

// rootOf is the launcher's root, through the link that the kernel follows by object.
func rootOf(s *SandboxState) string { return "/proc/" + strconv.Itoa(s.Threads[0].TGID) + "/root" }

func observeNamespaces(p *procfs.Process, s *SandboxState) error {
	s.Namespaces = map[string]uint64{}
	for _, name := range NamespaceNames {
		inode, err := p.Namespace(name)
		if err != nil {
			return err
		}
		s.Namespaces[name] = inode
	}
	for name, into := range map[string]*[][3]uint32{"uid_map": &s.UIDMap, "gid_map": &s.GIDMap} {
		ids, err := p.IDMap(name)
		if err != nil {
			return err
		}
		*into = ids
	}
	groups, err := os.ReadFile(rootOf(s)[:len(rootOf(s))-len("root")] + "setgroups")
	s.SetGroups = strings.TrimSpace(string(groups))
	return err
}

// observeNetwork reads the links, addresses and routes of the launcher's network namespace: /proc/PID/net is that process's own.
func observeNetwork(_ *procfs.Process, s *SandboxState) error {
	dir := strings.TrimSuffix(rootOf(s), "root") + "net/"
	for _, table := range []struct {
		name   string
		header int // lines
		column int // of the device's name; -1 is the last
		into   *[]string
	}{{"dev", 2, 0, &s.Links}, {"route", 1, 0, &s.Routes}, {"ipv6_route", 0, -1, &s.Routes6}, {"if_inet6", 0, -1, &s.Addresses6}} {
		data, err := os.ReadFile(dir + table.name)
		if os.IsNotExist(err) && strings.Contains(table.name, "6") {
			continue // a kernel without IPv6
		}
		if err != nil {
			return err
		}
		lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
		for _, line := range lines[min(table.header, len(lines)):] {
			fields := strings.Fields(line)
			if len(fields) == 0 {
				continue
			}
			column := table.column
			if column < 0 {
				column = len(fields) - 1
			}
			*table.into = append(*table.into, strings.TrimSuffix(fields[column], ":"))
		}
		slices.Sort(*table.into)
		*table.into = slices.Compact(*table.into)
	}
	return nil
}

// observeHostname asks for the name in the launcher's UTS namespace. /proc/sys/kernel/hostname is the reader's own, whatever path leads to
// it, so the only way is to be there for a moment: a thread of its own enters, asks, and comes back. An ordinary user may not enter, though
// he made it (setns(2): CAP_SYS_ADMIN in his *own* user namespace as well); then the name stays empty and only the launcher can say it.
func observeHostname(p *procfs.Process, s *SandboxState) error {
	if os.Geteuid() != 0 {
		return nil
	}
	theirs, err := os.Open(strings.TrimSuffix(rootOf(s), "root") + "ns/uts")
	if err != nil {
		return err
	}
	defer theirs.Close()
	ours, err := os.Open("/proc/thread-self/ns/uts")
	if err != nil {
		return err
	}
	defer ours.Close()
	return onThread(func() (keep bool, err error) {
		var name unix.Utsname
		if err := unix.Setns(int(theirs.Fd()), unix.CLONE_NEWUTS); err != nil {
			return true, err
		}
		err = unix.Uname(&name)
		s.Hostname, s.HostnameRead = unix.ByteSliceToString(name.Nodename[:]), err == nil
		return unix.Setns(int(ours.Fd()), unix.CLONE_NEWUTS) == nil, err
	})
}

// onThread runs do on a thread of its own, which ends after it if do doesn't say that it may be kept. Never on the main thread: what /proc/self
// says is what that one is, for whoever asks, and it can't end.
func onThread(do func() (keep bool, err error)) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			defer runtime.UnlockOSThread()
			done <- onThread(do) // elsewhere, since this one is taken until then
			return
		}
		keep, err := do()
		if keep {
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	return <-done
}
