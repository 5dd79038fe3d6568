package landlock

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// landlock_add_rule(2), which x/sys has no types for.
const ruleNetPort = 2 // LANDLOCK_RULE_NET_PORT

type netPortAttr struct {
	access uint64
	port   uint64
}

// ErrNothing refuses a ruleset that handles nothing: restricting oneself with it would look like a restriction.
var ErrNothing = errors.New("landlock: this ruleset handles nothing (ABI 0)")

// ABI asks the kernel for its version of Landlock; 0 where there is none.
func ABI() int {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0 // ENOSYS: not compiled in; EOPNOTSUPP: not in the list of LSMs
	}
	return int(abi)
}

// Create makes the ruleset. Paths are looked up now, in the caller's root; one that isn't there is an error. The descriptor is
// close-on-exec and can be used for any number of landlock_restrict_self calls. Nothing is left out: a right that this kernel doesn't
// know is the kernel's EINVAL.
func (r Ruleset) Create() (int, error) {
	if r.HandledFS == 0 && r.HandledNet == 0 && r.Scoped == 0 {
		return -1, ErrNothing
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: r.HandledFS, Handled_access_net: r.HandledNet, Scoped: r.Scoped}
	// The structure grew with the ABIs, and an older kernel refuses a longer one whose tail isn't zero: give it no more than is used.
	size := unsafe.Offsetof(attr.Handled_access_net)
	if r.HandledNet != 0 {
		size = unsafe.Offsetof(attr.Scoped)
	}
	if r.Scoped != 0 {
		size = unsafe.Offsetof(attr.Quiet_access_fs)
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return -1, fmt.Errorf("landlock_create_ruleset (ABI %d): %w", r.ABI, errno)
	}
	for _, rule := range r.Paths {
		if err := addPath(int(fd), rule); err != nil {
			unix.Close(int(fd))
			return -1, err
		}
	}
	for _, rule := range r.Ports {
		if err := addPort(int(fd), rule); err != nil {
			unix.Close(int(fd))
			return -1, err
		}
	}
	return int(fd), nil
}

func addPath(ruleset int, rule PathRule) error {
	fd, err := unix.Open(rule.Path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("landlock: rule for %s: %w", rule.Path, err)
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return fmt.Errorf("landlock: rule for %s: %w", rule.Path, err)
	}
	access := rule.Access
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		access &= file
	}
	if access == 0 {
		return fmt.Errorf("landlock: rule for %s: grants nothing that a file can have", rule.Path)
	}
	attr := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)}
	return add(ruleset, unix.LANDLOCK_RULE_PATH_BENEATH, unsafe.Pointer(&attr), rule.Path)
}

func addPort(ruleset int, rule PortRule) error {
	attr := netPortAttr{access: rule.Access, port: uint64(rule.Port)}
	return add(ruleset, ruleNetPort, unsafe.Pointer(&attr), fmt.Sprint("port ", rule.Port))
}

func add(ruleset int, kind uintptr, attr unsafe.Pointer, what string) error {
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), kind, uintptr(attr), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("landlock: rule for %s: %w", what, errno)
	}
	return nil
}

// RestrictSelf puts the calling thread, and whatever it starts, into a new domain. The thread must have no_new_privs or CAP_SYS_ADMIN.
func RestrictSelf(ruleset int) error {
	_, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset), 0, 0)
	if errno != 0 {
		return fmt.Errorf("landlock_restrict_self: %w", errno)
	}
	return nil
}
