package cgroup

import (
	"context"
	"errors"
	"os"
)

// Group is one cgroup that this process made, held open.
type Group struct {
	dir  *os.File
	path string
	host Host
}

// Make makes the group <Base>/<name>, its cgroup.procs owned by owner (-1: leave it), with every controller of the host enabled for its children.
func (h Host) Make(name string, owner int) (*Group, error) { return nil, errors.ErrUnsupported }

// Sub makes a group below g. A leaf gets no controllers for children of its own.
func (g *Group) Sub(name string, owner int, leaf bool) (*Group, error) {
	return nil, errors.ErrUnsupported
}

// Path is the group as /proc/PID/cgroup says it: "/sandboxd-12/ab/exec".
func (g *Group) Path() string { return g.path }

// FD is the group's directory, for CLONE_INTO_CGROUP; it belongs to g.
func (g *Group) FD() int { return int(g.dir.Fd()) }

// Set writes values by file name.
func (g *Group) Set(values map[string]string) error { return errors.ErrUnsupported }

// Read reads files, without their last newline.
func (g *Group) Read(names []string) (map[string]string, error) { return nil, errors.ErrUnsupported }

// Add moves a process into the group.
func (g *Group) Add(pid int) error { return errors.ErrUnsupported }

// Kill sends SIGKILL to every process in the group and below it, and to none twice.
func (g *Group) Kill() error { return errors.ErrUnsupported }

// Freeze stops (true) or thaws every process in the group.
func (g *Group) Freeze(frozen bool) error { return errors.ErrUnsupported }

// WaitEmpty returns nil when the kernel says that no process is left in the group or below it, or the context's error.
func (g *Group) WaitEmpty(ctx context.Context) error { return errors.ErrUnsupported }

// OOMKills is how many processes of the group the kernel killed for memory; 0 where the memory controller isn't enabled.
func (g *Group) OOMKills() (int64, error) { return 0, errors.ErrUnsupported }

// Remove removes the group, which must be empty, and closes it.
func (g *Group) Remove() error { return errors.ErrUnsupported }
