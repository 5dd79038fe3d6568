package execd

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/enforcer/mount"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/runner"
	"github.com/sandboxd/sandboxd/runner/file"
)

// fileProgram is our own binary in the mode "file": the daemon itself touches no name in a sandbox.
func fileProgram(f policy.File, box enforcer.SandboxPlan, limits policy.Limits, t *transfer) (*program, error) {
	order, err := fileOrder(f, box, limits, t)
	if err != nil {
		return nil, err
	}
	made := &program{}
	made.Argv, made.Cwd, made.Own = []string{runner.Name, "file", order.Argument()}, "/", true
	made.Env = []string{"GOMAXPROCS=1"} // its threads count against the sandbox's processes
	if !slices.Contains([]string{file.Read, file.Gather, file.Write, file.Replace}, order.Operation) {
		return made, nil
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	theirs := write
	if t.ours = read; f.Operation == policy.FileWrite {
		t.ours, theirs = write, read
	}
	t.limit = limits.FileBytes
	made.extra, made.Extra = []*os.File{theirs}, 1
	return made, nil
}

// fileOrder is what the child is told. A façade has said it whole, but for its limit.
func fileOrder(f policy.File, box enforcer.SandboxPlan, limits policy.Limits, t *transfer) (file.Order, error) {
	var order file.Order
	if t.order != nil {
		order = *t.order
	} else {
		base, path, err := filePlace(box.Root, f.Absolute())
		if err != nil {
			return order, err
		}
		order = file.Order{Operation: string(f.Operation), Base: base, Path: path, Mode: -1, Parents: f.Parents, Range: t.part}
		if f.Mode != nil {
			order.Mode = int(*f.Mode)
		}
		if t.gather {
			order.Operation = file.Gather
		}
	}
	if order.Limit = limits.FileBytes; f.Operation == policy.FileList && order.Operation != file.Gather {
		order.Limit = limits.OutputBytes
	}
	return order, nil
}

// filePlace finds the mount that holds a path, from the plan of the sandbox, and the path beneath it. A mount's root stays where it is, whatever
// programs rename, so that nothing beneath it can be moved out.
func filePlace(root mount.Root, path string) (base, below string, err error) {
	var found mount.Mount
	for _, m := range root.Mounts {
		if m.Dir && isBeneath(path, m.Target) && len(m.Target) >= len(found.Target) {
			found = m
		}
	}
	switch found.Type {
	case mount.TypeTmpfs, mount.TypeBind, mount.TypeSub, mount.TypeOverlay, mount.TypeLayer:
		return found.Target, strings.Trim(strings.TrimPrefix(path, found.Target), "/"), nil
	}
	return "", "", &enforcer.RefusedError{Field: "file.path", Message: fmt.Sprintf("%s holds what the kernel tells, not files", found.Target), HowTo: "name a file under /work or /tmp"}
}

func isBeneath(path, target string) bool {
	return path == target || target == "/" || strings.HasPrefix(path, target+"/")
}
