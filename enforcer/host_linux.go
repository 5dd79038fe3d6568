package enforcer

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer/caps"
	"github.com/sandboxd/sandboxd/enforcer/cgroup"
	"github.com/sandboxd/sandboxd/enforcer/landlock"
	"github.com/sandboxd/sandboxd/enforcer/mount"
	"github.com/sandboxd/sandboxd/enforcer/network/fence"
	"github.com/sandboxd/sandboxd/enforcer/procfs"
	"github.com/sandboxd/sandboxd/enforcer/seccomp"
)

// HostConfig says what to look for on the host.
type HostConfig struct {
	// Show are the paths that sandboxes may show besides the system directories.
	Show []string
	// Attached: launchers aren't started by this daemon but connect to it, so that nothing is asked of the host that only making sandboxes takes.
	Attached bool
	// PodFence is the fence by uid that the daemon is to hold in its own network namespace; none where Variant is empty. It is made, read back and taken
	// down again.
	PodFence fence.Plan
}

// ProbeHost asks this kernel what it can do, by trying each thing once. What isn't there is a field that says so; an error is an answer that
// makes no sense, such as a /proc that can't be read.
func ProbeHost(c HostConfig) (Host, error) {
	host := Host{Arch: runtime.GOARCH, UID: os.Geteuid(), GID: os.Getegid()}
	self, err := procfs.Open(os.Getpid())
	if err != nil {
		return Host{}, err
	}
	defer self.Close()
	for _, probe := range []func(*procfs.Process) error{host.probeKernel, host.probeSelf, host.probeCgroup} {
		if err := probe(self); err != nil {
			return Host{}, fmt.Errorf("host: %w", err)
		}
	}
	host.LandlockABI = landlock.ABI()
	host.PassPidFD = tryPassPidFD()
	host.PidFDInfo = tryPidFDInfo()
	host.SeccompReadback = len(host.SeccompActions) > 0 && seccomp.ReadbackWorks() == nil
	host.SeccompListener = len(host.SeccompActions) > 0 && seccomp.ListenerWorks() == nil
	host.Terminals = tryDevpts()
	host.IPv6 = tryIPv6()
	if c.Attached {
		host.attach(c)
		return host, nil
	}
	host.UserNamespaces = tryUserNamespace() == nil
	host.tryFence()
	if host.Sources, err = mount.Sources(c.Show); err != nil {
		return Host{}, fmt.Errorf("host: %w", err)
	}
	return host, nil
}

// tryFence makes a fence, and where that can't be had one that lets no datagrams out, or doesn't tell what it refuses by itself.
func (h *Host) tryFence() {
	for _, with := range []struct{ log, datagrams bool }{{true, true}, {true, false}, {false, true}, {false, false}} {
		plan := fence.AnyIP(h.IPv6, with.log)
		if !with.datagrams {
			plan = plan.WithoutDatagrams()
		}
		err := fence.Works(plan)
		if err == nil {
			h.Fence, h.FenceLog, h.FenceDatagrams = true, with.log, with.datagrams
			break
		}
		if h.FenceWhy = err.Error(); with.log {
			h.FenceLogWhy = h.FenceWhy
		}
	}
	if h.Fence {
		h.FenceWhy = ""
	}
	if !h.Fence || h.FenceLog {
		h.FenceLogWhy = ""
	}
}

// attach is for a daemon whose launcher is somebody else's to start: what it can't make isn't asked for, and what it may not read of another uid's
// processes isn't counted on.
func (h *Host) attach(c HostConfig) {
	const sysPtrace = 19
	h.Attached, h.Opaque = true, h.Capabilities>>sysPtrace&1 == 0
	if h.Opaque { // both take the right to trace
		h.SeccompReadback, h.SeccompListener = false, false
	}
	h.Cgroup = cgroup.Host{Layout: h.Cgroup.Layout, Why: "the launcher's group is its container's, and the container's runtime limits it"}
	h.FenceWhy = "the launcher has no network namespace that is the daemon's to make"
	if c.PodFence.Variant == "" {
		h.PodFenceWhy = "not tried: a daemon makes it at its start"
		return
	}
	if err := fence.WorksHere(c.PodFence); err != nil {
		h.PodFenceWhy = err.Error()
	} else {
		h.PodFence = true
	}
}

