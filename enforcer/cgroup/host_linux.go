package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// ProbeHost finds out what this process may do with cgroups, by trying: mounts are its own mountinfo, own is its group as /proc/self/cgroup says
// it, name the daemon's [Name]. It leaves nothing behind.
func ProbeHost(mounts []Mount, own, name string) Host {
	host := Host{Daemon: name}
	var unified *Mount
	if host.Layout, unified = layout(mounts); unified == nil {
		host.Why = "no version 2 hierarchy is mounted"
		return host
	}
	host.Mount, host.NSDelegate = unified.Target, slices.Contains(unified.Options, "nsdelegate")
	var reasons []string
	for _, group := range candidates(*unified, own) {
		dir, ok := directory(*unified, group)
		if !ok {
			reasons = append(reasons, fmt.Sprintf("%s isn't below the mount at %s", group, unified.Target))
			continue
		}
		try := host
		if err := try.probe(dir, group); err != nil {
			reasons = append(reasons, err.Error())
			continue
		}
		// The first that can be used at all is taken, unless a later one has more controllers.
		if host.Base == "" || len(try.Controllers) > len(host.Controllers) {
			host = try
		}
	}
	if host.Base == "" {
		host.Why = strings.Join(reasons, "; ")
	}
	return host
}

// candidates are the groups that may be a base: the daemon's own; the one above, where its manager has given that away (systemd marks it); and,
// for root, the top, as container engines do.
func candidates(mount Mount, own string) []string {
	list := []string{own}
	if above := path.Dir(own); above != own && delegated(mount, above) {
		list = append(list, above)
	}
	if top := mount.Root; os.Geteuid() == 0 && !slices.Contains(list, top) {
		list = append(list, top)
	}
	return list
}

// delegated says whether systemd handed the group over (Delegate=, with DelegateSubgroup= for the daemon itself): systemd.resource-control(5).
func delegated(mount Mount, group string) bool {
	dir, ok := directory(mount, group)
	if !ok {
		return false
	}
	var value [2]byte
	for _, name := range []string{"user.delegate", "trusted.delegate"} {
		if n, err := unix.Getxattr(dir, name, value[:]); err == nil && string(value[:n]) == "1" {
			return true
		}
	}
	return false
}

// probe tries one directory as base.
func (h *Host) probe(dir, group string) (err error) {
	probe, err := os.MkdirTemp(dir, fmt.Sprintf("sandboxd-probe-%d-", os.Getpid()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unix.Rmdir(probe)) }()
	// Below a group that is threaded, or that has become the root of threaded ones, a new group can't have processes ("domain invalid").
	if kind, err := os.ReadFile(filepath.Join(probe, "cgroup.type")); err != nil || strings.TrimSpace(string(kind)) != "domain" {
		return fmt.Errorf("a group in %s is of type %q: %w", dir, kind, errors.Join(errors.ErrUnsupported, err))
	}
	h.Base, h.Path = dir, group
	_, err = os.Stat(filepath.Join(probe, "cgroup.kill"))
	h.Kill = err == nil
	_, err = os.Stat(filepath.Join(probe, "cgroup.freeze"))
	h.Freeze = err == nil
	h.Controllers, h.Why = usableControllers(dir, func(controller string) {
		if controller == "memory" {
			_, err := os.Stat(filepath.Join(probe, "memory.swap.max"))
			h.Swap = err == nil
		}
	})
	return nil
}

// usableControllers are the known ones that children of a group have or can get; found is called while one is enabled. Those that are enabled
// for the try are disabled again.
func usableControllers(dir string, found func(controller string)) (usable []string, why string) {
	available, err := words(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return nil, err.Error()
	}
	// Only the root may have processes and hand controllers on. The kernel lets cpu and pids through elsewhere, but what it makes then are threaded
	// groups, whose children can't have processes.
	if _, err := os.Stat(filepath.Join(dir, "cgroup.type")); err == nil {
		if own, err := words(filepath.Join(dir, "cgroup.procs")); err != nil || len(own) > 0 {
			return []string{}, fmt.Sprintf("%s has processes of its own, so no controller can be enabled for groups in it", dir)
		}
	}
	control := filepath.Join(dir, "cgroup.subtree_control")
	enabled, err := words(control)
	if err != nil {
		return nil, err.Error()
	}
	var missing []string
	usable = []string{}
	for _, controller := range known {
		switch {
		case slices.Contains(enabled, controller):
			usable = append(usable, controller)
			found(controller)
		case !slices.Contains(available, controller):
			missing = append(missing, controller+" isn't available in "+dir)
		default:
			if err := write(control, "+"+controller); errors.Is(err, unix.EBUSY) {
				missing = append(missing, controller+" can't be enabled while "+dir+" has processes of its own (EBUSY)")
			} else if err != nil {
				missing = append(missing, controller+": "+err.Error())
			} else {
				usable = append(usable, controller)
				found(controller)
				// EBUSY: meanwhile another daemon uses it for groups of its own.
				if err := write(control, "-"+controller); err != nil && !errors.Is(err, unix.EBUSY) {
					missing = append(missing, err.Error())
				}
			}
		}
	}
	return usable, strings.Join(missing, "; ")
}

// CleanStale kills and removes the groups of daemons of this PID namespace that are gone, which running tells by pid and start time. Groups of
// running daemons, of other PID namespaces, and of other makers are left alone.
func (h Host) CleanStale(running func(pid int, start uint64) bool) error {
	if h.Base == "" {
		return nil
	}
	_, _, own, ok := parseName(h.Daemon)
	if !ok {
		return fmt.Errorf("cgroup: daemon's group has no name: %q", h.Daemon)
	}
	entries, err := os.ReadDir(h.Base)
	if err != nil {
		return err
	}
	var errs []error
	for _, entry := range entries {
		pid, start, pidNamespace, ours := parseName(entry.Name())
		if !entry.IsDir() || !ours || pidNamespace != own || running(pid, start) {
			continue
		}
		group, err := h.open(entry.Name())
		if err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, group.destroyWithin(staleBound))
	}
	return errors.Join(errs...)
}

func words(file string) ([]string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return strings.Fields(string(data)), nil
}

// write writes a control file in one call, which is how the kernel takes it.
func write(file, value string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteString(value); err != nil {
		var pathError *fs.PathError
		if errors.As(err, &pathError) {
			err = pathError.Err
		}
		return fmt.Errorf("write %q to %s: %w", value, file, err)
	}
	return nil
}

// field finds "name value" in a flat keyed file.
func field(data []byte, name string) (string, bool) {
	for line := range bytes.Lines(data) {
		key, value, ok := bytes.Cut(bytes.TrimSuffix(line, []byte{'\n'}), []byte{' '})
		if ok && string(key) == name {
			return string(value), true
		}
	}
	return "", false
}
