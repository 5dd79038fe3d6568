package cgroup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// staleBound is how long the tree of a dead daemon may take to end after it was killed.
const staleBound = 10 * time.Second

// Group is one cgroup that this process made, held open: files are opened below that directory, so that they are never those of another group
// that got the same name later.
type Group struct {
	dir         *os.File
	name        string // of the directory
	path        string
	controllers []string
	spent       atomic.Bool // it was killed or frozen
}

// Make makes the group of that name in Base. Its cgroup.procs belongs to owner (-1: to the daemon), and every controller of the host is enabled
// for its children.
func (h Host) Make(name string, owner int) (*Group, error) {
	if h.Base == "" {
		return nil, fmt.Errorf("cgroup: %w: %s", errors.ErrUnsupported, h.Why)
	}
	base := &Group{name: h.Base, path: h.Path, controllers: h.Controllers}
	var err error
	if base.dir, err = os.Open(h.Base); err != nil {
		return nil, err
	}
	defer base.dir.Close()
	if err := base.Enable(); err != nil {
		return nil, err
	}
	return base.Sub(name, owner, false)
}

// Sub makes a group below g. A leaf has processes, and enables nothing for children of its own.
func (g *Group) Sub(name string, owner int, leaf bool) (*Group, error) {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\n\x00") {
		return nil, fmt.Errorf("cgroup: name %q", name)
	}
	if err := unix.Mkdirat(g.fd(), name, 0o755); err != nil {
		return nil, &os.PathError{Op: "mkdir", Path: filepath.Join(g.name, name), Err: err}
	}
	sub, err := g.openSub(name)
	if err != nil {
		return nil, errors.Join(err, unix.Unlinkat(g.fd(), name, unix.AT_REMOVEDIR))
	}
	if owner >= 0 {
		err = unix.Fchownat(sub.fd(), "cgroup.procs", owner, -1, unix.AT_SYMLINK_NOFOLLOW)
	}
	if err == nil && !leaf {
		err = sub.Enable()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cgroup %s: %w", sub.path, err), sub.Remove())
	}
	return sub, nil
}

func (h Host) open(name string) (*Group, error) {
	dir, err := os.Open(h.Base)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return (&Group{dir: dir, name: h.Base, path: h.Path, controllers: h.Controllers}).openSub(name)
}

func (g *Group) openSub(name string) (*Group, error) {
	fd, err := unix.Openat(g.fd(), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	full := filepath.Join(g.name, name)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: full, Err: err}
	}
	return &Group{dir: os.NewFile(uintptr(fd), full), name: full, path: path.Join(g.path, name), controllers: g.controllers}, nil
}

// Enable makes the controllers available to children of a group that has no process itself. One write for each: a write with several is refused whole.
func (g *Group) Enable() error {
	if len(g.controllers) == 0 {
		return nil
	}
	data, err := g.read("cgroup.subtree_control")
	if err != nil {
		return err
	}
	have := strings.Fields(string(data))
	for _, controller := range g.controllers {
		if slices.Contains(have, controller) {
			continue
		}
		if err := g.write("cgroup.subtree_control", "+"+controller); err != nil {
			return err
		}
	}
	return nil
}

// Path is the group as /proc/PID/cgroup says it: "/sandboxd-1-2-3/ab/exec".
func (g *Group) Path() string { return g.path }

// Dir is the group's directory.
func (g *Group) Dir() string { return g.name }

// Reusable says whether an empty group is as good as a new one: it has no limits and counts, which stay when all who were in it have left, and
// was never killed or frozen. Into a group that was killed before, the kernel kills who is cloned (6.18: fork compares the group's count of kills with that
// of the parent's group).
func (g *Group) Reusable() bool { return len(g.controllers) == 0 && !g.spent.Load() }

// FD is the group's directory, open, for CLONE_INTO_CGROUP; it belongs to g.
func (g *Group) FD() int { return g.fd() }

func (g *Group) fd() int { return int(g.dir.Fd()) }

// Set writes values by file name.
func (g *Group) Set(values map[string]string) error {
	for name, value := range values {
		if err := g.write(name, value); err != nil {
			return err
		}
	}
	return nil
}

// Read reads files by name, without the newline at the end.
func (g *Group) Read(names []string) (map[string]string, error) {
	values := make(map[string]string, len(names))
	for _, name := range names {
		data, err := g.read(name)
		if err != nil {
			return nil, err
		}
		values[name] = string(bytes.TrimSuffix(data, []byte{'\n'}))
	}
	return values, nil
}

// Add moves a process into the group.
func (g *Group) Add(pid int) error { return g.write("cgroup.procs", strconv.Itoa(pid)) }

// Kill sends SIGKILL to every process in the group and below it, those being forked right now included (cgroup.kill). That it is done is what
// [Group.WaitEmpty] says, not this.
func (g *Group) Kill() error {
	g.spent.Store(true)
	return g.write("cgroup.kill", "1")
}

// Freeze stops (true) or thaws every process in the group and below it.
func (g *Group) Freeze(frozen bool) error {
	if frozen {
		g.spent.Store(true) // nobody else is to be born into it
		return g.write("cgroup.freeze", "1")
	}
	return g.write("cgroup.freeze", "0")
}

