package enforcer

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer/landlock"
)

// ReadingOnly is the plan with no place to write to but devices. Landlock alone can hold that of one exec of a sandbox whose others write; the modes,
// owners, times and attributes of files, for which it has no right, are the filter's to hold.
func (p Plan) ReadingOnly(h Host) (Plan, error) {
	if p.Landlock.HandledFS&unix.LANDLOCK_ACCESS_FS_WRITE_FILE == 0 {
		return Plan{}, &RefusedError{Field: "command.readOnly", Message: "this kernel has no Landlock, which alone can keep one command of a sandbox from writing",
			HowTo: "leave it out, or use Linux 5.13 with Landlock enabled"}
	}
	if len(p.Seccomp.Program) == 0 {
		return Plan{}, &RefusedError{Field: "command.readOnly", Message: "without a filter a file's owner changes its mode, its times and its attributes",
			HowTo: "leave it out, or ask for seccompProfile RuntimeDefault"}
	}
	var err error
	if p.Seccomp, err = p.Seccomp.ReadingOnly(h.Arch); err != nil {
		return Plan{}, fmt.Errorf("command.readOnly: %w", err)
	}
	p.Landlock.Paths = slices.Clone(p.Landlock.Paths)
	for i, rule := range p.Landlock.Paths {
		if rule.Access&^(landlock.Read|landlock.Device) != 0 {
			p.Landlock.Paths[i].Access &= landlock.Read
		}
	}
	return p, nil
}
