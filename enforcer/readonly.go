package enforcer

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer/landlock"
)

// ReadingOnly is the plan with no place to write to but devices. Landlock alone can hold that of one exec of a sandbox whose others write.
func (p Plan) ReadingOnly() (Plan, error) {
	if p.Landlock.HandledFS&unix.LANDLOCK_ACCESS_FS_WRITE_FILE == 0 {
		return Plan{}, &RefusedError{Field: "command.readOnly", Message: "this kernel has no Landlock, which alone can keep one command of a sandbox from writing",
			HowTo: "leave it out, or use Linux 5.13 with Landlock enabled"}
	}
	p.Landlock.Paths = slices.Clone(p.Landlock.Paths)
	for i, rule := range p.Landlock.Paths {
		if rule.Access&^(landlock.Read|landlock.Device) != 0 {
			p.Landlock.Paths[i].Access &= landlock.Read
		}
	}
	return p, nil
}