// Procs are the processes in the group itself, by their numbers in this PID namespace; 0 stands for one that isn't seen from here.
func (g *Group) Procs() ([]int, error) {
	fd, err := g.openFile("cgroup.procs", unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), g.path+"/cgroup.procs")
	defer file.Close()
	data, err := io.ReadAll(file) // longer than what read takes
	if err != nil {
		return nil, fmt.Errorf("cgroup %s: %w", g.path, err)
	}
	var pids []int
	for _, word := range strings.Fields(string(data)) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			return nil, fmt.Errorf("cgroup %s: cgroup.procs: %w", g.path, err)
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// Populated says whether a process that hasn't ended is in the group or below it. Zombies don't count.
func (g *Group) Populated() (bool, error) {
	data, err := g.read("cgroup.events")
	if err != nil {
		return false, err
	}
	return populated(data)
}

func populated(data []byte) (bool, error) {
	switch value, _ := field(data, "populated"); value {
	case "0":
		return false, nil
	case "1":
		return true, nil
	}
	return false, fmt.Errorf("cgroup.events: %q", data)
}

// OOMKills is how many processes of the group and below it the kernel killed for memory; 0 where the memory controller isn't enabled.
func (g *Group) OOMKills() (int64, error) {
	if !slices.Contains(g.controllers, "memory") {
		return 0, nil
	}
	data, err := g.read("memory.events")
	if err != nil {
		return 0, err
	}
	return oomKills(data)
}

// oomKills counts from memory.events. Where a whole group goes (memory.oom.group), the kernel counts the process that it chose first once for
// itself and once more as a member; how often that happened is oom_group_kill (Linux 5.17).
func oomKills(data []byte) (int64, error) {
	text, ok := field(data, "oom_kill")
	if !ok {
		return 0, fmt.Errorf("memory.events: %q", data)
	}
	kills, err := strconv.ParseInt(text, 10, 64)
	if err != nil || kills == 0 {
		return 0, err
	}
	if text, ok := field(data, "oom_group_kill"); ok {
		groups, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, err
		}
		kills = max(kills-groups, 1)
	}
	return kills, nil
}

// CPUTime is the processor time, user and system, that processes of the group and below it have used, those that have ended included. The kernel
// counts it for every group, whether or not the cpu controller is enabled (cpu.stat).
func (g *Group) CPUTime() (time.Duration, error) {
	data, err := g.read("cpu.stat")
	if err != nil {
		return 0, err
	}
	return cpuTime(data)
}

func cpuTime(data []byte) (time.Duration, error) {
	text, ok := field(data, "usage_usec")
	if !ok {
		return 0, fmt.Errorf("cpu.stat: %q", data)
	}
	used, err := strconv.ParseInt(text, 10, 64)
	if err != nil || used < 0 {
		return 0, fmt.Errorf("cpu.stat: usage_usec %q", text)
	}
	return time.Duration(used) * time.Microsecond, nil
}

// Remove removes the group, which must be empty and without children, and closes it in any case.
func (g *Group) Remove() error {
	defer g.dir.Close()
	if err := unix.Rmdir(g.name); err != nil && !errors.Is(err, unix.ENOENT) {
		return &os.PathError{Op: "rmdir", Path: g.name, Err: err}
	}
	return nil
}

// Destroy kills everything in the group and below it, waits for the kernel's word that it is empty, and removes it with all below it.
func (g *Group) Destroy(ctx context.Context) error {
	if err := errors.Join(g.Kill(), g.WaitEmpty(ctx)); err != nil {
		g.dir.Close()
		return err
	}
	children, err := os.ReadDir(g.name)
	errs := []error{err}
	for _, child := range children {
		if child.IsDir() {
			errs = append(errs, removeTree(filepath.Join(g.name, child.Name())))
		}
	}
	return errors.Join(append(errs, g.Remove())...)
}

func (g *Group) destroyWithin(bound time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	return g.Destroy(ctx)
}

// removeTree removes a directory of empty groups, the deepest first. os.RemoveAll would try to unlink the kernel's files.
func removeTree(dir string) error {
	children, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, child := range children {
		if child.IsDir() {
			if err := removeTree(filepath.Join(dir, child.Name())); err != nil {
				return err
			}
		}
	}
	if err := unix.Rmdir(dir); err != nil {
		return &os.PathError{Op: "rmdir", Path: dir, Err: err}
	}
	return nil
}

func (g *Group) write(name, value string) error {
	fd, err := g.openFile(name, unix.O_WRONLY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if _, err := unix.Write(fd, []byte(value)); err != nil {
		return fmt.Errorf("cgroup %s: write %q to %s: %w", g.path, value, name, err)
	}
	return nil
}

func (g *Group) read(name string) ([]byte, error) {
	fd, err := g.openFile(name, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var buf [4096]byte
	n, err := unix.Pread(fd, buf[:], 0)
	if err != nil {
		return nil, fmt.Errorf("cgroup %s: read %s: %w", g.path, name, err)
	}
	return bytes.Clone(buf[:n]), nil
}

func (g *Group) openFile(name string, flags int) (int, error) {
	if strings.ContainsAny(name, "/\x00") {
		return -1, fmt.Errorf("cgroup: file name %q", name)
	}
	fd, err := unix.Openat(g.fd(), name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("cgroup %s: open %s: %w", g.path, name, err)
	}
	return fd, nil
}
