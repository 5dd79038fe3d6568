package mount

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// system are the paths that every sandbox shows where the host has them: programs, libraries, and the few files of /etc that these read.
var system = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
	"/etc/alternatives", "/etc/ca-certificates", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime",
	"/etc/mime.types", "/etc/pki", "/etc/protocols", "/etc/services", "/etc/ssl",
}

// devices are the character devices of a sandbox, the null device first, by the numbers that the kernel's drivers/char/mem.c gives them.
var devices = []struct {
	path         string
	major, minor uint32
}{
	{"/dev/null", 1, 3},
	{"/dev/zero", 1, 5},
	{"/dev/full", 1, 7},
	{"/dev/random", 1, 8},
	{"/dev/urandom", 1, 9},
}

// hidden and frozen are the maskedPaths and readonlyPaths of the OCI defaults below /proc (/sys isn't mounted).
var (
	hidden = []string{"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
		"/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats"}
	frozen = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)

// Sources finds what roots on this host may be made from: the system paths and the paths of /proc to guard as far as they are there, the
// devices, and each of show. A path of show or a device that isn't there is an error.
func Sources(show []string) ([]Source, error) {
	table, err := readTable()
	if err != nil {
		return nil, err
	}
	var sources []Source
	for _, path := range system {
		found, err := table.system(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		sources = append(sources, found...)
	}
	for _, path := range show {
		found, err := table.shown(path, sources)
		if err != nil {
			return nil, fmt.Errorf("show %q: %w", path, err)
		}
		for i := range found {
			found[i].For = path
		}
		sources = append(sources, found...)
	}
	for _, device := range devices {
		source, err := table.source(device.path, Device)
		if err != nil {
			return nil, err
		}
		if err := isDevice(device.path, device.major, device.minor); err != nil {
			return nil, err
		}
		sources = append(sources, source)
	}
	for use, paths := range map[string][]string{Hide: hidden, Freeze: frozen} {
		for _, path := range paths {
			stat, err := os.Lstat(path)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, err
			}
			sources = append(sources, Source{Path: path, Use: use, Root: strings.TrimPrefix(path, "/proc"), Dir: stat.IsDir()})
		}
	}
	slices.SortFunc(sources, func(a, b Source) int { return strings.Compare(a.Path, b.Path) })
	return sources, nil
}

// system is one of the default paths: a symlink stays one (/bin is usr/bin on most hosts), so that paths look as they do on the host.
func (t table) system(path string) ([]Source, error) {
	stat, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if stat.Mode()&fs.ModeSymlink != 0 {
		link, err := os.Readlink(path)
		if err != nil {
			return nil, err
		}
		return []Source{{Path: path, Use: Show, Link: link}}, nil
	}
	return t.tree(path)
}

// shown is one of the configured paths. Where it is or passes through a symlink, the sandbox gets a link from it to where it leads, and that.
func (t table) shown(path string, have []Source) ([]Source, error) {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path || path == "/" || path == "/etc" {
		return nil, errors.New("not a clean absolute path below /, or all of /etc; a sandbox has a root and an /etc of its own")
	}
	if reserved(path) {
		return nil, errors.New("is made by sandboxd in every sandbox")
	}
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	var found []Source
	if target != path && !covered(path, have) {
		found = append(found, Source{Path: path, Use: Show, Link: target})
	}
	if covered(target, have) {
		return found, nil
	}
	if reserved(target) || target == "/" || target == "/etc" {
		return nil, fmt.Errorf("leads to %s, which is made by sandboxd in every sandbox", target)
	}
	if err := withoutSockets(target); err != nil {
		return nil, err
	}
	tree, err := t.tree(target)
	return append(found, tree...), err
}

// reserved says that a sandbox has its own of it.
func reserved(path string) bool {
	for _, own := range []string{"/proc", "/dev", "/sys", "/tmp", "/work"} {
		if beneath(path, own) {
			return true
		}
	}
	return false
}

// covered says that path is shown already. A path that covers an earlier one isn't: the order of making puts it first.
func covered(path string, have []Source) bool {
	return slices.ContainsFunc(have, func(s Source) bool { return s.Link == "" && beneath(path, s.Path) })
}

// beneath says that path is dir or lies below it.
func beneath(path, dir string) bool {
	rest, ok := strings.CutPrefix(path, strings.TrimSuffix(dir, "/"))
	return ok && (rest == "" || rest[0] == '/')
}

// isDevice refuses what isn't the kernel's own device of that number, whatever its name.
func isDevice(path string, major, minor uint32) error {
	var stat unix.Stat_t
	if err := unix.Lstat(path, &stat); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return checkDevice(path, stat, major, minor)
}

func checkDevice(path string, stat unix.Stat_t, major, minor uint32) error {
	if stat.Mode&unix.S_IFMT != unix.S_IFCHR || unix.Major(stat.Rdev) != major || unix.Minor(stat.Rdev) != minor {
		return fmt.Errorf("%s: mode %o, device %d:%d; want the character device %d:%d",
			path, stat.Mode, unix.Major(stat.Rdev), unix.Minor(stat.Rdev), major, minor)
	}
	return nil
}
