package enforcer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer/procfs"
	"github.com/sandboxd/sandboxd/enforcer/seccomp"
)

// Location is where a process is: link texts, and "major:minor:inode" of what they lead to.
type Location struct {
	Root   string
	RootID string
	Cwd    string
	Exe    string
	ExeID  string
}

// Locate reads root, cwd and exe of a process.
func Locate(pid int) (Location, error) {
	process, err := procfs.Open(pid)
	if err != nil {
		return Location{}, err
	}
	defer process.Close()
	location, err := locate(process)
	return location, ended(process, pid, err)
}

// Namespaces reads the namespaces of a process: those of [NamespaceNames] that this kernel has.
func Namespaces(pid int) (map[string]uint64, error) {
	process, err := procfs.Open(pid)
	if err != nil {
		return nil, err
	}
	defer process.Close()
	found := make(map[string]uint64, len(NamespaceNames))
	for _, name := range NamespaceNames {
		inode, err := process.Namespace(name)
		if errors.Is(err, unix.ENOENT) && !process.Ended() {
			continue // this kernel was built without that kind
		}
		if err != nil {
			return nil, ended(process, pid, err)
		}
		found[name] = inode
	}
	return found, nil
}

// Observe reads the state of a child at its gate, the installed filter included.
//
// A process that has ended, or that is a zombie, is an error that wraps [os.ErrProcessDone]. At the gate that is a failure like any other. After
// execve ([ObserveStarted]) it may be a short program that is done; the caller then goes by the exit record. That is sound: the child was
// released under a plan that held, and it had no_new_privs, so that execve could only take rights away.
func Observe(pid int, h Host) (State, error) {
	state, err := observe(pid, h)
	if err != nil || !h.SeccompReadback || len(state.Threads) == 0 || state.Threads[0].Seccomp != unix.SECCOMP_MODE_FILTER {
		return state, err
	}
	// The first filter that was installed is the plan's; Check wants it to be the only one.
	filter, err := seccomp.Readback(pid, 0)
	if err != nil {
		return State{}, fmt.Errorf("process %d: seccomp filter: %w", pid, err)
	}
	state.Filter = filter
	return state, nil
}

// ObserveStarted reads the state of a child after execve. It doesn't trace it: it runs, and a tracer's interrupt would show in its system calls.
// A filter can't be taken away, so that mode and number say enough.
//
// That the gate is closed, which is how the daemon learns of the execve, says only that the kernel is in the middle of it: close-on-exec comes
// before the new credentials (begin_new_exec). So it first waits until these are in force.
func ObserveStarted(pid int, h Host) (State, error) {
	return observe(pid, h, (*procfs.Process).AwaitExec)
}

func observe(pid int, h Host, first ...func(*procfs.Process) error) (State, error) {
	process, err := procfs.Open(pid)
	if err != nil {
		return State{}, err
	}
	defer process.Close()
	for _, wait := range first {
		if err := wait(process); err != nil {
			return State{}, ended(process, pid, err)
		}
	}
	var state State
	if err := state.read(process, h); err != nil {
		return State{}, ended(process, pid, err)
	}
	return state, nil
}

// ended turns an error into one that wraps os.ErrProcessDone when the process's end is what caused it: the kernel answers ENOENT, EACCES or
// ESRCH for parts of a process that it has taken down already.
func ended(process *procfs.Process, pid int, err error) error {
	if err == nil {
		return nil
	}
	if process.Ended() {
		return fmt.Errorf("process %d: %w (%w)", pid, os.ErrProcessDone, err)
	}
	return fmt.Errorf("process %d: %w", pid, err)
}

func (s *State) read(process *procfs.Process, h Host) error {
	var err error
	if s.Threads, err = process.Threads(); err != nil {
		return err
	}
	if s.Limits, err = process.Limits(); err != nil {
		return err
	}
	if s.EnvironOwner, err = process.Owner("environ"); err != nil {
		return err
	}
	if h.Opaque {
		s.Opaque = true
		if s.Outline, err = outlineOf(process, s.Threads[0]); err != nil {
			return err
		}
		return s.readCgroup(process, h)
	}
	s.Namespaces = make(map[string]uint64, len(NamespaceNames))
	for _, name := range NamespaceNames {
		if _, ok := h.Namespaces[name]; !ok {
			continue // this kernel was built without that kind
		}
		if s.Namespaces[name], err = process.Namespace(name); err != nil {
			return err
		}
	}
	location, err := locate(process)
	if err != nil {
		return err
	}
	s.Root, s.RootID, s.Cwd, s.Exe, s.ExeID = location.Root, location.RootID, location.Cwd, location.Exe, location.ExeID
	if s.FDs, err = process.FDs(); err != nil {
		return err
	}
	return s.readCgroup(process, h)
}

func locate(process *procfs.Process) (location Location, err error) {
	if location.Root, err = process.Link("root"); err != nil {
		return Location{}, err
	}
	if location.Cwd, err = process.Link("cwd"); err != nil {
		return Location{}, err
	}
	if location.Exe, err = process.Link("exe"); err != nil {
		return Location{}, err
	}
	if location.RootID, err = process.Identity("root"); err != nil {
		return Location{}, err
	}
	if location.ExeID, err = process.Identity("exe"); err != nil {
		return Location{}, err
	}
	return location, nil
}

// cgroupFiles are the limits that a plan may set, by controller.
var cgroupFiles = map[string][]string{
	"cpu":    {"cpu.max"},
	"memory": {"memory.max", "memory.swap.max", "memory.oom.group"},
	"pids":   {"pids.max"},
}

// readCgroup reads membership, and the limits of that very group.
func (s *State) readCgroup(process *procfs.Process, h Host) error {
	if h.Cgroup.Mount == "" {
		return nil
	}
	var err error
	if s.Cgroup, err = process.Cgroup(); err != nil {
		return err
	}
	below, ok := strings.CutPrefix(s.Cgroup, strings.TrimSuffix(h.Cgroup.Path, "/")+"/")
	if !ok || h.Cgroup.Base == "" || below == "" {
		return nil // not one of ours: there is nothing of a plan to be read there
	}
	for _, controller := range h.Cgroup.Controllers {
		for _, name := range cgroupFiles[controller] {
			data, err := os.ReadFile(filepath.Join(h.Cgroup.Base, below, name))
			if errors.Is(err, os.ErrNotExist) {
				continue // not on this kernel, or not enabled there: Check misses it if the plan has it
			}
			if err != nil {
				return err
			}
			if s.CgroupValues == nil {
				s.CgroupValues = map[string]string{}
			}
			s.CgroupValues[name] = strings.TrimSuffix(string(data), "\n")
		}
	}
	return nil
}