func (h *Host) probeKernel(*procfs.Process) error {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return err
	}
	h.Kernel = unix.ByteSliceToString(name.Release[:])
	var err error
	if h.BootID, err = word("/proc/sys/kernel/random/boot_id"); err != nil {
		return err
	}
	if h.LastCapability, err = caps.Last(); err != nil {
		return err
	}
	if h.SuidDumpable, err = numberFile("/proc/sys/fs/suid_dumpable"); err != nil {
		return err
	}
	if h.Yama, err = numberFile("/proc/sys/kernel/yama/ptrace_scope"); errors.Is(err, os.ErrNotExist) {
		h.Yama = -1
	} else if err != nil {
		return err
	}
	actions, err := word("/proc/sys/kernel/seccomp/actions_avail")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	h.SeccompActions = strings.Fields(actions)
	return nil
}

func (h *Host) probeSelf(self *procfs.Process) error {
	threads, err := self.Threads()
	if err != nil {
		return err
	}
	h.Capabilities = threads[0].Effective
	h.Groups = threads[0].Groups
	limits, err := self.Limits()
	if err != nil {
		return err
	}
	h.RLimits = make(map[string]int64, len(limits))
	for _, limit := range limits {
		h.RLimits[limit.Name] = limit.Hard
	}
	ids, err := self.IDMap("uid_map")
	if errors.Is(err, os.ErrNotExist) { // no user namespaces in this kernel: then there is only the initial one
		ids, err = [][3]uint32{{0, 0, 1<<32 - 1}}, nil
	}
	if err != nil {
		return err
	}
	h.InitialUserNamespace = len(ids) == 1 && ids[0] == [3]uint32{0, 0, 1<<32 - 1}
	h.Namespaces, err = Namespaces(os.Getpid())
	return err
}

func (h *Host) probeCgroup(self *procfs.Process) error {
	rows, err := self.Mounts()
	if err != nil {
		return err
	}
	start, err := self.StartTime()
	if err != nil {
		return err
	}
	name := cgroup.Name(os.Getpid(), start, h.Namespaces["pid"])
	var mounts []cgroup.Mount
	unified := false
	for _, row := range rows {
		unified = unified || row.Type == "cgroup2"
		mounts = append(mounts, cgroup.Mount{Type: row.Type, Root: row.Root, Target: row.Target, Options: row.SuperOptions})
	}
	own := ""
	if unified {
		if own, err = self.Cgroup(); err != nil {
			return err
		}
	}
	h.Cgroup = cgroup.ProbeHost(mounts, own, name)
	return nil
}

// nowhere is a program that isn't there.
const nowhere = "/proc/self/fd/none"

// tryUserNamespace makes a user namespace with one id, and a mount namespace in it, in a throw-away child: some kernels give the first and then
// refuse every right in it. The child then executes a program that isn't there: that very error says that all before it went well.
func tryUserNamespace() error {
	uid, gid := os.Geteuid(), os.Getegid()
	process, err := os.StartProcess(nowhere, []string{nowhere}, &os.ProcAttr{Sys: &syscall.SysProcAttr{
		Cloneflags:   syscall.CLONE_NEWUSER,
		Unshareflags: syscall.CLONE_NEWNS,
		UidMappings:  []syscall.SysProcIDMap{{ContainerID: InsideID, HostID: uid, Size: 1}},
		GidMappings:  []syscall.SysProcIDMap{{ContainerID: InsideID, HostID: gid, Size: 1}},
	}})
	if err == nil {
		_ = process.Kill()
		_, _ = process.Wait()
		return errors.New(nowhere + " was executed")
	}
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// IPv6 says whether sockets of that family can be made.
func IPv6() bool { return tryIPv6() }

// tryIPv6 makes a socket of that family, which a kernel without it or with ipv6.disable=1 refuses.
func tryIPv6() bool {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	return unix.Close(fd) == nil
}

// tryPassPidFD asks for pidfds with messages (Linux 6.5).
func tryPassPidFD() bool {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSPIDFD, 1) == nil
}

// tryPidFDInfo asks a pidfd for information (PIDFD_GET_INFO, Linux 6.13) without saying where to put it: a kernel that knows the question
// answers EINVAL, another one ENOTTY.
func tryPidFDInfo() bool {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return errors.Is(unix.IoctlSetInt(fd, unix.PIDFD_GET_INFO, 0), unix.EINVAL)
}

func word(file string) (string, error) {
	data, err := os.ReadFile(file)
	return strings.TrimSpace(string(data)), err
}

func numberFile(file string) (int, error) {
	text, err := word(file)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}
